"""Set measures by hand, against brute force, and the traits they declare."""

import math
import random
from collections import Counter
from itertools import permutations

import numpy as np
import pytest

from polypath.core import registry
from polypath.core.errors import UserError
from polypath.diversity import geometry, spectral
from polypath.diversity import measures as m

TEXTS = ["the cat sat on the mat", "the cat sat on a mat", "dogs run fast in the park"]


def bleu(references, hypothesis, n=4, epsilon=0.1):
    """Sentence BLEU as Papineni et al. define it, with method-1 smoothing; n-gram by n-gram, no shortcut."""

    def grams(words, order):
        return Counter(tuple(words[i : i + order]) for i in range(len(words) - order + 1))

    log_sum = 0.0
    for order in range(1, n + 1):
        own = grams(hypothesis, order)
        clipped = sum(min(c, max(grams(r, order)[g] for r in references)) for g, c in own.items())
        if order == 1 and clipped == 0:
            return 0.0
        log_sum += math.log((clipped or epsilon) / max(1, sum(own.values()))) / n
    closest = min((len(r) for r in references), key=lambda r: (abs(r - len(hypothesis)), r))
    return math.exp(log_sum) * (1.0 if len(hypothesis) > closest else math.exp(1 - closest / len(hypothesis)))


def test_lexical_values_by_hand():
    # 18 words, 11 different; 15 word pairs, 12 different (the cat, cat sat, sat on twice); 3-grams: 12, of which
    # "the cat sat" and "cat sat on" twice -> 10; 4-grams: 9, "the cat sat on" twice -> 8
    assert m.distinct_n(TEXTS, n=1) == pytest.approx(11 / 18)
    assert m.distinct_n(TEXTS, n=2) == pytest.approx(12 / 15)
    assert m.ngram_diversity(TEXTS) == pytest.approx(11 / 18 + 12 / 15 + 10 / 12 + 8 / 9)
    assert m.self_bleu(TEXTS) == pytest.approx(0.371798, abs=5e-7)


def test_ngrams_do_not_cross_texts():
    assert m.distinct_n(["a b", "a b"], n=2) == 0.5
    assert math.isnan(m.distinct_n(["a", "b"], n=2))


def test_self_bleu_equals_its_definition():
    rng = random.Random(0)
    for _ in range(30):
        texts = [" ".join(rng.choices("abcde", k=rng.randint(1, 9))) for _ in range(rng.randint(2, 6))]
        words = [text.split() for text in texts]
        expected = np.mean([bleu(words[:i] + words[i + 1 :], words[i]) for i in range(len(words))])
        assert m.self_bleu(texts) == pytest.approx(expected, abs=1e-12)


def test_self_bleu_edges():
    assert m.self_bleu(["a b c d", "a b c d"]) == pytest.approx(1.0)
    assert m.self_bleu(["", "a b"]) == 0.0
    assert math.isnan(m.self_bleu(["a"]))


def test_compression_sees_repetition_and_ignores_order():
    same, different = ["the same words"] * 20, [f"{i} {i * i} words" for i in range(20)]
    assert m.compression_ratio(same) > 2 * m.compression_ratio(different)
    assert m.compression_ratio(different) == m.compression_ratio(different[::-1])


def test_label_measures_by_hand():
    labels, correct = ["a", "a", "b", "c", None], [True, True, True, False, True]
    assert m.distinct(labels) == 3 and m.distinct_correct(labels, correct) == 2
    # pairs of a a b c: 6, one of them equal; of the correct a a b: 3, one equal
    assert m.pairwise_difference(labels) == pytest.approx(5 / 6)
    assert m.correct_difference(labels, correct) == pytest.approx(2 / 3)
    assert m.distinct_correct(["a", "b"], [False, False]) == 0.0
    assert math.isnan(m.correct_difference(["a", "b"], [True, False]))
    # shares 1/2 1/4 1/4: exp(1.5 log 2), 1/(1/4 + 1/16 + 1/16), 1/(1/2)
    assert m.hill("aabc", q=1) == pytest.approx(2**1.5)
    assert m.hill("aabc", q=2) == pytest.approx(8 / 3)
    assert m.hill("aabc", q=math.inf) == pytest.approx(2.0)
    assert m.entropy("aabc") == pytest.approx(1.5 * math.log(2))
    assert m.entropy("aabc", categories=4) == pytest.approx(0.75)
    assert math.isnan(m.entropy("aa", categories=1))


# K of the worked example: eigenvalues of K/4 are .025 .2 .3 .475
KERNEL = np.array([[1, 0.9, 0, 0], [0.9, 1, 0, 0], [0, 0, 1, 0.2], [0, 0, 0.2, 1]])


@pytest.mark.parametrize("q", [0, 0.1, 0.5, 1, 2, math.inf])
def test_vendi_is_the_hill_number_of_the_known_spectrum(q):
    p = np.array([0.025, 0.2, 0.3, 0.475])
    by_hand = {1: math.exp(-(p * np.log(p)).sum()), math.inf: 1 / 0.475}
    expected = by_hand[q] if q in by_hand else (p**q).sum() ** (1 / (1 - q))
    rows = np.linalg.cholesky(KERNEL)
    assert spectral.vendi(rows, q=q) == pytest.approx(expected)
    wide = np.hstack([rows, np.zeros((4, 3))])  # n < d takes the kernel, n >= d the Gram matrix
    assert spectral.vendi(wide * 7.0, q=q) == pytest.approx(expected)


def test_embedding_measures():
    assert spectral.vendi(np.eye(3)) == pytest.approx(3.0)
    assert spectral.vendi(np.tile([[1.0, 2.0]], (5, 1)), q=0) == pytest.approx(1.0)
    rows = np.random.default_rng(0).normal(size=(7, 3))
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    brute = np.mean([1 - unit[i] @ unit[j] for i, j in permutations(range(7), 2)])
    assert geometry.pairwise_cosine(rows) == pytest.approx(brute)
    assert math.isnan(geometry.pairwise_cosine([[1.0, 0.0]])) and spectral.vendi([[3.0, 4.0]]) == pytest.approx(1.0)
    with pytest.raises(UserError, match=r"embeddings\[1\]: is zero"):
        spectral.vendi([[1.0, 0.0], [0.0, 0.0]])


def arguments(data, n, seed):
    rng = np.random.default_rng(seed)
    sentences = ["Let x be y.", "Solve the equation.", "Check it.", "In case one.", "List them."]
    made = {
        "texts": [
            " ".join([*rng.choice(list("abcdef"), size=8), "end.", *rng.permutation(sentences)[:3]]) for _ in range(n)
        ],
        "labels": [*"abca", *rng.choice(list("abc"), size=n - 4)],
        "correct": [True] * n,
        "rewards": [0.75] * n,
        "embeddings": rng.normal(size=(n, 3)),
        "gradients": rng.normal(size=(n, 3)),
        "reference": rng.normal(size=(40, 3)),
        "steps": [rng.normal(size=(3, 4)) for _ in range(n)],
        "features": [{int(i), int(i) + 1} for i in rng.permutation(n)],
        "known": {*range(20), "a", "b", "c"},
        "attributes": [[str(a), str(b)] for a, b in rng.integers(0, 3, size=(n, 2))],
        "ratings": rng.integers(1, 5, size=(n, 2)).astype(float),
    }
    return {name: made[name] for name in data}


WHOLE = ("reference", "known")  # what stands beside the set and is no part of it
KNOBS = {
    "attribute_entropy": {"categories": [3, 3]},
    "value_diversity": {"options": [4, 4]},
    "value_span": {"options": [4, 4]},
}
KNOBS["coverage_knn"], KNOBS["feature_coverage"] = {"k": 2}, {}


def own_measures():
    return [e for e in registry.entries("measure") if e.target.startswith("polypath.diversity.")]


def test_the_measures_are_registered():
    assert {"distinct_n", "self_bleu", "vendi", "pairwise_cosine", "hill"} <= {e.name for e in own_measures()}
    assert len(own_measures()) >= 39


@pytest.mark.parametrize("entry", own_measures(), ids=lambda entry: entry.name)
def test_declared_traits_and_the_empty_set(entry):
    function = registry.get("measure", entry.name)
    knobs = KNOBS.get(entry.name, {})
    data = arguments(entry.data, 6, seed=3)
    value = function(**data, **knobs)

    def chosen(rows):
        return {k: v if k in WHOLE else [v[i] for i in rows] for k, v in data.items()}

    if "permutation_invariant" in entry.traits:
        assert function(**chosen((4, 0, 5, 2, 1, 3)), **knobs) == pytest.approx(value, rel=1e-9)
    repeated = function(**chosen([0] * 6), **knobs)
    if "more_is_diverse" in entry.traits:
        assert repeated < value
    elif "less_is_diverse" in entry.traits:
        assert repeated > value
    empty = {
        k: v if k in WHOLE else np.empty((0, 3)) if np.ndim(v) == 2 and k != "attributes" else []
        for k, v in data.items()
    }
    if entry.name.startswith("value_"):
        empty["ratings"] = np.empty((0, 2))
    found = function(**empty, **knobs)
    assert math.isnan(found) or (entry.name in COUNTS and found == 0)


COUNTS = ("coverage", "feature_coverage", "prompt_diversity")  # nothing covers nothing: 0 is what it is


@pytest.mark.parametrize("entry", [e for e in own_measures() if "embeddings" in e.data], ids=lambda entry: entry.name)
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_an_embedding_that_is_not_finite_is_named(entry, bad):
    data = arguments(entry.data, 6, seed=1)
    data["embeddings"][3, 1] = bad
    with pytest.raises(UserError, match=r"embeddings\[3\]: is not finite"):
        registry.get("measure", entry.name)(**data)
