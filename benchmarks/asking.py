"""The cost of filters, fields, and records in Python, beside `read -q` of the same captures.

    python -m benchmarks.asking [--quick]

Commands are whole processes that run in turn. A ratio is the median of the ratios of adjacent runs. Conditions are
nanoseconds per row over batches in memory, the least of five runs. Prints a page.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator

from benchmarks.captures import Capture
from benchmarks.measure import in_turn
from benchmarks.setting import Setting
from benchmarks.tools import ZMTPSCOPE
from zmtpscope.capture import open_captures
from zmtpscope.dissect import Analyser, Options
from zmtpscope.filter import Filter
from zmtpscope.filter.selection import Selection

ROUNDS = 5

CONDITIONS = (
    "conn == 3",
    "packet > 1000",
    "size > 50",
    "parts == 2",
    "socket_type == PUB",
    "topic == topic-01",
    "topic contains -0",
    "topic matches '1$'",
    "bodies contains xyz",
)

ITERATE = """
import zmtpscope
for message in zmtpscope.read({path!r}):
    message.topic, message.size
"""
OPEN = """
import zmtpscope
len(zmtpscope.open({path!r}).filter("size > 50"))
"""


def main() -> None:
    """Measure, and print the page."""
    setting = Setting("--quick" in sys.argv, ROUNDS, None, None)
    captures = [setting.capture(name, name) for name in ("small", "pubsub")]
    print("\n".join([*commands(setting, captures), "", *conditions(setting, captures)]))


def commands(setting: Setting, captures: list[Capture]) -> Iterator[str]:
    """Measure each question beside `read -q`."""
    yield "| | " + " | ".join(setting.name(capture) for capture in captures) + " | memory |"
    yield "|---|" + "---|" * (len(captures) + 1)
    of_captures = [in_turn(_asked(str(capture.path)), setting.rounds) for capture in captures]
    for name in of_captures[0]:
        cells = []
        for costs in of_captures:
            pairs = zip(costs[name], costs["read -q"], strict=True)
            ratio = statistics.median(cost.cpu / counted.cpu for cost, counted in pairs)
            cells.append(f"{min(cost.cpu for cost in costs[name]):.2f} s, {ratio:.2f}")
        peak = max(cost.peak for costs in of_captures for cost in costs[name])
        yield f"| {name} | {' | '.join(cells)} | {peak >> 20} MiB |"


def _asked(path: str) -> dict[str, list[str]]:
    read = [ZMTPSCOPE, "read"]
    return {
        "read -q": [*read, "-q", path],
        "read -q -Y 'conn == 3'": [*read, "-q", "-Y", "conn == 3", path],
        "read -q -Y 'topic == topic-01'": [*read, "-q", "-Y", "topic == topic-01", path],
        "read -T fields -e topic -e size": [*read, "-T", "fields", "-e", "topic", "-e", "size", path],
        "read --json": [*read, "--json", path],
        "stats": [ZMTPSCOPE, "stats", path],
        "Python: read, topic and size of each": [sys.executable, "-c", ITERATE.format(path=path)],
        "Python: open, one filter": [sys.executable, "-c", OPEN.format(path=path)],
    }


def conditions(setting: Setting, captures: list[Capture]) -> Iterator[str]:
    """Return the cost of a condition per row."""
    yield "| `-Y`, ns a row | " + " | ".join(setting.name(capture) for capture in captures) + " |"
    yield "|---|" + "---|" * len(captures)
    of_captures = [list(_costs_of_conditions(str(capture.path))) for capture in captures]
    for condition, *costs in zip(CONDITIONS, *of_captures, strict=True):
        yield f"| `{condition}` | {' | '.join(f'{cost:.0f}' for cost in costs)} |"


def _costs_of_conditions(path: str) -> Iterator[float]:
    options = Options()
    batches = list(Analyser(options).run(open_captures([path])))
    rows = sum(len(run.orders) for batch in batches for run in batch.messages)
    for condition in CONDITIONS:
        filter = Filter(condition)
        costs = []
        for _ in range(ROUNDS):
            begin = time.process_time()
            for batch in batches:
                Selection(filter, batch, options, None).as_batch()
            costs.append(time.process_time() - begin)
        yield min(costs) / rows * 1e9


if __name__ == "__main__":
    main()
