"""Marginals and gains of any measure by name: the closed form where there is one, else brute force with a warning."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from polypath.core import registry
from polypath.core.errors import UserError
from polypath.diversity.kernels.vector import unit_rows
from polypath.diversity.marginals.common import leave_one_out
from polypath.diversity.marginals.counts import loo_classes, loo_entropy, loo_hill, loo_label_pairs
from polypath.diversity.marginals.kernels import gain_logdet, gain_pairs, loo_logdet, loo_pairs
from polypath.diversity.marginals.reference import loo_energy_distance, loo_mmd
from polypath.diversity.marginals.spectra import gain_vendi, loo_vendi
from polypath.diversity.marginals.texts import loo_distinct_n, loo_self_bleu
from polypath.diversity.partitions import first_appearance

Measure = str | Callable[..., float]


def _cosines(embeddings: Any) -> np.ndarray:
    rows = unit_rows(embeddings)
    return rows @ rows.T


class Closed(NamedTuple):
    """A marginal function, what makes its first argument of the measure's, and the measure's sign."""

    marginal: Callable[..., Any]
    prepare: Callable[[Any], Any] = np.asarray
    sign: float = 1.0


LEAVE_ONE_OUT: dict[str, Closed] = {
    "vendi": Closed(loo_vendi, _cosines),
    "vendi_of_kernel": Closed(loo_vendi),
    "log_det": Closed(loo_logdet, _cosines),
    "pairwise_cosine": Closed(loo_pairs, _cosines),
    "internal_diversity": Closed(loo_pairs),
    "distinct": Closed(loo_classes, first_appearance),
    "entropy": Closed(loo_entropy, first_appearance),
    "hill": Closed(loo_hill, first_appearance),
    "pairwise_difference": Closed(loo_label_pairs, first_appearance),
    "distinct_n": Closed(loo_distinct_n, list),
    "self_bleu": Closed(loo_self_bleu, list, -1.0),
    "mmd": Closed(loo_mmd),
    "energy_distance": Closed(loo_energy_distance),
}
GAIN: dict[str, Callable[..., Any]] = {"vendi": gain_vendi, "log_det": gain_logdet, "pairwise_cosine": gain_pairs}


def loo(measure: Measure, group: Any, **knobs: Any) -> np.ndarray:
    """What each item adds to a measure of one set, `measure(all) - measure(all but i)`, in the measure's own sign.

    `measure` is a registered name or a function of a set; `group` maps the names of its data to values, or is the value
    of its first argument. Fields named `reference...` and `known` belong to no item and stay whole. NaN where the
    measure is undefined with or without the item. Without a closed form (see LEAVE_ONE_OUT, or for knobs that it does
    not take) the measure is computed again for every item, with a warning. Raises UserError for an unknown name.

    >>> loo("distinct", ["a", "b", "a"]).tolist()
    [0.0, 1.0, 0.0]
    """
    function, name, fields = _resolve(measure, group)
    closed = LEAVE_ONE_OUT.get(name)
    values = list(fields.values())
    if closed is not None and set(knobs) <= _knobs(closed.marginal):
        # An item without a class, None, changes nothing.
        known = [i for i, value in enumerate(values[0]) if value is not None]
        found = np.zeros(len(values[0]))
        if known:
            kept = values[0] if len(known) == len(values[0]) else [values[0][i] for i in known]
            extra = {"undefined": np.nan} if "undefined" in _knobs(closed.marginal) else {}
            found[known] = closed.sign * np.asarray(
                closed.marginal(closed.prepare(kept), *values[1:], **knobs, **extra)
            )
        return found
    warnings.warn(f"the marginals of {name} have no closed form: it is computed once per item", stacklevel=2)
    size = len(values[0])
    return leave_one_out(lambda keep: function(**_take(fields, keep), **knobs), size)


def gain(measure: Measure, chosen: Any, candidates: Any, **knobs: Any) -> np.ndarray:
    """What each candidate would add to a set, `measure(set and candidate) - measure(set)`: (n,).

    `chosen` and `candidates` are as `group` in `loo`, items of the same kind; a measure of nothing counts 0, so that a
    first pick gains its own measure. NaN where the measure is undefined. Closed forms: see GAIN; without, the measure
    is computed again for every candidate, with a warning. A measure of a similarity has no gain here, since it does
    not hold the similarities between the two: use `gain_vendi`, `gain_logdet` or `gain_pairs`.

    >>> gain("vendi", [[1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]).round(6).tolist()
    [0.0, 1.0]
    """
    function, name, fields = _resolve(measure, chosen)
    *_, new = _resolve(measure, candidates)
    if "similarity" in fields:
        raise UserError(f"gain of {name}", "needs similarities between the two sets", "Use gain_vendi or its like.")
    inside, outside = (next(iter(side.values())) for side in (fields, new))
    if name in GAIN and len(inside) and set(knobs) <= _knobs(GAIN[name]):
        rows, added = unit_rows(inside), unit_rows(outside)
        extra = {"undefined": np.nan} if "undefined" in _knobs(GAIN[name]) else {}
        return np.asarray(GAIN[name](rows @ rows.T, added @ rows.T, np.ones(len(added)), **knobs, **extra))
    if name not in GAIN:
        warnings.warn(f"the gains of {name} have no closed form: it is computed once per candidate", stacklevel=2)
    before = function(**fields, **knobs) if len(inside) else 0.0
    joined = ({key: _joined(key, fields[key], new[key], i) for key in fields} for i in range(len(outside)))
    return np.array([function(**both, **knobs) - before for both in joined], dtype=float)


def _resolve(measure: Measure, group: Any) -> tuple[Callable[..., float], str, dict[str, Any]]:
    """The function, its name, and its data by name in the order of its signature."""
    if isinstance(measure, str):
        function, name = registry.get("measure", measure), measure
    else:
        target = f"{measure.__module__}:{measure.__qualname__}"
        known = {entry.target: entry.name for entry in registry.entries("measure")}
        function, name = measure, known.get(target, getattr(measure, "__name__", "measure"))
    data, _ = registry.describe_signature(function)
    if not isinstance(group, Mapping):
        return function, name, {data[0]: group}
    missing = [field for field in data if field not in group]
    if missing:
        raise UserError(f"measure {name}", f"needs {', '.join(missing)}", f"Give {', '.join(data)}.")
    return function, name, {field: group[field] for field in data}


def _knobs(function: Callable[..., Any]) -> set[str]:
    parameters = inspect.signature(function).parameters.values()
    return {parameter.name for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY}


def _whole(field: str) -> bool:
    return field.startswith("reference") or field == "known"


def _take(fields: Mapping[str, Any], keep: Sequence[int]) -> dict[str, Any]:
    """The fields of some of the items."""
    found = {}
    for name, values in fields.items():
        if _whole(name):
            found[name] = values
        elif name == "similarity":
            found[name] = np.asarray(values)[np.ix_(keep, keep)]
        elif isinstance(values, np.ndarray):
            found[name] = values[list(keep)]
        else:
            found[name] = [values[i] for i in keep]
    return found


def _joined(name: str, inside: Any, outside: Any, i: int) -> Any:
    if _whole(name):
        return inside
    return np.concatenate([inside, outside[i : i + 1]]) if isinstance(inside, np.ndarray) else [*inside, outside[i]]
