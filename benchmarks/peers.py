"""What the benchmarks against peers share: rows of the table, and the command line that prints and keeps them.

A script that ends in `run(__doc__, {...})` and reports by `line` or `amount` is found by `page.py` and joins
docs/benchmarks.md by itself.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_rows: list[dict[str, Any]] = []


def line(task: str, peer: str, theirs: float, ours: float, agreement: object, aim: float | str) -> None:
    """One row: CPU seconds of both, their ratio, how far the results agree, and the ratio that was aimed at."""
    ratio, least = theirs / ours, _number(aim)
    met = None if least is None else ratio >= least
    shown = "-" if least is None else f">= {least:g}x"
    _add(task, peer, f"{theirs:.4g}", f"{ours:.4g}", f"**{ratio:.3g}x**", str(agreement), shown, met)


def amount(task: str, unit: str, ours: float, most: float | None, note: str = "") -> None:
    """One row without a peer: an amount that must not be above `most`."""
    met = None if most is None else ours <= most
    shown = "-" if most is None else f"<= {most:g} {unit.split()[0]}"
    _add(task, "-", "-", f"{ours:.3g} {unit}", "-", note, shown, met)


def _number(aim: float | str) -> float | None:
    found = re.search(r"\d+(\.\d+)?", str(aim))
    return float(found[0]) if found else None


def _add(*cells: Any) -> None:
    names = ("task", "peer", "theirs", "ours", "ratio", "agreement", "aim", "met")
    row = dict(zip(names, cells, strict=True))
    _rows.append(row)
    print(text(row), flush=True)


def text(row: Mapping[str, Any]) -> str:
    """A row as Markdown."""
    verdict = {True: "yes", False: "**no**", None: "-"}[row["met"]]
    return "| " + " | ".join([*(str(row[name]) for name in HEADER[:-1]), verdict]) + " |"


HEADER = ("task", "peer", "theirs", "ours", "ratio", "agreement", "aim", "met")
TITLES = "| task | peer | peer, CPU s | ours, CPU s | ratio | agreement or note | aim | met |\n" + "|---" * 8 + "|"


def run(description: str | None, parts: Mapping[str, Callable[[bool], None]]) -> None:
    """Run all parts, or those named by --only; a peer that is not installed is named and left out."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that the script runs")
    parser.add_argument("--only", choices=parts, action="append")
    parser.add_argument("--keep", type=Path, help="write the rows of each part into this JSON file, over older ones")
    options = parser.parse_args()
    print(TITLES)
    for name in options.only or parts:
        _rows.clear()
        try:
            parts[name](options.quick)
        except ModuleNotFoundError as error:
            print(f"| {name} | {error.name} (not installed) | - | - | - | - | - | - |")
        if options.keep and _rows:
            kept = json.loads(options.keep.read_text()) if options.keep.exists() else {}
            kept[name] = {"rows": list(_rows), "date": time.strftime("%Y-%m-%d")}
            ordered = {part: kept[part] for part in parts if part in kept}
            options.keep.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")
