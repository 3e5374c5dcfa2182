"""The terminal's table of a comparison: arms and their values, then the paired differences with intervals."""

from __future__ import annotations

from collections.abc import Sequence

from polypath.evaluate.compare import Comparison, Difference
from polypath.evaluate.stats import Estimate
from polypath.report.figure import number
from polypath.report.figures import frontier_text

SHOWN_KS = (1, 4, 16, 64)
COLUMNS = {  # column of a summary -> header
    "distinct": "distinct",
    "coverage": "coverage",
    "pairwise_difference": "differ",
    "length": "length",
}


def render(comparison: Comparison, *, ks: Sequence[int] = SHOWN_KS) -> str:
    """The whole table as plain text."""
    metrics = shown_metrics(comparison, ks)
    rows = [[arm, *(number(comparison.value(arm, m).value) for m in metrics)] for arm in comparison.arms]
    parts = [aligned(["arm", *(COLUMNS.get(m, m) for m in metrics)], rows), "", describe_sample(comparison)]
    compared = [m for m in metrics if m != "length"]
    for arm, baseline in dict.fromkeys((d.arm, d.baseline) for d in comparison.differences):
        differences = [comparison.difference(arm, m, baseline=baseline) for m in compared]
        parts += ["", f"{arm} - {baseline}", aligned(*_difference_rows(differences))]
    if comparison.differences:
        parts += ["", INTERVALS]
    if len(comparison.arms) > 1:
        parts += ["", frontier_text(comparison)]
    parts += [f"Note: {note}." for note in comparison.notes]
    return "\n".join(parts)


INTERVALS = (
    "Intervals are 95 %. Bootstrap: seeds and problems resampled. t: over seeds, or over problems with one seed.\n"
    "p: of the t test, adjusted for the number of pairs (Holm). "
    "* the bootstrap interval excludes zero; = all seeds agree in sign."
)


def shown_metrics(comparison: Comparison, ks: Sequence[int] = SHOWN_KS) -> list[str]:
    """The columns of the table that every summary has: the budgets `ks`, then `COLUMNS`."""
    summaries = [s for runs in comparison.arms.values() for s in runs.values()]
    wanted = [*(f"pass@{k}" for k in ks), *COLUMNS]
    return [name for name in wanted if all(name in s.table for s in summaries)]


def describe_sample(comparison: Comparison) -> str:
    """How much was sampled: seeds, problems and samples, and the tokens that each arm generated."""
    summaries = [s for runs in comparison.arms.values() for s in runs.values()]
    problems = _span([len(s.prompt_ids) for s in summaries])
    samples = _span([int(n) for s in summaries for n in (s["samples"].min(initial=1e9), s["samples"].max(initial=0))])
    seeds = _span([len(runs) for runs in comparison.arms.values()])
    text = f"{seeds} seed(s), {problems} problems, {samples} samples of each problem."
    if comparison.tokens:
        text += "\nGenerated tokens per run: " + ", ".join(f"{a} {n:,.0f}" for a, n in comparison.tokens.items()) + "."
    return text


def interval(e: Estimate, *, sign: bool = True) -> str:
    """`[low, high]`, or nothing when there is no interval."""
    return f"[{number(e.low, sign=sign)}, {number(e.high, sign=sign)}]" if e.low == e.low else ""


def probability(p: float) -> str:
    """A p-value; a dash when it is undefined.

    >>> probability(0.0421), probability(1e-9)
    ('0.042', '<0.001')
    """
    return "<0.001" if p < 0.0005 else number(p)


def aligned(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of text: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    lines = []
    for row in (headers, *rows):
        first, *rest = (
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join([first, *rest]).rstrip())
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _difference_rows(differences: Sequence[Difference]) -> tuple[list[str], list[list[str]]]:
    rows = []
    for d in differences:
        marks = ("*" if d.bootstrap.excludes_zero else "") + ("=" if d.same_sign and len(d.per_seed) > 1 else "")
        name = COLUMNS.get(d.metric, d.metric)
        rows.append(
            [name, number(d.value, sign=True), interval(d.bootstrap), interval(d.t), probability(d.p_holm), marks]
        )
    return ["", "difference", "bootstrap", "t", "p Holm", ""], rows


def _span(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low}-{high}"
