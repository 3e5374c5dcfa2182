"""Tables to select from: rows in memory, or a Parquet file whose vectors stay on the disk."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from polypath.core.errors import UserError, missing_extra
from polypath.core.importers import read_rows


class Table(Protocol):
    """Rows by name of column."""

    columns: list[str]

    def __len__(self) -> int:
        """How many rows."""
        ...

    def column(self, name: str) -> Any:
        """All values of one column."""
        ...

    def take(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """Whole rows, in the order of the indices."""
        ...


class Rows:
    """A table that is held in memory."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows
        self.columns = list(dict.fromkeys(name for row in rows for name in row))

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> list[Any]:
        """All values of one column, None where a row lacks it."""
        return [row.get(name) for row in self.rows]

    def take(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """Whole rows, in the order of the indices."""
        return [self.rows[i] for i in indices]


class Parquet:
    """A table that stays on the disk: columns are read one at a time, vectors into a memory-mapped file."""

    def __init__(self, path: Path) -> None:
        try:
            from pyarrow import ArrowInvalid
            from pyarrow.parquet import ParquetFile
        except ImportError:
            raise missing_extra(str(path), "pyarrow", "measure") from None
        try:
            self.file = ParquetFile(path)
        except (OSError, ArrowInvalid) as error:
            raise UserError(str(path), f"cannot be read as Parquet ({error})", "Is the path right?") from error
        self.columns = list(self.file.schema_arrow.names)
        self.folder = tempfile.TemporaryDirectory(prefix="polypath-select-")

    def __len__(self) -> int:
        return int(self.file.metadata.num_rows)

    def column(self, name: str) -> Any:
        """All values of one column; vectors as a float32 array (n, d) on the disk, scaled to norm 1."""
        kind = self.file.schema_arrow.field(name).type
        if not hasattr(kind, "value_type"):
            return [v for batch in self.file.iter_batches(columns=[name]) for v in batch.column(0).to_pylist()]
        rows: NDArray[np.float32] | None = None
        at = 0
        for batch in self.file.iter_batches(columns=[name], batch_size=16_384):
            part = np.asarray(batch.column(0).flatten(), dtype=np.float32)
            if len(part) % len(batch) or (rows is not None and part.size != len(batch) * rows.shape[1]):
                raise UserError(
                    f"column {name}", f"holds vectors of different length near row {at}", "Make them equal."
                )
            part = part.reshape(len(batch), -1)
            if rows is None:
                shape = (len(self), part.shape[1])
                rows = np.memmap(Path(self.folder.name, "rows"), np.float32, "w+", shape=shape)
            norms = np.linalg.norm(part, axis=1, keepdims=True)
            rows[at : at + len(part)] = part / np.where(norms > 0, norms, 1)
            at += len(part)
        return np.zeros((0, 0), np.float32) if rows is None else rows

    def take(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """Whole rows, in the order of the indices; only the row groups that hold them are read."""
        wanted = sorted(set(indices))
        found: dict[int, dict[str, Any]] = {}
        start = 0
        for number in range(self.file.num_row_groups):
            size = self.file.metadata.row_group(number).num_rows
            inside = [i - start for i in wanted if start <= i < start + size]
            if inside:
                part = self.file.read_row_group(number).take(inside).to_pylist()
                found.update(zip((start + i for i in inside), part, strict=True))
            start += size
        return [found[i] for i in indices]


def load_table(path: Path) -> Table:
    """Any JSONL, JSON, CSV, TSV or Parquet file, every column kept. Raises UserError for an empty one."""
    table: Table = Parquet(path) if path.suffix == ".parquet" else Rows([dict(row) for _, row in read_rows(path)])
    if not len(table):
        raise UserError(str(path), "has no rows", "Give a file with at least one.")
    return table
