"""Write a finished study's table into the README or another page, between its markers."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from polypath.evaluate.compare import Comparison
from polypath.evaluate.runs import compare_loaded, find_runs, load_run
from polypath.evaluate.shift_share import ShiftShare, shift_of_runs
from polypath.evaluate.stats import Estimate

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


def long_table(comparison: Comparison, shifts: dict[str, ShiftShare]) -> str:
    """One row per arm: its means, then what it differs from the baseline by, bold where the interval excludes zero."""
    base = comparison.baseline
    shown = ("pass@1", "pass@64", "distinct")
    head = [
        "arm",
        *(COLUMNS[name] for name in shown),
        *(f"{COLUMNS[name]} less {base}'s" for name in shown),
        "allocation",
        "skill",
        "tokens",
    ]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for arm in sorted(comparison.arms, key=lambda a: (a != "start", a != base, -comparison.value(a, "distinct").value)):
        cells = [f"{comparison.value(arm, name).value:.3f}" for name in shown]
        if arm == base:
            cells += [""] * 5
        else:
            negate = arm == "start"  # the comparison has baseline - start
            pair = (base, arm) if negate else (arm, base)
            differences = [comparison.difference(pair[0], n, baseline=pair[1]).bootstrap for n in shown]
            estimates = [*differences, shifts[arm].allocation, shifts[arm].skill]
            cells += [_signed(_negated(e) if negate else e) for e in estimates]
        tokens = comparison.tokens.get(arm, 0.0)
        cells.append(f"{tokens / comparison.tokens[base]:.3f}")
        lines.append(f"| {arm} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _negated(estimate: Estimate) -> Estimate:
    return Estimate(-estimate.value, -estimate.high, -estimate.low, estimate.n)


def _signed(estimate: Estimate) -> str:
    text = f"{estimate.value:+.3f} [{estimate.low:+.3f}, {estimate.high:+.3f}]"
    return f"**{text}**" if estimate.excludes_zero else text


def main() -> None:
    """Replace what stands between the markers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", type=Path)
    parser.add_argument("--page", type=Path, default=README)
    parser.add_argument("--marker", default="quickstart")
    parser.add_argument("--branch-words", type=int, default=0, help="One long row per arm, split by the first N words.")
    options = parser.parse_args()
    runs = [load_run(path) for path in find_runs([options.study])]
    comparison = compare_loaded(runs, baseline="grpo")
    written = table(comparison)
    if options.branch_words:
        pairs = {d.arm if d.baseline == "grpo" else d.baseline: (d.arm, d.baseline) for d in comparison.differences}
        shifts = {arm: shift_of_runs(runs, *pair, words=options.branch_words) for arm, pair in pairs.items()}
        written = long_table(comparison, shifts)
    begin = f"<!-- results: {options.marker} -->"
    block = f"{begin}\n{written}\n<!-- end results -->"
    text = options.page.read_text(encoding="utf-8")
    pattern = rf"{re.escape(begin)}.*?<!-- end results -->"
    options.page.write_text(re.sub(pattern, lambda _: block, text, flags=re.S), encoding="utf-8")


if __name__ == "__main__":
    main()
