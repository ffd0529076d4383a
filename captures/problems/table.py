"""The table of captures in captures/README.md, from their truth files.

python -m captures.problems.table
"""

from __future__ import annotations

import json
import pathlib

HERE = pathlib.Path(__file__).parent
README = HERE.parent / "README.md"
BEGIN, END = "<!-- table of problems -->\n", "<!-- end of the table of problems -->\n"


def row(path: pathlib.Path) -> str:
    """One line of the table: what it shows, and who is to blame or which rule it nearly is."""
    truth = json.loads(path.read_text())
    told = [f"{each['rule']}: {each['blames']}" for each in truth["diagnosis"]]
    if near := truth.get("near_miss_of"):
        told.append(f"not {near}")
    name = path.name.removesuffix(".truth.json")
    return f"| `{name}.pcap` | {truth['what']}; {truth['outcome']} | {'; '.join(told)} |\n"


def table() -> str:
    """All lines, by name."""
    rows = map(row, sorted(HERE.glob("*.truth.json")))
    return "| capture | what it shows; what came of it | diagnosis: who is to blame |\n|---|---|---|\n" + "".join(rows)


if __name__ == "__main__":
    text = README.read_text()
    head, rest = text.split(BEGIN)
    README.write_text(head + BEGIN + table() + END + rest.split(END)[1])
