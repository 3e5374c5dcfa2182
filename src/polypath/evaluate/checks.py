"""Checks of a run's course: is a metric beyond a bound, did it move, do two drift apart, do texts become alike."""

from __future__ import annotations

from collections.abc import Callable

from polypath.evaluate.summary import Summary
from polypath.evaluate.trace import Trace, Window, similarity

Check = Callable[[Trace], "str | bool | None"]  # the evidence; False for healthy; None where there is nothing to judge
NOISE = 2.0  # a change must exceed this many standard errors


def level(metric: str, bound: float, *, below: bool = False, magnitude: bool = False) -> Check:
    """Whether the metric at the end of the run is beyond `bound`; with `magnitude` its absolute value."""

    def check(trace: Trace) -> str | bool | None:
        end = trace.end(metric)
        if end is None:
            return None
        value = abs(end.mean) if magnitude else end.mean
        if not (value < bound if below else value > bound):
            return False
        return (
            f"{metric} is {_number(end.mean)} {_steps(end)} (healthy: {'at least' if below else 'at most'} {bound:g})"
        )

    return check


def change(metric: str, bound: float, *, relative: bool = False) -> Check:
    """Whether the metric moved by more than `bound` from the start to the end, downwards when `bound` is negative.

    `relative` is to the start. A move within the noise of the two windows is none, and one step alone shows nothing.
    """

    def check(trace: Trace) -> str | bool | None:
        start, end = trace.start(metric), trace.end(metric)
        if start is None or end is None or start.last >= end.first:
            return None
        if not moved(start, end, bound, relative=relative):
            return False
        return f"{metric} went from {_number(start.mean)} {_steps(start)} to {_number(end.mean)} {_steps(end)}"

    return check


def moved(start: Window, end: Window, bound: float, *, relative: bool = False) -> bool:
    """Whether the difference of two windows is beyond `bound` and beyond their noise."""
    difference = end.mean - start.mean
    limit = bound * abs(start.mean) if relative else bound
    noise = NOISE * (start.error**2 + end.error**2) ** 0.5
    return abs(difference) > noise and (difference > limit if bound > 0 else difference < limit)


def both(*checks: Check) -> Check:
    """Whether all checks find something; None when one of them cannot tell."""

    def check(trace: Trace) -> str | bool | None:
        found = [each(trace) for each in checks]
        if None in found:
            return None
        return "; ".join(map(str, found)) if all(found) else False

    return check


def silent(bound: float) -> Check:
    """Whether a method's diversity decides less than `bound` of its credit; the evidence says where it is lost.

    None for a method without a diversity signal, and where there was no credit at all.
    """

    def check(trace: Trace) -> str | bool | None:
        share, groups = trace.end("frac_signal_from_diversity"), trace.end("frac_moved_by_diversity")
        if share is None or groups is None:
            return None
        if share.mean >= bound:
            return False
        told = f"diversity makes up {_number(share.mean)} of the credit {_steps(share)} (healthy: at least {bound:g})"
        places = {
            "frac_moved_by_diversity": "it moves credit in {} of the groups",
            "frac_diversity_varies": "the signal differs between rollouts in {} of the groups",
            "diversity_gate_open": "its gate is open for {} of the rollouts",
        }
        ends = {name: trace.end(name) for name in places}
        return "; ".join(
            [told, *(places[name].format(_number(end.mean)) for name, end in ends.items() if end is not None)]
        )

    return check


def gap(over: str, under: str, bound: float) -> Check:
    """Whether the difference of two metrics grew by more than `bound` from the start to the end."""

    def check(trace: Trace) -> str | bool | None:
        windows = [side(metric) for metric in (over, under) for side in (trace.start, trace.end)]
        if None in windows:
            return None
        a0, a1, b0, b1 = (window for window in windows if window is not None)
        if a0.last >= a1.first:
            return None
        noise = NOISE * sum(window.error**2 for window in (a0, a1, b0, b1)) ** 0.5
        before, after = a0.mean - b0.mean, a1.mean - b1.mean
        if after - before <= max(bound, noise):
            return False
        return f"{over} - {under} went from {_number(before)} {_steps(a0)} to {_number(after)} {_steps(a1)}"

    return check


def largest_k_falls(bound: float) -> Check:
    """Whether the best of the most samples got worse by more than `bound` while single samples did not.

    Of the first and the last evaluation during training, paired over their problems: the fall must exceed its noise.
    """

    def check(trace: Trace) -> str | bool | None:
        if trace.evaluations is None:
            return None
        before, after = trace.evaluations
        if (
            before.ks != after.ks
            or before.prompt_ids != after.prompt_ids
            or before.ks[:1] != (1,)
            or len(before.ks) < 2
        ):
            return None
        single, best = (difference(after, before, f"pass@{k}") for k in (1, before.ks[-1]))
        if not (single[0] >= 0 and best[0] < -max(bound, NOISE * best[1])):
            return False
        told = [
            f"pass@{k} went from {_number(before.mean(f'pass@{k}').value)} to {_number(after.mean(f'pass@{k}').value)}"
            for k in (1, before.ks[-1])
        ]
        return f"{'; '.join(told)} on the same {len(before.prompt_ids)} problems (standard error {_number(best[1])})"

    return check


def difference(after: Summary, before: Summary, column: str) -> tuple[float, float]:
    """Mean paired difference over prompts, and its standard error."""
    gaps = after[column] - before[column]
    return float(gaps.mean()), float(gaps.std(ddof=1) / len(gaps) ** 0.5) if len(gaps) > 1 else 0.0


def texts_converge(bound: float) -> Check:
    """Whether the rollouts of a group became more alike in their words, by the groups at both ends of the file."""

    def check(trace: Trace) -> str | bool | None:
        (before, error0, n0), (after, error1, n1) = similarity(trace.early), similarity(trace.late)
        steps = [{row.step for group in part for row in group} for part in (trace.early, trace.late)]
        if not (n0 and n1) or steps[0] & steps[1]:
            return None
        if after - before <= max(bound, NOISE * (error0**2 + error1**2) ** 0.5):
            return False
        return (
            f"the texts of a group share {_number(before)} of their word pairs at first ({n0} groups) and "
            f"{_number(after)} at last ({n1} groups)"
        )

    return check


def _number(value: float) -> str:
    return f"{value:.3g}"


def _steps(window: Window) -> str:
    if window.n == 1:
        return f"at step {window.first}"
    return f"in steps {window.first}-{window.last}"
