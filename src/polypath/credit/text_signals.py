"""Diversity signals from the words of the texts: formulas, phrases, and the variety inside one text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from polypath.core.arrays import per_group
from polypath.core.registry import register
from polypath.credit.signals import unshared
from polypath.diversity.features import equations, moving_type_token_ratio, tokens
from polypath.diversity.marginals import DUPLICATE_SAFE
from polypath.diversity.measures import bleu_against_others

EQUIVARIANT = frozenset({"permutation_equivariant", "duplicates_share"})


@register("signal", "equation_unique_share", returns="diversity", paper="DIVER (1.7)", traits=DUPLICATE_SAFE)
def equation_unique_share(texts: Sequence[str], *, limit: int = 1000, cap: float = 0.68) -> np.ndarray:
    """Share of a text's formulas that no other text of the group has, at most `cap`; 0 without formulas.

    Only the first `limit` characters count. The cap is what keeps spam of formulas from paying.
    Shapes: G texts, or B lists of G -> (..., G).

    >>> equation_unique_share(["$a$ $b$", "$a$ $c$ $d$", "no"]).round(6).tolist()
    [0.5, 0.666667, 0.0]
    """

    def shares(group: Sequence[str]) -> list[float]:
        found = [set(equations(text[:limit])) for text in group]
        return [len(alone) / max(len(own), 1) for alone, own in zip(unshared(found), found, strict=True)]

    return np.minimum(per_group(shares, texts), cap)


@register("signal", "bleu_distance", returns="diversity", paper="arXiv:2509.26209 [1.7]", traits=EQUIVARIANT)
def bleu_distance(texts: Sequence[str], *, n: int = 4, cap: float = 1.0) -> np.ndarray:
    """1 - BLEU of a text with the others of the group as references, at most `cap`; 1 for a group of one.

    Shapes: G texts, or B lists of G -> (..., G).
    """

    def distance(group: Sequence[str]) -> np.ndarray:
        return 1.0 - bleu_against_others([tokens(text) for text in group], n=n) if len(group) > 1 else np.ones(1)

    return np.minimum(per_group(distance, texts), cap)


@register("signal", "inner_variety", returns="diversity", paper="arXiv:2507.20187 [0.60]", traits=EQUIVARIANT)
def inner_variety(
    texts: Sequence[str], spans: Sequence[Mapping[str, Any]] | None = None, *, roles: int = 0, window: int = 25
) -> np.ndarray:
    """How varied one text is in itself: its moving type-token ratio, in [0, 1]; 0 for an empty text.

    With `roles` > 0 and spans, the mean of that and of the number of named parts (roles that speak) over `roles`.
    Shapes: G texts, or B lists of G -> (..., G).
    """

    def ratios(group: Sequence[str]) -> list[float]:
        words = [tokens(text.lower()) for text in group]
        return [moving_type_token_ratio(row, window=window) if row else 0.0 for row in words]

    variety = per_group(ratios, texts)
    if not roles or spans is None:
        return variety
    voices = per_group(lambda group: [min(1.0, len(parts) / roles) for parts in group], spans)
    return 0.5 * variety + 0.5 * voices
