"""docs/measure.md lists every measure as the registry has it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from polypath.core import registry

ROOT = Path(__file__).parents[2]


def test_the_table_of_measures_is_up_to_date():
    spec = importlib.util.spec_from_file_location("measure_page", ROOT / "scripts" / "measure_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (ROOT / "docs" / "measure.md").read_text(encoding="utf-8")
    assert module.page(text) == text, "run python scripts/measure_page.py"
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert all(any(row.startswith(f"| `{e.name}`") for row in rows) for e in registry.entries("measure"))
