"""Write a finished study's table into the README or another page, between its markers."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from polypath.evaluate.compare import Comparison
from polypath.evaluate.runs import compare_runs

README = Path(__file__).parents[1] / "README.md"
COLUMNS = {
    "pass@1": "pass@1",
    "pass@4": "pass@4",
    "pass@16": "pass@16",
    "pass@64": "pass@64",
    "distinct": "distinct solutions",
    "coverage": "coverage",
    "pairwise_difference": "two correct differ",
}
DIFFERENCES = ("pass@1", "pass@16", "pass@64", "distinct")


def table(comparison: Comparison) -> str:
    """Arms by metrics, then the paired differences with 95 % bootstrap intervals over seeds and problems.

    The baseline is compared with the start, every other arm with the baseline.
    """
    names = [name for name in COLUMNS if any(name in s.table for s in comparison.arms[comparison.baseline].values())]
    lines = ["| arm | " + " | ".join(COLUMNS[name] for name in names) + " |", "|---" * (len(names) + 1) + "|"]
    base = comparison.baseline
    arms = sorted(comparison.arms, key=lambda arm: (arm != "start", arm != base))
    for arm in arms:
        values = " | ".join(f"{comparison.value(arm, name).value:.3f}" for name in names)
        lines.append(f"| {arm} | {values} |")
    lines += ["", "| difference | " + " | ".join(COLUMNS[name] for name in DIFFERENCES) + " |", "|---" * 5 + "|"]
    for arm, baseline in [(base, "start"), *((arm, base) for arm in arms if arm not in ("start", base))]:
        found = [comparison.difference(arm, name, baseline=baseline).bootstrap for name in DIFFERENCES]
        values = " | ".join(f"{e.value:+.3f} [{e.low:+.3f}, {e.high:+.3f}]" for e in found)
        lines.append(f"| {arm} - {baseline} | {values} |")
    return "\n".join(lines)


def main() -> None:
    """Replace what stands between the markers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", type=Path)
    parser.add_argument("--page", type=Path, default=README)
    parser.add_argument("--marker", default="quickstart")
    options = parser.parse_args()
    comparison = compare_runs([options.study], baseline="grpo")
    begin = f"<!-- results: {options.marker} -->"
    block = f"{begin}\n{table(comparison)}\n<!-- end results -->"
    text = options.page.read_text(encoding="utf-8")
    pattern = rf"{re.escape(begin)}.*?<!-- end results -->"
    options.page.write_text(re.sub(pattern, lambda _: block, text, flags=re.S), encoding="utf-8")


if __name__ == "__main__":
    main()
