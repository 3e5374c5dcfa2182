"""The table of docs/measure.md, from the registry: `python scripts/measure_page.py` writes it between its two marks."""

from __future__ import annotations

from pathlib import Path

from polypath.core import registry
from polypath.diversity.marginals import LEAVE_ONE_OUT

PAGE = Path(__file__).parents[1] / "docs" / "measure.md"
START, END = "<!-- measures: written by scripts/measure_page.py -->\n", "<!-- end -->\n"
DIRECTIONS = {"more_is_diverse": "up", "less_is_diverse": "down"}


def table() -> str:
    """A row per measure: what it takes, its knobs, where it rises with diversity, its marginals, what it is."""
    lines = ["| measure | takes | knobs | more diverse | leave-one-out | what it is | source |", "|---" * 7 + "|"]
    for entry in registry.entries("measure"):
        knobs = ", ".join(f"{name}={about.get('default')}" for name, about in entry.knobs.items())
        direction = next((word for trait, word in DIRECTIONS.items() if trait in entry.traits), "-")
        marginal = "closed" if entry.name in LEAVE_ONE_OUT else "recomputed"
        name = f"`{entry.name}`" + (" (evaluation only)" if "evaluation_only" in entry.traits else "")
        cells = (name, ", ".join(entry.data), knobs, direction, marginal, entry.summary, entry.paper)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") or "-" for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def page(text: str) -> str:
    """The page with a fresh table."""
    head, _, rest = text.partition(START)
    return head + START + table() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
