"""The data that measures name, from the rows of a file: columns, and what follows from texts, models, other files."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from polypath.core.errors import UserError
from polypath.evaluate.measure_inputs import INPUTS
from polypath.evaluate.measure_sources import MATRICES, Group, Rows, Sources, matrix, parsed


def missing(names: Collection[str], rows: Rows, sources: Sources) -> UserError | None:
    """The first of the inputs of a measure that cannot be had, as an error without a place."""
    for name in names:
        wanted = _wanted(name, names)
        known = INPUTS.get(wanted)
        if name in rows.columns or (known is not None and known.there(rows, sources)):
            continue
        fix = known.fix if known else f"Add a column '{name}' to the rows."
        return UserError("", f"needs {name}, which the rows do not have", fix)
    return None


def group_data(members: Group, group: str, names: Collection[str], sources: Sources, cache: dict[str, Any]) -> Any:
    """The inputs `names` of one measure for one group, or None where one of them is undefined there.

    A column of the name comes first; `cache` holds what other measures of this group have asked for.
    """
    data = {}
    for name in names:
        wanted = _wanted(name, names)
        if wanted not in cache:
            cache[wanted] = _value(name, wanted, members, group, sources)
        if cache[wanted] is None:
            return None
        data[name] = cache[wanted]
    return data


def from_text(names: Collection[str], rows: Rows) -> bool:
    """Whether a measure of these inputs sees how long the texts are."""
    embedded = "embedding" in rows.columns
    sees = {"texts", "steps", "features"} | (set() if embedded else {"embeddings", "similarity"}) | {"gradients"}
    return any(name in sees and name not in rows.columns for name in names)


def reference_by_group(reference: Mapping[str, Group], groups: Collection[str]) -> dict[str, Group]:
    """The reference rows of the groups that both have; where there is no such group, all of them, under ""."""
    shared = {name: rows for name, rows in reference.items() if name in groups}
    return shared or {"": [rollout for rows in reference.values() for rollout in rows]}


def _wanted(name: str, names: Collection[str]) -> str:
    """References and known items are of the kind of what they are compared with; solutions stand with their prompt."""
    if name == "reference" and "gradients" in names:
        return "reference gradients"
    if name == "known" and "features" in names:
        return "known features"
    return "solutions" if name == "labels" and "known" in names else name


def _value(name: str, wanted: str, members: Group, group: str, sources: Sources) -> Any:
    given = {name: [r.extra[name] for r in members]} if all(name in r.extra for r in members) else {}
    if name in given and name not in ("texts", "labels", "correct", "rewards"):
        column = given[name]
        if name == "reference":  # one value for the whole group
            return matrix(column[0], name)
        if name == "known":
            pairs = wanted == "known"
            return {(r.prompt_id, x) if pairs else x for r in members for x in parsed(r.extra["known"])} or None
        return matrix(column, name) if name in MATRICES else [parsed(value) for value in column]
    return INPUTS[wanted].make(members, group, sources)
