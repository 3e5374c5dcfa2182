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
from polypath.diversity.kernels.view import detached
from polypath.diversity.marginals import items, pairs, sets
from polypath.diversity.marginals.common import leave_one_out
from polypath.diversity.marginals.counts import loo_classes, loo_entropy, loo_hill, loo_label_pairs
from polypath.diversity.marginals.kernels import gain_logdet, gain_pairs, loo_logdet, loo_pairs
from polypath.diversity.marginals.reference import loo_energy_distance, loo_mmd
from polypath.diversity.marginals.spectra import gain_vendi, loo_vendi
from polypath.diversity.marginals.texts import loo_distinct_n, loo_self_bleu
from polypath.diversity.partitions import first_appearance

Measure = str | Callable[..., float]


def _cosines(embeddings: Any) -> np.ndarray:
    """Cosines (..., G, G) of rows (..., G, d)."""
    rows = np.asarray(detached(embeddings))
    if rows.ndim > 2:
        rows = unit_rows(rows.reshape(-1, rows.shape[-1])).reshape(rows.shape)
        return rows @ np.swapaxes(rows, -1, -2)
    rows = unit_rows(rows)
    return rows @ rows.T


def _numbers(labels: Any) -> np.ndarray:
    """Labels (..., G) as numbers; a batch is a list of lists or an array."""
    nested = len(labels) > 0 and isinstance(labels[0], list | np.ndarray)
    return np.stack([_numbers(group) for group in labels]) if nested else first_appearance(labels)


class Closed(NamedTuple):
    """A marginal function, what makes its first argument of the measure's, and the measure's sign.

    Without `prepare` it takes what the measure takes; the others also take a batch, (..., G) for (..., G, ...).
    """

    marginal: Callable[..., Any]
    prepare: Callable[[Any], Any] | None = None
    sign: float = 1.0
    when: Callable[[Mapping[str, Any]], bool] = lambda _: True

    def takes(self, knobs: Mapping[str, Any]) -> bool:
        """Whether it has all these knobs, and they all that it requires."""
        known = inspect.signature(self.marginal).parameters.values()
        own = [parameter for parameter in known if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
        required = {parameter.name for parameter in own if parameter.default is inspect.Parameter.empty}
        return required <= set(knobs) <= {parameter.name for parameter in own} and self.when(knobs)


# The first that takes the knobs is used.
LEAVE_ONE_OUT: dict[str, tuple[Closed, ...]] = {
    "vendi": (Closed(loo_vendi, _cosines),),
    "vendi_of_kernel": (Closed(loo_vendi, np.asarray),),
    "log_det": (Closed(loo_logdet, _cosines),),
    "pairwise_cosine": (Closed(loo_pairs, _cosines),),
    "internal_diversity": (Closed(loo_pairs, np.asarray), Closed(pairs.loo_internal_diversity)),
    "distinct": (Closed(loo_classes, _numbers),),
    "entropy": (Closed(loo_entropy, _numbers), Closed(items.loo_entropy_declared)),
    "hill": (Closed(loo_hill, _numbers),),
    "pairwise_difference": (Closed(loo_label_pairs, _numbers),),
    "distinct_n": (Closed(loo_distinct_n, list),),
    "self_bleu": (Closed(loo_self_bleu, list, -1.0),),
    "mmd": (Closed(loo_mmd),),
    "energy_distance": (Closed(loo_energy_distance),),
    "order_parameter": (Closed(pairs.loo_order_parameter),),
    "energy": (Closed(pairs.loo_energy),),
    "chamfer": (Closed(pairs.loo_chamfer),),
    "knn_novelty": (Closed(pairs.loo_knn_novelty),),
    "novel_sum": (Closed(pairs.loo_novel_sum, when=lambda knobs: knobs.get("beta") == 0),),
    "novel_sum_against": (Closed(pairs.loo_novel_sum_against),),
    "reasoning_path_divergence": (Closed(pairs.loo_reasoning_path_divergence),),
    "route_diversity": (Closed(pairs.loo_route_diversity),),
    "rouge_l": (Closed(pairs.loo_rouge_l),),
    "diversity_coefficient": (Closed(pairs.loo_diversity_coefficient),),
    "cross_diversity": (Closed(pairs.loo_cross_diversity),),
    "value_diversity": (Closed(pairs.loo_value_diversity),),
    "vendi_quality": (Closed(sets.loo_vendi_quality),),
    "vendi_gated": (Closed(sets.loo_vendi_gated),),
    "vendi_correct": (Closed(sets.loo_vendi_correct),),
    "gradient_vendi": (Closed(sets.loo_gradient_vendi),),
    "ngram_vendi": (Closed(sets.loo_ngram_vendi),),
    "effective_channels": (Closed(sets.loo_effective_channels),),
    "effective_channels_by_outcome": (Closed(sets.loo_effective_channels_by_outcome),),
    "effective_size": (Closed(sets.loo_effective_size),),
    "log_det_distance": (Closed(sets.loo_log_det_distance),),
    "similarity_entropy": (Closed(sets.loo_similarity_entropy),),
    "creative_utility": (Closed(sets.loo_creative_utility),),
    "coverage_knn": (Closed(sets.loo_coverage_knn),),
    "density_knn": (Closed(sets.loo_density_knn),),
    "inception_score": (Closed(sets.loo_inception_score),),
    "entropy_corrected": (Closed(items.loo_entropy_corrected),),
    "correct_difference": (Closed(items.loo_correct_difference),),
    "distinct_correct": (Closed(items.loo_distinct_correct),),
    "approach_diversity": (Closed(items.loo_approach_diversity),),
    "coverage": (Closed(items.loo_known),),
    "feature_coverage": (Closed(items.loo_features),),
    "attribute_entropy": (Closed(items.loo_attribute_entropy),),
    "distinct_routes": (Closed(items.loo_distinct_routes),),
    "ngram_diversity": (Closed(items.loo_ngram_diversity),),
    "prompt_diversity": (Closed(items.loo_prompt_diversity),),
    "self_repetition": (Closed(items.loo_self_repetition),),
    "mtld": (Closed(items.loo_mtld),),
    "hdd": (Closed(items.loo_hdd),),
}
GAIN: dict[str, Callable[..., Any]] = {"vendi": gain_vendi, "log_det": gain_logdet, "pairwise_cosine": gain_pairs}


def loo(measure: Measure, group: Any, *, batched: bool = False, **knobs: Any) -> np.ndarray:
    """What each item adds to a measure of one set, `measure(all) - measure(all but i)`, in the measure's own sign.

    `measure` is a registered name or a function of a set; `group` maps the names of its data to values, or is the value
    of its first argument. Fields named `reference...` and `known` belong to no item and stay whole. With `batched`
    every other field has B groups of one size, and the result is (B, G). NaN where the measure is undefined with or
    without the item. Without a closed form (see LEAVE_ONE_OUT, or for knobs that it does not take) the measure is
    computed again for every item, with a warning. Raises UserError for an unknown name, and for groups of two sizes.

    >>> loo("distinct", ["a", "b", "a"]).tolist(), loo("distinct", [["a", "b"], ["c", "c"]], batched=True).tolist()
    ([0.0, 1.0, 0.0], [[1.0, 1.0], [0.0, 0.0]])
    """
    function, name, fields = _resolve(measure, group)
    closed = next((one for one in LEAVE_ONE_OUT.get(name, ()) if one.takes(knobs)), None)
    if closed is None:
        warnings.warn(f"the marginals of {name} have no closed form: it is computed once per item", stacklevel=2)
    if not batched:
        return _one_group(function, closed, fields, knobs)
    groups = _groups(name, fields)
    if closed is not None and closed.prepare is not None and not any(_unlabelled(one) for one in groups):
        first, *rest = fields.values()
        return _closed(closed, first, rest, knobs)
    return np.stack([_one_group(function, closed, one, knobs) for one in groups]) if groups else np.empty((0, 0))


def _one_group(
    function: Callable[..., float], closed: Closed | None, fields: Mapping[str, Any], knobs: Mapping[str, Any]
) -> np.ndarray:
    first, *rest = fields.values()
    if closed is None:
        return leave_one_out(lambda keep: function(**_take(fields, keep), **knobs), len(first))
    if closed.prepare is None:
        return np.asarray(closed.marginal(first, *rest, **knobs), dtype=float)
    known = [i for i, value in enumerate(first) if value is not None]  # an item without a class changes nothing
    found = np.zeros(len(first))
    if known:
        found[known] = _closed(closed, first if len(known) == len(first) else [first[i] for i in known], rest, knobs)
    return found


def _closed(closed: Closed, first: Any, rest: Sequence[Any], knobs: Mapping[str, Any]) -> np.ndarray:
    undefined = {"undefined": np.nan} if "undefined" in _knobs(closed.marginal) else {}
    prepare = closed.prepare or np.asarray
    return closed.sign * np.asarray(closed.marginal(prepare(first), *rest, **knobs, **undefined))


def _groups(name: str, fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The fields of each group of a batch. Raises UserError for groups, or fields, of different size."""
    first = next(iter(fields.values()))
    several = [field for field in fields if not _whole(field)]
    sizes = {len(one) for one in first}
    if len(sizes) > 1 or any(len(fields[field]) != len(first) for field in several):
        raise UserError(f"loo of {name}", "was given groups of different size", "Give one batch per size.")
    return [{f: v if _whole(f) else v[i] for f, v in fields.items()} for i in range(len(first))]


def _unlabelled(fields: Mapping[str, Any]) -> bool:
    return any(value is None for value in next(iter(fields.values())))


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
