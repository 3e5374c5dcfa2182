"""Rollout rows on disk: append-only JSON lines while a run goes on, Parquet after it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from polypath.core.errors import UserError, missing_extra
from polypath.core.files import JsonlWriter, atomic_write, numbered_rows, to_json
from polypath.core.record import SCHEMA_VERSION, Rollout

_SCHEMA_KEY, _JSON_KEY = b"polypath.schema", b"polypath.json_columns"


class RolloutWriter(JsonlWriter):
    """Appends rollouts, one group per call and one write per call. Raises UserError when the disk is full."""

    def write(self, rollouts: Iterable[Rollout]) -> None:  # type: ignore[override]
        """Append a group of rollouts and flush it to the disk."""
        super().write(rollout.to_row() for rollout in rollouts)


def read_rollouts(path: str | Path) -> list[Rollout]:
    """All rollouts of a JSONL file.

    A torn last line is left out with a TornLineWarning. Raises UserError, with the line, for a line that is not a
    rollout or that a newer version has written.
    """
    return [to_rollout(row, f"{path}:{number}") for number, row, _ in numbered_rows(Path(path))]


def to_rollout(row: dict[str, Any], where: str) -> Rollout:
    """A row as a rollout: null rewards become NaN. Raises UserError for missing columns or a newer schema."""
    check_schema(row.get("schema", SCHEMA_VERSION), where)
    try:
        rollout = Rollout.from_row(row)
    except KeyError as error:
        raise UserError(
            where, f"is not a rollout: no column {error.args[0]}", f"There are: {', '.join(row)}."
        ) from None
    rollout.rewards = {name: number(value) for name, value in rollout.rewards.items()}
    if rollout.logp_sampling is not None:
        rollout.logp_sampling = [number(value) for value in rollout.logp_sampling]
    return rollout


def number(value: Any) -> float:
    """A number as our JSON writes it: null is NaN, "inf" is infinite."""
    return math.nan if value is None else float(value)


def check_schema(version: Any, where: str) -> None:
    """Raises UserError when a newer version of polypath wrote the data."""
    if int(version) > SCHEMA_VERSION:
        what = f"has schema version {version}, and this polypath reads up to {SCHEMA_VERSION}"
        raise UserError(where, what, "Run: pip install --upgrade polypath")


def truncate_to(path: str | Path, step: int) -> int:
    """Drop all rows of `step` and later (for resuming before it), and a torn last line; returns how many rows went."""
    path = Path(path)
    if not path.exists():
        return 0
    kept, dropped = [], 0
    for _, row, line in numbered_rows(path):
        if row.get("step", 0) < step:
            kept.append(line)
        else:
            dropped += 1
    atomic_write(path, kept)
    return dropped


def to_parquet(jsonl: str | Path, parquet: str | Path) -> None:
    """Convert a JSONL file of rollouts. Unknown columns are kept, nested ones of them as JSON text."""
    write_parquet(read_rollouts(jsonl), parquet)


def write_parquet(rollouts: list[Rollout], parquet: str | Path) -> None:
    """Write rollouts as Parquet, with the schema version in its metadata."""
    pa, pq = _pyarrow(str(parquet))
    known = _known_types(pa)
    rows = [rollout.to_row() for rollout in rollouts]
    columns: dict[str, Any] = {}
    as_json: list[str] = []
    for name in dict.fromkeys(name for row in rows for name in row if name != "schema"):
        values = [row.get(name) for row in rows]
        if name in known:
            columns[name] = pa.array([_entries(value) for value in values], type=known[name])
        elif any(isinstance(value, dict | list) for value in values) or len({type(v) for v in values} - {_NONE}) > 1:
            columns[name] = pa.array([None if value is None else to_json(value) for value in values], type=pa.string())
            as_json.append(name)
        else:
            columns[name] = pa.array(values)
    metadata = {_SCHEMA_KEY: str(SCHEMA_VERSION), _JSON_KEY: json.dumps(as_json)}
    pq.write_table(pa.table(columns).replace_schema_metadata(metadata), parquet)


def from_parquet(path: str | Path) -> list[Rollout]:
    """Rollouts of a Parquet file that `to_parquet` wrote. Raises UserError for a newer schema version."""
    table = parquet_table(path)
    metadata = table.schema.metadata or {}
    check_schema(metadata.get(_SCHEMA_KEY, b"1").decode(), str(path))
    as_json = set(json.loads(metadata.get(_JSON_KEY, b"[]")))
    maps = {name for name, tp in zip(table.schema.names, table.schema.types, strict=True) if str(tp).startswith("map<")}
    rollouts = []
    rows = (row for batch in table.to_batches(max_chunksize=4096) for row in batch.to_pylist())
    for count, row in enumerate(rows):
        clean = {
            name: dict(value) if name in maps else json.loads(value) if name in as_json else value
            for name, value in row.items()
            if value is not None
        }
        rollouts.append(to_rollout(clean, f"{path} row {count}"))
    return rollouts


def parquet_table(path: str | Path) -> Any:
    """A Parquet file as a `pyarrow.Table`. Raises UserError for a file that is not one, or without pyarrow."""
    pa, pq = _pyarrow(str(path))
    try:
        return pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise UserError(str(path), f"cannot be read as Parquet ({error})", "Is the path right?") from error


_NONE = type(None)


def _entries(value: Any) -> Any:
    return list(value.items()) if isinstance(value, dict) else value


def _known_types(pa: Any) -> dict[str, Any]:
    """Arrow types of the nested columns of a rollout whose keys vary by row."""
    return {
        "rewards": pa.map_(pa.string(), pa.float64()),
        "tokens": pa.map_(pa.string(), pa.int64()),
        "spans": pa.map_(pa.string(), pa.list_(pa.int64())),
        "prompt_ids": pa.list_(pa.int64()),
        "ids": pa.list_(pa.int64()),
        "forced_mask": pa.list_(pa.int64()),
        "logp_sampling": pa.list_(pa.float64()),
    }


def _pyarrow(where: str) -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise missing_extra(where, "pyarrow", "measure") from None
    return pyarrow, pyarrow.parquet
