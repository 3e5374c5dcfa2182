"""`polypath demo`: diversity collapse and its remedy, from recorded rollouts, in seconds and without torch."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from polypath.core.errors import UserError
from polypath.evaluate.compare import Comparison
from polypath.report.build import build_report
from polypath.report.console import render
from polypath.report.recording import load_recording

NEXT = """Next:
  polypath train quickstart --seeds 1   the same, trained on this machine in some minutes
  polypath measure FILE                 what your own rollouts look like"""


@dataclass(frozen=True)
class Shown:
    """What the demo has to show: the text for the terminal, the comparison behind it, and the page it wrote."""

    text: str
    comparison: Comparison
    page: Path


def demo(output: Path, *, recording: Path | None = None) -> Shown:
    """Compare the recorded runs, write the report to `output`, and return the table and the next two commands.

    Raises UserError when this installation has no recording.
    """
    recorded = load_recording(recording or shipped())
    report = build_report(
        recorded.runs,
        title=recorded.title,
        baseline=recorded.baseline,
        pairs=recorded.pairs or None,
        groups=recorded.groups,
    )
    page = report.write(output)
    text = "\n".join([recorded.title, "", render(report.comparison), "", f"Report: {page}", "", NEXT])
    return Shown(text, report.comparison, page)


def shipped() -> Path:
    """The first recording that comes with the package."""
    folder = Path(str(resources.files("polypath"))) / "recordings"
    found = sorted(folder.glob("*.jsonl.gz"))
    if not found:
        raise UserError("demo", "this installation has no recordings", "Run: polypath train quickstart --seeds 1")
    return found[0]
