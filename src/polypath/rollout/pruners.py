"""Pruners: which nodes or answers go on, and why the others do not. At least one of every family always stays."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np

from polypath.core.recipe_types import Range
from polypath.core.registry import register
from polypath.diversity.features import ngrams, tokens
from polypath.rollout.forest import Forest, Node
from polypath.rollout.tools import OWN_STATES, Tools

By = Literal["ngrams", "embeddings"]


def keep_only(forest: Forest, kept: Sequence[Node], pool: Sequence[Node], reason: str) -> None:
    """Drop the nodes of `pool` that are not kept, and take them from the frontier; the first stays if none is kept."""
    chosen = {id(node) for node in kept or pool[:1]}
    gone = {id(node) for node in pool if id(node) not in chosen}
    for node in pool:
        if id(node) in gone:
            node.drop(reason)
    forest.frontier = [node for node in forest.frontier if id(node) not in gone]


@register("pruner", "farthest", paper="StraTA (0.1)")
def farthest(
    forest: Forest,
    tools: Tools,
    *,
    keep: Annotated[int, Range(1, None)] = 4,
    by: By = "embeddings",
    first: Literal["random", "lowest"] = "random",
    encoder: str = OWN_STATES,
) -> None:
    """Keep the `keep` nodes of each prompt that are far from each other: farthest-first, from one start.

    With fewer distinct nodes than `keep` all distinct ones stay. Embeddings are those of `encoder`, an alias or a
    directory, or "policy" for the policy's own states; n-grams (Jaccard of word 1- to 3-grams) need none. Raises
    UserError for an encoder that cannot be had.
    """
    for position, nodes in forest.by_prompt().items():
        texts = [tools.segment(node).strip() for node in nodes]
        distinct = list({text: place for place, text in reversed(list(enumerate(texts)))}.values())[::-1]
        similarity = similarities([texts[place] for place in distinct], by, tools, encoder)
        start = tools.rng("farthest", position).randrange(len(distinct)) if first == "random" and distinct else 0
        picks = farthest_first(similarity, keep, start)
        keep_only(forest, [nodes[distinct[pick]] for pick in sorted(picks)], nodes, "near_duplicate")


def farthest_first(similarity: np.ndarray, k: int, first: int = 0) -> list[int]:
    """Indices chosen one by one: next the one whose largest similarity to the chosen is least; ties to the lowest.

    Shapes: (n, n) -> at most k indices.

    >>> e = np.array([[1, 0], [0.98, 0.199], [0, 1], [-0.6, 0.8]])
    >>> farthest_first(e @ e.T, 3)
    [0, 3, 2]
    """
    n = len(similarity)
    if n == 0:
        return []
    chosen = [first]
    nearest = np.array(similarity[first], dtype=float)
    nearest[first] = np.inf
    while len(chosen) < min(k, n):
        pick = int(np.argmin(nearest))
        chosen.append(pick)
        nearest = np.maximum(nearest, similarity[pick])
        nearest[pick] = np.inf
    return chosen


def similarities(texts: Sequence[str], by: By, tools: Tools, encoder: str = OWN_STATES) -> np.ndarray:
    """Pairwise similarity of texts (n, n): cosine of embeddings, or Jaccard of their word 1- to 3-grams."""
    if by == "embeddings":
        vectors = tools.embed(texts, encoder) if texts else np.zeros((0, 1))
        return vectors @ vectors.T
    grams = [ngrams(tokens(text), (1, 2, 3)) for text in texts]
    return np.array([[jaccard(a, b) for b in grams] for a in grams]).reshape(len(texts), len(texts))


def jaccard(a: set[tuple[str, ...]], b: set[tuple[str, ...]]) -> float:
    """Shared over all n-grams; two empty texts are the same."""
    return len(a & b) / len(a | b) if a or b else 1.0


@register("pruner", "well_formed", paper="DPWriter (0.8)")
def well_formed(
    forest: Forest,
    tools: Tools,
    *,
    least_chars: int = 10,
    newline_share: float = 0.2,
    token_share: float = 0.3,
    at_least: Annotated[int, Range(1, None)] = 1,
) -> None:
    """Drop segments that did not reach their stop text, are short, mostly line breaks, or repeat one token.

    A family in which fewer than `at_least` are well formed keeps all of its nodes.
    """
    for family in forest.by_parent():
        good = [node for node in family if _is_well_formed(node, tools, least_chars, newline_share, token_share)]
        if len(good) >= min(at_least, len(family)) and good:
            keep_only(forest, good, family, "malformed")


def _is_well_formed(node: Node, tools: Tools, least_chars: int, newline_share: float, token_share: float) -> bool:
    text = tools.segment(node)
    body = text.removesuffix(node.cut).strip()
    if not node.cut or len(body) < least_chars:
        return False
    most = Counter(node.ids).most_common(1)[0][1]
    return body.count("\n") <= newline_share * len(body) and most <= token_share * max(len(node.ids), 4)


@register("pruner", "novel", paper="DPWriter (0.8)")
def novel(
    forest: Forest,
    tools: Tools,
    *,
    keep: Annotated[int, Range(1, None)] = 8,
    by: By = "ngrams",
) -> None:
    """Keep the `keep` segments of each prompt that bring most that is new, chosen one by one.

    By n-grams (2 to 4 tokens): the share of a segment's n-grams that no chosen one has. By embeddings: farthest-first
    from the first. Source: the first aspect of DPWriter's planning.
    """
    for nodes in forest.by_prompt().values():
        texts = [tools.segment(node) for node in nodes]
        if by == "embeddings":
            picks = farthest_first(similarities(texts, by, tools), keep)
        else:
            picks = greedy_new_share([ngrams(text.split(), (2, 3, 4)) for text in texts], keep)
        keep_only(forest, [nodes[pick] for pick in sorted(picks)], nodes, "not_novel")


def greedy_new_share(grams: Sequence[set[tuple[str, ...]]], k: int) -> list[int]:
    """Indices chosen one by one for the largest share of own n-grams that are new; ties to the lowest index.

    >>> texts = ["a b c d", "a b c e", "x y z w", "a b x y"]
    >>> greedy_new_share([ngrams(text.split(), (2, 3, 4)) for text in texts], 2)
    [0, 2]
    """
    chosen: list[int] = []
    seen: set[tuple[str, ...]] = set()
    while len(chosen) < min(k, len(grams)):
        rest = [i for i in range(len(grams)) if i not in chosen]
        pick = max(rest, key=lambda i: (len(grams[i] - seen) / max(len(grams[i]), 1), -i))
        chosen.append(pick)
        seen |= grams[pick]
    return chosen


@register("pruner", "one_per_parent", paper="DPWriter (0.8)")
def one_per_parent(forest: Forest, tools: Tools, *, by: By = "ngrams") -> None:
    """Keep of each parent the child that differs most from all other parents' children: no lineage takes over.

    By n-grams: most n-grams (2 to 4 tokens) that are in none of theirs. By embeddings: the least largest cosine to
    them. Ties go to the first child. Source: the later aspects of DPWriter's planning.
    """
    families: dict[int, list[list[Node]]] = {}
    for family in forest.by_parent():
        families.setdefault(family[0].position, []).append(family)
    for lineages in families.values():
        texts = [[tools.segment(node) for node in family] for family in lineages]
        chosen = most_unlike(texts, by, tools)
        for family, pick in zip(lineages, chosen, strict=True):
            keep_only(forest, [family[pick]], family, "sibling_chosen")


def most_unlike(families: Sequence[Sequence[str]], by: By, tools: Tools | None = None) -> list[int]:
    """For each family of texts the index of the one that is most unlike all texts of the other families.

    >>> most_unlike([["a b c d", "a b x y"], ["x y z w", "a b c e"]], "ngrams")
    [1, 0]
    """
    if by == "embeddings" and tools is not None:
        flat = tools.embed([text for family in families for text in family])
        cosine = flat @ flat.T
        owner = np.repeat(np.arange(len(families)), [len(family) for family in families])
        nearest = np.where(owner[:, None] == owner[None, :], -np.inf, cosine).max(axis=1)
        return [int(np.argmin(nearest[owner == f])) for f in range(len(families))]
    grams = [[ngrams(text.split(), (2, 3, 4)) for text in family] for family in families]
    picks = []
    for f, family in enumerate(grams):
        others = set().union(*(own for g, other in enumerate(grams) if g != f for own in other))
        picks.append(max(range(len(family)), key=lambda i: (len(family[i] - others), -i)))
    return picks


@register("pruner", "max_variance", paper="D3S (2.67)")
def max_variance(forest: Forest, tools: Tools, *, keep: float = 0.5) -> None:
    """Keep the share `keep` (at least two) of each prompt's answers whose rewards vary most; ties to the earliest.

    The subset is always some of the lowest and some of the highest, so all splits are tried. `keep` is usually a
    schedule that rises to 1.
    """
    tools.verify(forest.frontier)
    for nodes in forest.by_prompt().values():
        rewards = [node.score.reward if node.score else 0.0 for node in nodes]
        count = min(len(nodes), max(2, round(keep * len(nodes))))
        if count < len(nodes):
            keep_only(forest, [nodes[i] for i in max_variance_subset(rewards, count)], nodes, "low_variance")


def max_variance_subset(values: Sequence[float], k: int) -> list[int]:
    """The k indices whose values have the largest variance, in order: the i lowest with the k - i highest, best i.

    >>> max_variance_subset([1, 0, 0, 0, 0.2, 0.9, 0.5, 0.4], 4)
    [0, 1, 2, 5]
    """
    order = sorted(range(len(values)), key=lambda i: (values[i], i))
    lowest_first = [order[:i] + sorted(order[i:], key=lambda j: (-values[j], j))[: k - i] for i in range(k + 1)]
    best = max(lowest_first, key=lambda subset: float(np.var([values[i] for i in subset])))
    return sorted(best)


@register("pruner", "surplus", paper="AERO (0.67)")
def surplus(forest: Forest, tools: Tools, *, ratio: Annotated[float, Range(0, None)] = 1.0) -> None:
    """Of a prompt's right and wrong answers keep all of the fewer, and at most ceil(ratio * fewer) of the others.

    Which of the others stay is drawn at random. Prompts with answers of one kind alone keep them all.
    """
    for position, nodes in forest.by_prompt().items():
        tools.verify(nodes)
        right = [node for node in nodes if node.score is not None and node.score.correct]
        wrong = [node for node in nodes if node not in right]
        fewer, others = sorted((right, wrong), key=len)
        room = max(math.ceil(ratio * len(fewer) - 1e-9), 1)
        if fewer and len(others) > room:
            keep_only(forest, [*fewer, *tools.rng("surplus", position).sample(others, room)], nodes, "surplus")
