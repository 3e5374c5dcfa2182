"""Set measures from words, steps, attributes and answers."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from collections.abc import Set as AbstractSet

import numpy as np
from numpy.typing import ArrayLike

from polypath.core.errors import UserError, missing_extra
from polypath.core.registry import register
from polypath.diversity.features import ngrams, tokens
from polypath.diversity.geometry import span
from polypath.diversity.kernels import check_rows, unit_rows
from polypath.diversity.measures import INVARIANT, LESS, MORE, hill_number


@register("measure", "self_repetition", paper="arXiv:2403.00553", traits={INVARIANT, LESS})
def self_repetition(texts: Sequence[str], *, n: int = 4) -> float:
    """Mean over texts of log(1 + how often its n-grams occur in other texts). NaN for an empty set.

    >>> round(self_repetition(["a b", "a b", "c d"], n=2), 6)  # log 2 twice, and log 1
    0.462098
    """
    grams = [ngrams(tokens(text), (n,)) for text in texts]
    documents = Counter(gram for found in grams for gram in found)
    return float(np.mean([math.log1p(sum(documents[g] - 1 for g in found)) for found in grams])) if texts else math.nan


@register("measure", "rouge_l", paper="arXiv:2403.00553", traits={INVARIANT, LESS})
def rouge_l(texts: Sequence[str]) -> float:
    """Homogenisation: mean over pairs of 2 LCS(a, b) / (len a + len b) in tokens, in [0, 1]. NaN for fewer than two.

    Two empty texts are the same. Raises UserError without rapidfuzz.
    """
    if len(texts) < 2:
        return math.nan
    similarity = lcs_similarity([tokens(text) for text in texts])
    n = len(texts)
    return float((similarity.sum() - n) / (n * (n - 1)))


def lcs_similarity(sequences: Sequence[Sequence[Hashable]]) -> np.ndarray:
    """2 LCS / (len a + len b) of all pairs, (n, n), in bit-parallel time. Raises UserError without rapidfuzz."""
    try:
        from rapidfuzz.distance import Indel
        from rapidfuzz.process import cdist
    except ImportError:
        raise missing_extra("longest common subsequences", "rapidfuzz", "measure") from None
    rows = [list(sequence) for sequence in sequences]
    return np.asarray(cdist(rows, rows, scorer=Indel.normalized_similarity, dtype=np.float64), dtype=float)


@register("measure", "entropy_corrected", paper="Miller 1955", traits={INVARIANT, MORE})
def entropy_corrected(labels: Sequence[Hashable]) -> float:
    """Shannon entropy in nats with the Miller-Madow correction, + (classes - 1) / (2 n). NaN for an empty set.

    >>> round(entropy_corrected("aabb"), 6)  # log 2 + 1/8
    0.818147
    """
    counts = list(Counter(label for label in labels if label is not None).values())
    if not counts:
        return math.nan
    return math.log(hill_number(counts, q=1.0)) + (len(counts) - 1) / (2 * sum(counts))


@register("measure", "prompt_diversity", paper="Prompt diversity (1.93)", traits={INVARIANT, MORE})
def prompt_diversity(texts: Sequence[str], *, largest: int = 4) -> float:
    """sum over n = 1..largest of log(1 + distinct n-grams of all texts). Reconstructed: the paper gives no formula."""
    words = [tokens(text) for text in texts]
    return sum(math.log1p(len(set().union(*(ngrams(row, (n,)) for row in words)))) for n in range(1, largest + 1))


ROUTE = (
    ("D", r"\b(let|define|denote|suppose|assume)\b"),
    ("B", r"\b(substitut\w*|plug\w*|replac\w*)\b"),
    ("S", r"\b(simplif\w*|expand\w*|factor\w*|cancel\w*|combin\w*)\b"),
    ("C", r"\b(case|cases|either|otherwise)\b"),
    ("E", r"\b(enumerat\w*|list\w*|try|trying|test\w*)\b"),
    ("I", r"\b(induct\w*|hypothesis)\b"),
    ("G", r"\b(construct\w*|build\w*|draw\w*)\b"),
    ("L", r"\b(bound\w*|at least|at most|maxim\w*|minim\w*|inequal\w*)\b"),
    ("V", r"\b(verif\w*|check\w*|confirm\w*)\b"),
    ("R", r"\b(wait|instead|backtrack\w*|mistake|wrong)\b"),
    ("Z", r"\b(therefore|thus|hence|finally|answer)\b"),
    ("Q", r"\b(solv\w*|equation\w*|root\w*)\b"),
    ("K", r"\b(comput\w*|calculat\w*|add\w*|multipl\w*|divid\w*|subtract\w*)\b|="),
)
_RULES = tuple((symbol, re.compile(pattern, re.IGNORECASE)) for symbol, pattern in ROUTE)
_STEP = re.compile(r"\n\s*\n|\n(?=\s*(?:\d+[.)]|step\s+\d+|[-*]\s))|(?<=[.!?])\s+", re.IGNORECASE)


def route(text: str) -> str:
    """The fingerprint of a solution: a symbol per step, by the first rule that matches; runs are one symbol.

    Steps end at blank lines, numbered lines and sentences. A step that no rule knows is "o".

    >>> route("Let x be the sum. Then 2x = 6. Solve the equation. Check it: fine.")
    'DKQV'
    """
    symbols: list[str] = []
    for step in filter(None, (part.strip() for part in _STEP.split(text))):
        symbol = next((symbol for symbol, rule in _RULES if rule.search(step)), "o")
        if not symbols or symbols[-1] != symbol:
            symbols.append(symbol)
    return "".join(symbols)


@register("measure", "route_diversity", paper="Route diversity (2.6)", traits={INVARIANT, MORE})
def route_diversity(texts: Sequence[str]) -> float:
    """Mean over pairs of 1 - LCS / longer length of the route fingerprints, in [0, 1]. NaN for fewer than two.

    Reconstructed: the rules are ours. See `route`.
    """
    if len(texts) < 2:
        return math.nan
    routes = [route(text) for text in texts]
    lengths = np.array([len(found) for found in routes], dtype=float)
    sums, longer = lengths[:, None] + lengths[None, :], np.maximum(lengths[:, None], lengths[None, :])
    common = lcs_similarity(routes) * sums / 2
    distance = np.where(longer > 0, 1.0 - common / np.maximum(longer, 1.0), 0.0)
    n = len(texts)
    return float((distance.sum() - np.trace(distance)) / (n * (n - 1)))


@register("measure", "distinct_routes", paper="Route diversity (2.6)", traits={INVARIANT, MORE})
def distinct_routes(texts: Sequence[str]) -> float:
    """How many different route fingerprints there are. NaN for an empty set."""
    return float(len({route(text) for text in texts})) if texts else math.nan


def path_divergence(a: ArrayLike, b: ArrayLike) -> float:
    """RPD of two solutions from the embeddings of their steps (n, d), (m, d): the mean over the shorter one's steps of
    the cosine distance to the nearest step of the other; the first is the shorter one when they tie.

    0 for two empty solutions, 1 when one is empty. Source: reasoning path divergence (0.91).

    >>> round(path_divergence([[1, 0], [0, 1]], [[1, 0], [0.6, 0.8], [-1, 0]]), 6)
    0.1
    """
    x, y = check_rows(a, "steps"), check_rows(b, "steps")
    if len(x) == 0 or len(y) == 0:
        return float(len(x) != len(y))
    short, long = (x, y) if len(x) <= len(y) else (y, x)
    return float(np.maximum(1.0 - unit_rows(short) @ unit_rows(long).T, 0.0).min(axis=1).mean())


@register("measure", "reasoning_path_divergence", paper="RPD (0.91)", traits={INVARIANT, MORE})
def reasoning_path_divergence(steps: Sequence[ArrayLike]) -> float:
    """The largest mean divergence of a solution from the others; `steps` holds one (n, d) array per solution.

    Between two solutions the larger of both directions counts. NaN for fewer than two.
    """
    n = len(steps)
    if n < 2:
        return math.nan
    pairs = np.array([[max(path_divergence(a, b), path_divergence(b, a)) for b in steps] for a in steps])
    return float((pairs.sum(axis=1) - np.diag(pairs)).max() / (n - 1))


@register("measure", "feature_coverage", paper="arXiv:2602.10388 [2.83]", traits={INVARIANT, MORE})
def feature_coverage(features: Sequence[AbstractSet[Hashable]], known: AbstractSet[Hashable]) -> float:
    """FAC: the share of the `known` (task-relevant) features that some item activates.

    Raises UserError when nothing is known.
    """
    if not known:
        raise UserError("known", "is empty", "Give the features of an anchor corpus.")
    found: set[Hashable] = set().union(*features) if features else set()
    return len(found & known) / len(known)


@register("measure", "coverage", traits={INVARIANT, MORE})
def coverage(labels: Sequence[Hashable], known: AbstractSet[Hashable]) -> float:
    """Share of the known solutions that occur. Raises UserError when none is known."""
    if not known:
        raise UserError("known", "is empty", "Give the known solutions of the prompt.")
    return len(set(labels) & known) / len(known)


@register("measure", "attribute_entropy", paper="GRADE (1.72)", traits={INVARIANT, MORE})
def attribute_entropy(attributes: Sequence[Sequence[Hashable]], *, categories: Sequence[int]) -> float:
    """Mean over attributes of the entropy of their values divided by log(number of possible values), in [0, 1].

    `attributes` holds one row per item, one value per attribute; `categories` how many values each can take, fixed
    before reading ("none" is a value). An attribute of one category is left out. NaN for no items.

    >>> round(attribute_entropy([["round"]] * 49 + [["square"]], categories=[2]), 6)
    0.141441
    """
    columns = list(zip(*attributes, strict=True))
    if not columns:
        return math.nan
    if len(columns) != len(categories):
        raise UserError("categories", f"are {len(categories)} for {len(columns)} attributes", "Give one per attribute.")
    found = [
        math.log(hill_number(list(Counter(column).values()), q=1.0)) / math.log(count)
        for column, count in zip(columns, categories, strict=True)
        if count > 1
    ]
    return float(np.mean(found)) if found else math.nan


@register("measure", "value_diversity", paper="Value diversity (0.15)", traits={INVARIANT, MORE})
def value_diversity(ratings: ArrayLike, *, options: Sequence[int]) -> float:
    """Mean over pairs of agents of the distance of their ordinal survey answers, in [0, 1]; see `value_span`.

    `ratings` (agents, questions) holds options 1..options[q], NaN for a refusal. Pairs without a shared question are
    left out; NaN when none is left.

    >>> round(value_diversity([[1, 4], [4, 4], [1, 1]], options=[4, 4]), 6)
    0.804738
    """
    distance = rating_distances(ratings, options)
    pairs = distance[np.triu_indices(len(distance), 1)]
    return float(np.nanmean(pairs)) if np.isfinite(pairs).any() else math.nan


@register("measure", "value_span", paper="Value diversity (0.15)", traits={INVARIANT, MORE})
def value_span(ratings: ArrayLike, *, options: Sequence[int]) -> float:
    """Mean edge of the minimum spanning tree of the agents' answer distances. NaN for fewer than two agents, or where
    a pair shares no question.
    """
    distance = rating_distances(ratings, options)
    return span(distance) if len(distance) > 1 and np.isfinite(distance).all() else math.nan


def rating_distances(ratings: ArrayLike, options: Sequence[int]) -> np.ndarray:
    """sqrt(sum (x - y)^2) / sqrt(sum (options - 1)^2) over the questions that both answered: (n, n)."""
    rows, width = np.asarray(ratings, dtype=float), np.asarray(options, dtype=float) - 1
    if rows.ndim != 2 or rows.shape[1] != len(width):
        raise UserError(
            "ratings", f"have the shape {rows.shape} for {len(width)} questions", "Give agents x questions."
        )
    shared = np.isfinite(rows[:, None, :]) & np.isfinite(rows[None, :, :]) & (width > 0)
    squares = np.where(shared, (np.nan_to_num(rows)[:, None, :] - np.nan_to_num(rows)[None, :, :]) ** 2, 0.0).sum(-1)
    scale = np.where(shared, width**2, 0.0).sum(-1)
    return np.sqrt(np.divide(squares, scale, out=np.full_like(squares, np.nan), where=scale > 0))


def approaches(
    texts: Sequence[str], judge: Callable[[Sequence[str]], Sequence[Hashable]], *, orders: int = 3
) -> list[int]:
    """Approach labels by a judge that groups texts; a pair is the same when most of `orders` rotations say so.

    Transitive closure, labels by first appearance. Source: approach-level diversity (0.9). For evaluation only: the
    paper shows that a policy trained on this judge exploits it. Raises ValueError when the judge skips a text.
    """
    from polypath.diversity.partitions import union_find

    n = len(texts)
    votes = np.zeros((n, n))
    for turn in range(orders):
        order = [(i + turn * max(1, n // orders)) % n for i in range(n)]
        named = judge([texts[i] for i in order])
        if len(named) != n:
            raise ValueError(f"the judge labelled {len(named)} of {n} texts")
        for i, a in zip(order, named, strict=True):
            for j, b in zip(order, named, strict=True):
                votes[i, j] += a == b
    return [int(label) for label in union_find(votes * 2 > orders)] if n else []


def rank_correlations(table: dict[str, Sequence[float]]) -> dict[tuple[str, str], float]:
    """Spearman correlation of every pair of measures over the same sets, NaN where one of them is constant.

    The behaviour suite of dataset-diversity measures (2.46): measures that disagree say so before one is believed.
    """
    from scipy.stats import spearmanr

    names = list(table)
    found = {}
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            pairs = np.array([table[a], table[b]], dtype=float)
            pairs = pairs[:, np.isfinite(pairs).all(axis=0)]
            constant = pairs.shape[1] < 3 or (pairs.max(axis=1) == pairs.min(axis=1)).any()
            found[a, b] = math.nan if constant else float(spearmanr(pairs[0], pairs[1]).statistic)
    return found
