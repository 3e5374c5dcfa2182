"""Classes from a relation between pairs of texts: a rule, a classifier, entailment, a decision model, a judge.

A relation takes a list of pairs and says of each how sure it is that the two are the same, as a probability or a yes
or no; None is undecided and links nothing. So a model sees whole batches, and `each`, `both_ways`, `asked` and
`short_by_overlap` make relations of what one has. Classes are the transitive closure: one false link merges two, which
`average_linkage` of a `same_matrix` resists.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from polypath.core.arrays import Array
from polypath.core.errors import UserError
from polypath.core.registry import register
from polypath.diversity.partitions.labels import first_appearance

Pair = tuple[str, str]
Verdict = float | bool | None
Relation = Callable[[Sequence[Pair]], Sequence[Verdict]]

SAME = (
    "Two solutions of one problem follow. Do they take the same approach? Answer with the single word yes or no."
    "\n\nSolution 1:\n{a}\n\nSolution 2:\n{b}"
)


def by_equivalence(
    texts: Sequence[str | None], relation: Relation, *, threshold: float = 0.5, frugal: bool = True
) -> np.ndarray:
    """Classes of the transitive closure of "the relation is surer than `threshold`": (n,) labels.

    Equal texts are the same without being asked about; None is the same as nothing. `frugal` asks, text by text, no
    more about a class once it is linked; otherwise all pairs are asked at once, in one batch. Both give the same
    classes. A pair is asked in one order only, the earlier text first: see `both_ways`.

    >>> by_equivalence(["1", "3", "2", "9"], each(lambda a, b: abs(int(a) - int(b)) <= 1)).tolist()
    [0, 0, 0, 1]
    """
    if not frugal:
        return linked(same_matrix(texts, relation), threshold=threshold)
    distinct = [text for text in dict.fromkeys(texts) if text is not None]
    found: list[list[int]] = []
    for i, text in enumerate(distinct):
        hit = _classes_of(text, [[distinct[j] for j in members] for members in found], relation, threshold)
        merged = [j for place in hit for j in found[place]] + [i]
        found = [members for place, members in enumerate(found) if place not in hit] + [merged]
    owner = {distinct[j]: number for number, members in enumerate(found) for j in members}
    return first_appearance([None if text is None else owner[text] for text in texts])


def _classes_of(text: str, known: Sequence[Sequence[str]], relation: Relation, threshold: float) -> set[int]:
    """The classes with a member that the text is the same as, asking one member of each open class at a time."""
    hit: set[int] = set()
    for turn in range(max(map(len, known), default=0)):
        still = [place for place, members in enumerate(known) if place not in hit and turn < len(members)]
        verdicts = _ask(relation, [(known[place][turn], text) for place in still])
        hit.update(place for place, sure in zip(still, verdicts, strict=True) if sure > threshold)
    return hit


def same_matrix(texts: Sequence[str | None], relation: Relation) -> np.ndarray:
    """How sure the relation is of every pair, (n, n), symmetric; 1 on the diagonal and for equal texts.

    A similarity like others: `linked` and `average_linkage` partition it, and as the provider of `similarity` it brings
    a classifier or a judge into the credit pipeline. None is similar to nothing, an undecided pair counts 0.
    """
    distinct = [text for text in dict.fromkeys(texts) if text is not None]
    places = [(i, j) for j in range(len(distinct)) for i in range(j)]
    matrix = np.eye(len(distinct))
    for (i, j), sure in zip(places, _ask(relation, [(distinct[i], distinct[j]) for i, j in places]), strict=True):
        matrix[i, j] = matrix[j, i] = sure
    number = {text: place for place, text in enumerate(distinct)}
    out = np.eye(len(texts))
    known = [place for place, text in enumerate(texts) if text is not None]
    rows = [number[text] for text in texts if text is not None]
    out[np.ix_(known, known)] = matrix[np.ix_(rows, rows)]
    return out


def _ask(relation: Relation, pairs: Sequence[Pair]) -> list[float]:
    verdicts = list(relation(pairs)) if pairs else []
    if len(verdicts) != len(pairs):
        raise UserError("relation", f"gave {len(verdicts)} verdicts for {len(pairs)} pairs", "Give one per pair.")
    sure = [0.0 if verdict is None else float(verdict) for verdict in verdicts]
    if any(math.isnan(value) for value in sure):
        raise UserError("relation", "gave NaN", "Give None for a pair that is undecided.")
    return sure


def each(rule: Callable[[str, str], Verdict]) -> Relation:
    """A relation of a rule for one pair."""
    return lambda pairs: [rule(a, b) for a, b in pairs]


def both_ways(relation: Relation) -> Relation:
    """A relation that must hold in both directions, as sure as the less sure of the two; one batch.

    With entailment as the relation this is semantic equivalence (arXiv:2302.09664); with a judge it takes out the
    influence of the order.
    """

    def decide(pairs: Sequence[Pair]) -> list[Verdict]:
        sure = list(relation([*pairs, *((b, a) for a, b in pairs)]))
        there, back = sure[: len(pairs)], sure[len(pairs) :]
        return [None if a is None or b is None else min(a, b) for a, b in zip(there, back, strict=True)]

    return decide


def asked(
    ask: Callable[[Sequence[str]], Iterable[str | float]], *, question: str = SAME, unclear: Verdict = None
) -> Relation:
    """A relation of something that answers questions: `ask` takes prompts and gives one answer each.

    Of a judge (`engines.judge.Judge(...).ask`) the answer is a text that begins with yes or no, any other counts as
    `unclear`; of a decision model it is the probability of yes. `question` holds {a} and {b}.

    >>> asked(lambda prompts: ["Yes.", "no", "It depends"])([("a", "b"), ("a", "c"), ("b", "c")])
    [1.0, 0.0, None]
    """
    if "{a}" not in question or "{b}" not in question:
        raise UserError("question", "does not hold {a} and {b}", "Say where the two texts go.")

    def decide(pairs: Sequence[Pair]) -> list[Verdict]:
        # Not str.format: texts may hold braces.
        head, _, rest = question.partition("{a}")
        middle, _, tail = rest.partition("{b}")
        return [_verdict(answer, unclear) for answer in ask([f"{head}{a}{middle}{b}{tail}" for a, b in pairs])]

    return decide


def _verdict(answer: str | float, unclear: Verdict) -> Verdict:
    if not isinstance(answer, str):
        return answer
    word = re.search(r"[a-z]+", answer.lower())
    return {"yes": 1.0, "no": 0.0}.get(word.group(), unclear) if word else unclear


def short_by_overlap(relation: Relation, *, words: int = 5) -> Relation:
    """A relation that decides texts of at most `words` words by their shared words instead (DARLING).

    Two of them are the same when they share at least half of the words of the longer one; a classifier of solutions
    knows little of such texts. Source: arXiv:2509.02534, release.
    """

    def decide(pairs: Sequence[Pair]) -> list[Verdict]:
        split = [(a.split(), b.split()) for a, b in pairs]
        long = [i for i, (a, b) in enumerate(split) if max(len(a), len(b)) > words]
        sure: list[Verdict] = [2 * (Counter(a) & Counter(b)).total() >= max(len(a), len(b), 1) for a, b in split]
        for i, verdict in zip(long, relation([pairs[i] for i in long]) if long else [], strict=True):
            sure[i] = verdict
        return sure

    return decide


@register("partition", "linked", returns="labels")
def linked(similarity: Array, *, threshold: float = 0.5) -> np.ndarray:
    """Connected components of the graph "similarity > threshold" (transitive: one false link merges two classes).

    Shapes: (..., G, G) -> int (..., G).
    """
    matrix = np.asarray(similarity) > threshold
    return over_groups(union_find, matrix, 2)


def over_groups(function: Callable[[np.ndarray], np.ndarray], values: np.ndarray, axes: int) -> np.ndarray:
    """A function of one group's array (its last `axes` axes) on every group: int (..., G)."""
    leading = values.shape[: values.ndim - axes]
    labels = np.zeros((*leading, values.shape[-axes]), dtype=np.int64)
    for place in np.ndindex(*leading):
        labels[place] = function(values[place])
    return labels


def union_find(same: np.ndarray) -> np.ndarray:
    """Labels of the transitive closure of one pairwise boolean matrix, (G, G) -> int (G,).

    >>> import numpy as np
    >>> union_find(np.array([[1, 0, 1], [0, 1, 0], [0, 0, 1]], dtype=bool)).tolist()
    [0, 1, 0]
    """
    parent = list(range(len(same)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = i = parent[parent[i]]
        return i

    for i, j in zip(*np.nonzero(same), strict=True):
        parent[root(int(i))] = root(int(j))
    return first_appearance([root(i) for i in range(len(same))])
