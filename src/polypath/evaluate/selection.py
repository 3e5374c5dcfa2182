"""A diverse, good subset of anybody's dataset: rows from a file, features for them, picks with their reasons."""

from __future__ import annotations

import hashlib
import inspect
import math
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from polypath.core import registry
from polypath.core.errors import UserError, did_you_mean, missing_extra
from polypath.core.importers import read_rows
from polypath.core.stages import parse_stage
from polypath.diversity.features import tokens
from polypath.diversity.selectors.common import Selection

Embed = Callable[[Sequence[str]], Any]
KERNEL_LIMIT = 20_000  # items above which no n x n similarity is built
TEXT_COLUMNS = ("text", "completion", "response", "output", "content", "question", "prompt")


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


@dataclass(frozen=True)
class Features:
    """Where a selector's inputs come from: an encoder or "hash" for `embed`, columns for the rest."""

    embed: Embed | str = "hash"
    text: str = ""
    quality: str = ""
    labels: str = ""


def select(table: Table, method: Any, features: Features, *, k: int) -> tuple[Selection, dict[str, Any]]:
    """Picks of a selector by name, or {name: knobs}, and the data that it was given.

    Raises UserError for an unknown selector or knob, and for a column that is missing or not what is needed.
    """
    named = {method: {}} if isinstance(method, str) else method
    spec = {name: {**knobs, "k": k} for name, knobs in named.items()}
    call = parse_stage({"selector": spec}, "select", ("selector",))
    entry = registry.entry("selector", call.name)
    optional = _optional(call.name)
    data: dict[str, Any] = {}
    for name in entry.data:
        found = _input(name, table, features, required=name not in optional)
        if found is not None:
            data[name] = found
    return call.bind()(**data), data


def _optional(name: str) -> set[str]:
    parameters = inspect.signature(registry.get("selector", name)).parameters
    return {key for key, p in parameters.items() if p.default is not inspect.Parameter.empty}


def _input(name: str, table: Table, features: Features, required: bool) -> Any:
    if name == "embeddings":
        return embeddings(table, features)
    if name == "similarity":
        if len(table) > KERNEL_LIMIT:
            what = f"{len(table)} items need a similarity of {len(table) ** 2 * 8 / 2**30:.0f} GiB"
            raise UserError("select", what, "Use dpp, k_center or mmr, which need none.")
        rows = np.asarray(embeddings(table, features), dtype=np.float64)
        return rows @ rows.T
    column = {"quality": features.quality, "labels": features.labels}.get(name) or ""
    if not column and name not in ("quality", "labels") and name in table.columns:
        column = name
    if not column:
        if required:
            option = f"--{name}" if name in ("quality", "labels") else f"a column '{name}'"
            raise UserError("select", f"this selector needs {name}", f"Give {option}.")
        return None
    return numbers(table, column) if name == "quality" else _column(table, column)


def numbers(table: Table, column: str) -> NDArray[np.float64]:
    """A column of numbers. Raises UserError naming the row that holds something else."""
    values = _column(table, column)
    found = np.empty(len(values))
    for i, value in enumerate(values):
        try:
            found[i] = math.nan if value is None else float(value)
        except (TypeError, ValueError):
            raise UserError(f"column {column}, row {i}", f"{value!r} is not a number") from None
    return found


def embeddings(table: Table, features: Features) -> Any:
    """Unit rows (n, d): a column of vectors ("column:NAME"), hashed n-grams ("hash"), or an encoder's."""
    if isinstance(features.embed, str) and features.embed.startswith("column:"):
        vectors = _column(table, features.embed.removeprefix("column:"))
        return vectors if isinstance(vectors, np.ndarray) else np.asarray(vectors, dtype=np.float64)
    texts = [str(value) for value in _column(table, features.text or _text_column(table))]
    return hashed(texts) if isinstance(features.embed, str) else np.asarray(features.embed(texts))


def hashed(texts: Iterable[str], *, dims: int = 512) -> NDArray[np.float32]:
    """Hashed word 1- and 2-grams with random signs, unit norm: surface similarity without a model. An empty text is
    a direction of its own.

    >>> rows = hashed(["a cat sat", "a cat sat", "dogs"])
    >>> round(float(rows[0] @ rows[1]), 3), abs(float(rows[0] @ rows[2])) < 0.5
    (1.0, True)
    """
    found = []
    for text in texts:
        words = tokens(text.lower())
        row = np.zeros(dims, dtype=np.float32)
        for gram in [*words, *pairwise(words), *([] if words else ["<empty>"])]:
            bits = int.from_bytes(hashlib.blake2b(repr(gram).encode(), digest_size=8).digest(), "big")
            row[bits % dims] += 1.0 if bits >> 63 else -1.0
        norm = float(np.linalg.norm(row))
        if norm == 0:  # every sign was cancelled
            row[0], norm = 1.0, 1.0
        found.append(row / norm)
    return np.stack(found) if found else np.zeros((0, dims), dtype=np.float32)


def _text_column(table: Table) -> str:
    for name in TEXT_COLUMNS:
        if name in table.columns:
            return name
    there = ", ".join(table.columns)
    raise UserError("select", f"no column is known to hold texts (there are: {there})", "Name one with --text.")


def _column(table: Table, name: str) -> Any:
    if name not in table.columns:
        raise UserError("select", f"there is no column '{name}'", did_you_mean(name, table.columns))
    return table.column(name)


def explain(selection: Selection, data: Mapping[str, Any]) -> list[str]:
    """Why each pick: the selector's reason, its quality, and the nearest of the earlier picks where rows are known."""
    rows = data.get("embeddings")
    words = []
    for place, index in enumerate(selection.indices):
        parts = [selection.reasons[place]] if selection.reasons else []
        if "quality" in data:
            parts.append(f"quality {float(data['quality'][index]):.3g}")
        if rows is not None and place:
            earlier = np.asarray(rows[selection.indices[max(0, place - 2000) : place]])
            cosine = earlier @ np.asarray(rows[index])
            near = int(np.argmax(cosine))
            parts.append(f"nearest pick {max(0, place - 2000) + near + 1} at cosine {float(cosine[near]):.2f}")
        words.append(", ".join(parts) or "first")
    return words
