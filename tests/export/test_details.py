"""The lines of field trees."""

from __future__ import annotations

from zmtpscope.dissect.details import Detail
from zmtpscope.export.details import tree_lines
from zmtpscope.zmtp.reader import FieldNode


def test_names_of_fields_are_made_safe_as_values_are() -> None:
    """Keys of MessagePack are names of fields and come from the network; plug-ins give what names they like."""
    leaf = FieldNode("messagepack.\x1b[31m\u202e\n", 0, 2, "\x1b[0m")
    tree = FieldNode("zmtp.body", 0, 2, None, [leaf])
    (_, line) = tree_lines(Detail(0, b"{}", tree, []), show_secrets=False)
    assert line.split() == ["messagepack.\\x1b[31m\\u202e\\x0a", "[0..1]", '"\\x1b[0m"']
