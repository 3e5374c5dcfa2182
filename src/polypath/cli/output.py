"""What a command prints: results on stdout (one strict JSON object with `--json`), everything else on stderr."""

from __future__ import annotations

import contextlib
import csv
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from polypath.core.errors import UserError, missing_extra
from polypath.core.files import to_json


def say(text: str) -> None:
    """A remark to the user, on stderr."""
    print(text, file=sys.stderr, flush=True)


def emit(value: Mapping[str, Any]) -> None:
    """Print JSON data as one line of strict JSON on stdout: NaN is null."""
    print(to_json(value), flush=True)


def write_table(out: Path, rows: Sequence[Mapping[str, Any]], result: Mapping[str, Any] | None = None) -> None:
    """Rows as CSV or Parquet, or as JSON beside the whole result; what is undefined is empty or null.

    Raises UserError when the file cannot be written.
    """
    named = list(dict.fromkeys(name for row in rows for name in row))
    blank = [{name: None if _undefined(row.get(name)) else row[name] for name in named} for row in rows]
    try:
        if out.suffix.lower() == ".parquet":
            try:
                import pyarrow
                import pyarrow.parquet
            except ImportError:
                raise missing_extra(str(out), "pyarrow", "measure") from None
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(blank), out)
        elif out.suffix.lower() == ".csv":
            with out.open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, named)
                writer.writeheader()
                writer.writerows(blank)
        else:
            out.write_text(to_json({**(result or {}), "rows": blank}) + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(str(out), f"cannot be written ({error.strerror or error})", "Is the directory there?") from None


def _undefined(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


@contextlib.contextmanager
def results_only() -> Iterator[None]:
    """Within it, whatever a library prints goes to stderr, so that stdout carries nothing but the result."""
    with contextlib.redirect_stdout(sys.stderr):
        yield


def table(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Left-aligned text and right-aligned numbers under headers; an undefined number prints as a dash.

    >>> print(table(["name", "n"], [["a", 1], ["bb", 2.5]]))
    name    n
    a       1
    bb    2.5
    """
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(len(text) for text in column) for column in zip(headers, *cells, strict=True)]
    numeric = [
        bool(rows) and all(value is None or isinstance(value, int | float) for value in column)
        for column in (zip(*rows, strict=True) if rows else [()] * len(headers))
    ]
    lines = []
    for line in [list(headers), *cells]:
        padded = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if _undefined(value):
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def relative(path: Path) -> str:
    """A path as the user would type it: relative to the working directory where it lies inside."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
