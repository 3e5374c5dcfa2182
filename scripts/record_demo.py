"""Record finished runs for `polypath demo`: counts of solutions per prompt, curves, and the texts of a few groups.

python scripts/record_demo.py runs/quickstart-3 --output src/polypath/recordings/countdown.jsonl.gz
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from polypath.evaluate.runs import find_runs, load_run
from polypath.report.recording import save_recording

LIMIT = 1_500_000  # bytes: what the package may grow by


def main() -> int:
    """Read the runs and write the recording; 1 when it is too large to ship."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", nargs="+", type=Path, help="run directories, or studies that hold them")
    parser.add_argument("--output", type=Path, default=Path("src/polypath/recordings/countdown.jsonl.gz"))
    parser.add_argument("--title", default="Countdown: reinforcement learning and the number of ways to be right")
    parser.add_argument("--baseline", default="grpo", help="the arm that others are compared with")
    parser.add_argument("--pair", action="append", default=[], help="ARM=BASELINE; repeatable, replaces --baseline")
    given = parser.parse_args()
    runs = [load_run(path) for path in find_runs(given.runs)]
    pairs = [(arm, baseline) for arm, _, baseline in (pair.partition("=") for pair in given.pair)]
    path = save_recording(runs, given.output, title=given.title, baseline=given.baseline, pairs=pairs)
    print(f"{path}: {path.stat().st_size:,} bytes, {len(runs)} runs")
    return int(path.stat().st_size > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
