"""Print the captures of folders, one per line: the name, the traffic and the diagnosis, from their truth files.

python -m captures.contents [FOLDER]...
"""

from __future__ import annotations

import json
import pathlib
import sys

HERE = pathlib.Path(__file__).parent


def line(path: pathlib.Path) -> str:
    """Format one capture: its name, what it shows, how it was made, and the diagnosis or its near miss."""
    truth = json.loads(path.read_text())
    name = path.relative_to(HERE).as_posix().removesuffix(".truth.json")
    verdicts = [f"{each['rule']}: {each['blames']}" for each in truth.get("diagnosis", [])]
    if near_miss := truth.get("near_miss_of"):
        verdicts.append(f"not {near_miss}")
    facts = [truth[key] for key in ("what", "outcome", "made") if key in truth]
    return f"{name}: " + "; ".join(facts + verdicts)


if __name__ == "__main__":
    for folder in sys.argv[1:] or ["."]:
        for path in sorted((HERE / folder).rglob("*.truth.json")):
            print(line(path))
