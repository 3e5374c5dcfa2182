"""From a run's course to named diagnoses: what is wrong, the numbers that say so, and what to try."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from polypath.evaluate.pathologies import PATHOLOGIES, Pathology
from polypath.evaluate.strategy_follow import StrategyFollow, strategy_follow
from polypath.evaluate.trace import Trace


@dataclass(frozen=True)
class Diagnosis:
    """A pathology that a run has, with the numbers that say so."""

    name: str
    meaning: str
    evidence: str
    stage: str
    remedies: tuple[str, ...]


@dataclass(frozen=True)
class Findings:
    """What was found in a run, what was checked and healthy, and what could not be checked for want of a metric."""

    run: str
    steps: int
    diagnoses: list[Diagnosis]
    healthy: list[str]
    unknown: list[str]
    strategies: StrategyFollow | None = None  # of the last steps' rollouts that were written in contexts

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def diagnose(trace: Trace, pathologies: Sequence[Pathology] = PATHOLOGIES) -> Findings:
    """Check a run for every known pathology, or for the given ones."""
    found, healthy, unknown = [], [], []
    for each in pathologies:
        evidence = each.check(trace)
        if evidence is None:
            unknown.append(each.name)
        elif isinstance(evidence, str):
            found.append(Diagnosis(each.name, each.meaning, evidence, each.stage, each.remedies))
        else:
            healthy.append(each.name)
    followed = strategy_follow([row for group in trace.late for row in group])
    return Findings(str(trace.path), len(trace.training), found, healthy, unknown, followed)
