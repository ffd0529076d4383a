"""A compressed trie of topics or groups with counts, which finds all prefixes of a name.

Only built-in types and at most two nodes for each name are used, so the memory that a hostile side can occupy is known
(`size`).
"""

from __future__ import annotations

from collections.abc import Iterator

NODE_COST = 240
"""Octets of a node without its label: measured averages are 90 to 280."""


class _Node:
    __slots__ = ("children", "count", "label")

    def __init__(self, label: bytes, count: int) -> None:
        self.label = label
        """Octets between the parent node and this one."""
        self.count = count
        """Number of times that the name that ends here was added."""
        self.children: dict[int, _Node] | None = None


class Trie:
    __slots__ = ("_labels", "_nodes", "_root")

    def __init__(self) -> None:
        self._root = _Node(b"", 0)
        self._nodes = self._labels = 0

    def __iter__(self) -> Iterator[bytes]:
        waiting = [(b"", self._root)]
        while waiting:
            above, node = waiting.pop()
            name = above + node.label
            if node.count:
                yield name
            waiting += [(name, child) for child in (node.children or {}).values()]

    @property
    def size(self) -> int:
        return self._labels + self._nodes * NODE_COST

    def add(self, name: bytes) -> None:
        node, at = self._root, 0
        while at < len(name):
            if node.children is None:
                node.children = {}
            child = node.children.get(name[at])
            if child is None:
                node.children[name[at]] = _Node(name[at:], 1)
                self._nodes += 1
                self._labels += len(name) - at
                return
            if not name.startswith(child.label, at):
                child = node.children[name[at]] = self._split(child, _common(child.label, name[at:]))
            at += len(child.label)
            node = child
        node.count += 1

    def remove(self, name: bytes) -> None:
        """Subtract one from the count of a name. Raises `KeyError` for an unknown name."""
        path = self._path(name)
        if not path or not path[-1].count:
            raise KeyError(name)
        node = path.pop()
        node.count -= 1
        if node.count or not path:
            return
        if node.children is None:
            self._cut_off(path[-1], node)
            node = path.pop()
        if path:
            self._join(path[-1], node)

    def count(self, name: bytes) -> int:
        path = self._path(name)
        return path[-1].count if path else 0

    def has_prefix_of(self, name: bytes) -> bool:
        """Whether any name in the trie is a prefix of `name`."""
        node, at, size = self._root, 0, len(name)
        while not node.count:
            children = node.children
            if children is None or at == size:
                return False
            child = children.get(name[at])
            if child is None or not name.startswith(child.label, at):
                return False
            at += len(child.label)
            node = child
        return True

    def longest_prefix_of(self, name: bytes) -> bytes | None:
        """Return the longest name in the trie that is a prefix of `name`, or None."""
        node, at, longest = self._root, 0, None
        while True:
            if node.count:
                longest = at
            child = node.children.get(name[at]) if node.children is not None and at < len(name) else None
            if child is None or not name.startswith(child.label, at):
                return None if longest is None else name[:longest]
            at += len(child.label)
            node = child

    def prefixes_of(self, name: bytes) -> list[bytes]:
        """Return all names in the trie that are prefixes of `name`, shortest first."""
        node, at, found = self._root, 0, list[int]()
        while True:
            if node.count:
                found.append(at)
            child = node.children.get(name[at]) if node.children is not None and at < len(name) else None
            if child is None or not name.startswith(child.label, at):
                return [name[:size] for size in found]
            at += len(child.label)
            node = child

    def _path(self, name: bytes) -> list[_Node]:
        """Return the nodes from the root to the one for `name`; empty if the trie lacks it."""
        path, at = [self._root], 0
        while at < len(name):
            children = path[-1].children
            child = children.get(name[at]) if children is not None else None
            if child is None or not name.startswith(child.label, at):
                return []
            at += len(child.label)
            path.append(child)
        return path

    def _split(self, node: _Node, at: int) -> _Node:
        """Split the label of a node at index `at`; return the new upper node."""
        middle = _Node(node.label[:at], 0)
        node.label = node.label[at:]
        middle.children = {node.label[0]: node}
        self._nodes += 1
        return middle

    def _cut_off(self, above: _Node, node: _Node) -> None:
        children = above.children
        assert children is not None
        del children[node.label[0]]
        self._nodes -= 1
        self._labels -= len(node.label)
        left = len(children)
        if not left & (left - 1):  # a dictionary never shrinks by itself
            above.children = dict(children) if left else None

    def _join(self, above: _Node, node: _Node) -> None:
        """Merge `node` with its only child, unless `node` is a name itself."""
        if node.count or node.children is None or len(node.children) > 1:
            return
        (child,) = node.children.values()
        child.label = node.label + child.label
        assert above.children is not None
        above.children[child.label[0]] = child
        self._nodes -= 1


def _common(one: bytes, other: bytes) -> int:
    size = min(len(one), len(other))
    differs = int.from_bytes(one[:size], "big") ^ int.from_bytes(other[:size], "big")
    return size - (differs.bit_length() + 7) // 8
