"""Rollout rows for the tests, importable by the subprocesses that are killed."""

from polypath.core.record import Rollout


def group(step: int) -> list[Rollout]:
    """A group of three, with characters that careless readers take for line ends."""
    return [
        Rollout("p", f"{step}:p", index, f"text {step}.{index} é\u2028😀", step=step, rewards={"exact": float(index)})
        for index in range(3)
    ]
