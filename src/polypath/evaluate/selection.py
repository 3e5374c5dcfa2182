"""A diverse, good subset of anybody's dataset: rows from a file, features for them, picks with their reasons."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polypath.core.errors import UserError, did_you_mean
from polypath.diversity.features import tokens
from polypath.diversity.selections import Recipe, build, run, run_groups
from polypath.diversity.selectors.common import Selection
from polypath.evaluate.tables import Table

Embed = Callable[[Sequence[str]], Any]
KERNEL_LIMIT = 20_000  # items above which no n x n similarity is built
TEXT_COLUMNS = ("text", "completion", "response", "output", "content", "question", "prompt")
ANY_VALUE = ("labels", "sets", "attributes", "steps", "sequences", "sources")  # what need not be numbers
ASKED = ("quality", "labels")  # never taken from a column that happens to have that name


@dataclass(frozen=True)
class Features:
    """Where a selection's inputs come from: an encoder, "hash" or "column:NAME" for `embed`, the rest from columns.

    `columns` says what the file calls a field, as in {"text": "body", "quality": "score", "labels": "topic"}.
    """

    embed: Embed | str = "hash"
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Picked:
    """The picks, the fields they were made from, and for a selection within groups the group of each pick."""

    found: Selection
    fields: Mapping[str, Any]
    groups: list[Hashable] = field(default_factory=list)


def select(
    table: Table, method: Any, features: Features, *, k: int, chosen: Sequence[int] = (), by: str = ""
) -> Picked:
    """Picks of a selector or recipe by name, or {name: knobs}; those `chosen` first; `k` within every group of `by`.

    Raises UserError for an unknown method or knob, and for a column that is missing or not what is needed.
    """
    recipe = build(method)
    fields = gather(recipe, table, features, grouped=bool(by))
    if not by:
        return Picked(run(recipe, fields, k=k, chosen=chosen), fields)
    found = run_groups(recipe, fields, [_hashable(label) for label in _column(table, by)], k=k, chosen=chosen)
    picks = Selection([], [], [])
    groups: list[Hashable] = []
    for group in found:
        picks.indices.extend(group.found.indices)
        picks.gains.extend(group.found.gains)
        picks.reasons.extend(group.found.reasons or [""] * len(group.found))
        groups.extend([group.label] * len(group.found))
    return Picked(picks, fields, groups)


def gather(recipe: Recipe, table: Table, features: Features, *, grouped: bool = False) -> dict[str, Any]:
    """The fields that a recipe takes, from the columns of a table and the encoder.

    Raises UserError for a field that is needed and not there, and for a column that the recipe has no use for.
    """
    given = set(features.columns) - {"text"}
    takes = {name for stage in recipe.stages for name in stage.takes.values()}
    for name in sorted(given - takes):
        known = takes - {"embed", "embeddings", "similarity", "texts"}
        raise UserError(recipe.name, f"takes no {name}", did_you_mean(name, known) if known else "Leave it out.")
    needs = {**recipe.needs(given), **dict.fromkeys(sorted(given), True)}
    found: dict[str, Any] = {}
    for name, required in needs.items():
        value = _input(name, table, features, required, grouped)
        if value is not None:
            found["embeddings" if name == "similarity" and name not in features.columns else name] = value
    return found


def _input(name: str, table: Table, features: Features, required: bool, grouped: bool) -> Any:
    if name == "embeddings":
        return embeddings(table, features)
    if name == "texts":
        return texts(table, features)
    if name == "items":
        return range(len(table))
    if name == "embed":
        return features.embed if callable(features.embed) else hashed
    if name == "similarity" and name not in features.columns:
        if len(table) > KERNEL_LIMIT and not grouped:
            what = f"{len(table)} items need a similarity of {len(table) ** 2 * 8 / 2**30:.0f} GiB"
            raise UserError("select", what, "Use dpp, k_center or mmr, which need none, or select within groups.")
        return np.asarray(embeddings(table, features), dtype=np.float64)
    column = features.columns.get(name) or ("" if name in ASKED or name not in table.columns else name)
    if column:
        values = _column(table, column)
        return values if name in ANY_VALUE else numbers(values, column)
    if required:
        fix = {"quality": "Give --quality COLUMN.", "labels": "Give --column labels=COLUMN."}
        raise UserError("select", f"this selector needs {name}", fix.get(name, f"Give a column '{name}'."))
    return None


def numbers(values: Any, column: str) -> Any:
    """A column of numbers (n,), or of lists of them as they are. Raises UserError naming the row of something else."""
    if isinstance(values, np.ndarray):
        return values
    found: list[Any] = []
    for i, value in enumerate(values):
        try:
            found.append(_number(value))
        except (TypeError, ValueError):
            raise UserError(f"column {column}, row {i}", f"{value!r} is not a number") from None
    if not any(isinstance(value, list) for value in found):
        return np.asarray(found, dtype=np.float64)
    try:
        return np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError):
        return found


def _number(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_number(one) for one in value]
    return math.nan if value is None or value == "" else float(value)


def embeddings(table: Table, features: Features) -> Any:
    """Unit rows (n, d): a column of vectors ("column:NAME"), hashed n-grams ("hash"), or an encoder's."""
    if isinstance(features.embed, str) and features.embed.startswith("column:"):
        name = features.embed.removeprefix("column:")
        vectors = _column(table, name)
        return vectors if isinstance(vectors, np.ndarray) else vector_rows(vectors, name)
    return features.embed(texts(table, features)) if callable(features.embed) else hashed(texts(table, features))


def vector_rows(vectors: Sequence[Any], column: str) -> NDArray[np.float64]:
    """Lists of numbers as (n, d). Raises UserError naming the row that has no vector, or one of another length."""
    width = len(vectors[0]) if len(vectors) and isinstance(vectors[0], list) else 0
    for i, vector in enumerate(vectors):
        if not isinstance(vector, list) or len(vector) != width or not width:
            what = f"holds {len(vector)} numbers, not {width}" if isinstance(vector, list) else "is no list of numbers"
            raise UserError(f"column {column}, row {i}", what, "Give every row a vector of the same length.")
    try:
        return np.asarray(vectors, dtype=np.float64)
    except (TypeError, ValueError):
        raise UserError(f"column {column}", "holds something else than numbers", "Give lists of numbers.") from None


def texts(table: Table, features: Features) -> list[str]:
    """The texts of all rows; a missing one is empty."""
    column = features.columns.get("text") or features.columns.get("texts") or _text_column(table)
    return ["" if value is None else str(value) for value in _column(table, column)]


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
    what = f"no column is known to hold texts (there are: {there})"
    raise UserError("select", what, "Name one with --column text=NAME.")


def _column(table: Table, name: str) -> Any:
    if name not in table.columns:
        raise UserError("select", f"there is no column '{name}'", did_you_mean(name, table.columns))
    return table.column(name)


def _hashable(value: Any) -> Hashable:
    return value if isinstance(value, Hashable) else str(value)


def included(given: str, table: Table, rows: Sequence[Mapping[str, Any]] | None = None) -> list[int]:
    """The rows that a selection begins with: `rows` of another table, or numbers and ids as "3,17,q-9".

    A row of an earlier selection is found by its `id` where both tables have one, else by its `row`. Raises UserError
    for what is not in this table, or there twice.
    """
    if rows is None:
        wanted: list[Any] = [part.strip() for part in given.split(",") if part.strip()]
        by_id = "id" in table.columns and not all(part.isdigit() for part in wanted)
    else:
        by_id = "id" in table.columns and all("id" in row for row in rows)
        key = "id" if by_id else "row"
        wanted = [row.get(key) for row in rows]
    places: dict[str, int] = {}
    for i, value in enumerate(table.column("id") if by_id else range(len(table))):
        if places.setdefault(str(value), i) != i and any(str(one) == str(value) for one in wanted):
            raise UserError("--include", f"the id '{value}' is there twice", "Give row numbers.")
    for one in wanted:
        if str(one) not in places:
            fix = did_you_mean(str(one), places) if by_id else "Give rows by number, or a file that select wrote."
            raise UserError("--include", f"there is no row with {'id' if by_id else 'number'} {one}", fix)
    return [places[str(one)] for one in wanted]


def explain(picked: Picked) -> list[str]:
    """Why each pick: its group, the selector's reason, its quality, and the nearest of the group's earlier picks."""
    found, fields = picked.found, picked.fields
    rows, quality = fields.get("embeddings"), fields.get("quality")
    earlier: dict[Hashable, list[int]] = {}
    words = []
    for place, index in enumerate(found.indices):
        group = picked.groups[place] if picked.groups else ""
        parts = [f"group {group}"] if picked.groups else []
        parts += [found.reasons[place]] if found.reasons and found.reasons[place] else []
        if quality is not None:
            parts.append(f"quality {float(quality[index]):.3g}")
        before = earlier.setdefault(group, [])[-2000:]
        if rows is not None and before:
            cosine = _cosines(rows, before, index)
            near = int(np.argmax(cosine))
            parts.append(f"nearest pick is row {before[near]} at cosine {float(cosine[near]):.2f}")
        earlier[group].append(index)
        words.append(", ".join(parts))
    return words


def _cosines(rows: Any, before: list[int], index: int) -> NDArray[np.floating]:
    one, others = np.asarray(rows[index]), np.asarray(rows[before])
    norms = np.linalg.norm(others, axis=1) * np.linalg.norm(one)
    return np.asarray(others @ one / np.where(norms > 0, norms, 1))
