"""Set measures by hand, against brute force, and the traits they declare."""

import math
import random
from collections import Counter
from itertools import permutations

import numpy as np
import pytest

from polypath.core import registry
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
    assert m.vendi(rows, q=q) == pytest.approx(expected)
    wide = np.hstack([rows, np.zeros((4, 3))])  # n < d takes the kernel, n >= d the Gram matrix
    assert m.vendi(wide * 7.0, q=q) == pytest.approx(expected)


def test_embedding_measures():
    assert m.vendi(np.eye(3)) == pytest.approx(3.0)
    assert m.vendi(np.tile([[1.0, 2.0]], (5, 1)), q=0) == pytest.approx(1.0)
    rows = np.random.default_rng(0).normal(size=(7, 3))
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    brute = np.mean([1 - unit[i] @ unit[j] for i, j in permutations(range(7), 2)])
    assert m.pairwise_cosine(rows) == pytest.approx(brute)
    assert math.isnan(m.pairwise_cosine([[1.0, 0.0]])) and m.vendi([[3.0, 4.0]]) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="embedding 1 is zero"):
        m.vendi([[1.0, 0.0], [0.0, 0.0]])


def arguments(data, n, seed):
    rng = np.random.default_rng(seed)
    made = {
        "texts": [" ".join(rng.choice(list("abcdef"), size=8)) for _ in range(n)],
        "labels": rng.choice(list("abc"), size=n).tolist(),
        "correct": [True] * n,
        "embeddings": rng.normal(size=(n, 3)),
    }
    return {name: made[name] for name in data}


def own_measures():
    return [e for e in registry.entries("measure") if e.target.startswith("polypath.diversity.measures:")]


def test_the_measures_are_registered():
    assert {"distinct_n", "self_bleu", "vendi", "pairwise_cosine", "hill"} <= {e.name for e in own_measures()}


@pytest.mark.parametrize("entry", own_measures(), ids=lambda entry: entry.name)
def test_declared_traits_and_the_empty_set(entry):
    function = registry.get("measure", entry.name)
    data = arguments(entry.data, 6, seed=3)
    value = function(**data)
    shuffled = {k: [v[i] for i in (4, 0, 5, 2, 1, 3)] for k, v in data.items()}
    assert "permutation_invariant" in entry.traits and function(**shuffled) == pytest.approx(value, rel=1e-9)
    repeated = {k: [v[0]] * 6 for k, v in data.items()}
    if "more_is_diverse" in entry.traits:
        assert function(**repeated) < value
    else:
        assert "less_is_diverse" in entry.traits and function(**repeated) > value
    assert math.isnan(function(**{k: np.empty((0, 3)) if k == "embeddings" else [] for k in data}))
