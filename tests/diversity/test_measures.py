"""Measures of texts and labels by hand and against brute force."""

import math
import random
from collections import Counter
from itertools import combinations, pairwise, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polypath.core.errors import UserError
from polypath.diversity import measures as m
from polypath.diversity.features import tokens
from polypath.diversity.measures import text

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


WORDS = st.lists(st.text("ab c", max_size=12), min_size=2, max_size=6)


@given(WORDS)
def test_self_bleu_of_any_lengths_equals_its_definition(texts):
    words = [tokens(text) for text in texts]
    expected = np.mean([bleu(words[:i] + words[i + 1 :], words[i]) if words[i] else 0.0 for i in range(len(words))])
    assert m.self_bleu(texts) == pytest.approx(expected, abs=1e-12)


def lcs(a, b):
    """Longest common subsequence by recursion on the last tokens."""
    if not a or not b:
        return 0
    return lcs(a[:-1], b[:-1]) + 1 if a[-1] == b[-1] else max(lcs(a[:-1], b), lcs(a, b[:-1]))


@given(st.lists(st.text("abc", max_size=5).map(" ".join), min_size=2, max_size=5))
def test_rouge_l_equals_its_definition(texts):
    def f1(a, b):
        return 2 * lcs(a, b) / (len(a) + len(b)) if a or b else 1.0

    expected = np.mean([f1(tokens(a), tokens(b)) for a, b in permutations(texts, 2)])
    assert m.rouge_l(texts) == pytest.approx(expected)


def test_rouge_l_in_blocks_and_of_a_sample(monkeypatch):
    rng = random.Random(1)
    texts = [" ".join(rng.choices("abcdefgh", k=10)) for _ in range(40)]
    whole = m.rouge_l(texts)
    monkeypatch.setattr(text, "PAIR_BLOCK", 7)
    assert m.rouge_l(texts) == pytest.approx(whole)
    sampled = m.rouge_l(texts, most=20)
    assert sampled != whole and sampled == pytest.approx(whole, abs=0.05)
    assert m.rouge_l(texts[::-1], most=20) == pytest.approx(sampled)
    # more different tokens than the characters of one byte or of the basic plane
    many = [" ".join(f"w{i}" for i in range(start, start + 500)) for start in range(0, 70_000, 500)]
    assert m.rouge_l([*many[:3], many[-1], many[-1]]) == pytest.approx(1 / 10)


def test_self_repetition_by_hand():
    # 4-grams of two equal texts of five tokens: 2 each, each in one other text: log 3; the third shares none
    assert m.self_repetition(["a b c d e", "a b c d e", "v w x y z"]) == pytest.approx(2 * math.log(3) / 3)
    assert m.self_repetition(["a b", "c"]) == 0.0 and math.isnan(m.self_repetition([]))


def test_prompt_diversity_grows_with_new_ngrams_only():
    # 11 words, 12 pairs, 10 triples and 8 quadruples, as above
    assert m.prompt_diversity(TEXTS) == pytest.approx(sum(map(math.log, (12, 13, 11, 9))))
    assert m.prompt_diversity([*TEXTS, TEXTS[0]]) == m.prompt_diversity(TEXTS)
    assert m.prompt_diversity([""]) == 0.0 and math.isnan(m.prompt_diversity([]))


def test_mtld_by_hand():
    # "a b a a": ratios 1, 1, 2/3 <= .72 closes a stretch; the last "a" is a partial one of (1 - 1)/.28 = 0: 4/1 = 4.
    # Backwards "a a": 1/2 closes, then "b a" has ratio 1: 4/1 = 4.
    assert m.mtld(["a b a a"]) == pytest.approx(4.0)
    # "a b c a": ratios 1, 1, 1, 3/4 > .72: only the partial stretch (1 - 3/4)/(1 - .72) of it
    assert m.mtld(["a b c a"]) == pytest.approx(4 / (0.25 / 0.28))
    assert math.isnan(m.mtld([""])) and m.mtld(["all words differ", ""]) == 3.0


def test_hdd_is_the_mean_over_all_draws():
    words = ["a", "b", "a", "c", "d", "a", "b"]
    expected = np.mean([len(set(drawn)) / 3 for drawn in combinations(words, 3)])
    assert m.hdd([" ".join(words)], draws=3) == pytest.approx(expected)
    assert m.hdd([" ".join(words), "a b"], draws=3) == pytest.approx(expected), "too short"
    assert math.isnan(m.hdd(["a b"]))


def test_entropy_corrected_for_bias():
    # counts 2 1 1: 1.5 log 2 + (3 - 1)/8; with four declared categories (4 - 1)/8
    assert m.entropy_corrected("aabc") == pytest.approx(1.5 * math.log(2) + 0.25) == pytest.approx(1.289721, abs=5e-7)
    assert m.entropy_corrected("aabc", categories=4) == pytest.approx(1.5 * math.log(2) + 3 / 8)
    assert m.entropy_corrected(["a", None]) == 0.0 and math.isnan(m.entropy_corrected([None]))
    with pytest.raises(UserError, match="categories: are 2, but 3 labels occur"):
        m.entropy("abc", categories=2)


def test_miller_madow_is_nearer_to_the_truth_on_average():
    rng = np.random.default_rng(0)
    draws = rng.integers(8, size=(300, 20)).tolist()
    plain, corrected = (np.mean([function(d) for d in draws]) for function in (m.entropy, m.entropy_corrected))
    assert abs(corrected - math.log(8)) < abs(plain - math.log(8)) / 3


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=12))
def test_hill_numbers_fall_with_the_order(labels):
    values = [m.hill(labels, q=q) for q in (0, 0.5, 1, 2, 5, math.inf)]
    assert all(a >= b - 1e-9 for a, b in pairwise(values))
    assert values[0] == len(set(labels)) and values[-1] + 1e-12 >= 1


def test_inception_score_by_hand():
    # mean (.7, .3): divergences .9 log(.9/.7) + .1 log(.1/.3) and .5 log(.5/.7) + .5 log(.5/.3)
    divergences = 0.9 * math.log(9 / 7) + 0.1 * math.log(1 / 3), 0.5 * math.log(5 / 7) + 0.5 * math.log(5 / 3)
    expected = math.exp(sum(divergences) / 2)
    assert m.inception_score([[0.9, 0.1], [0.5, 0.5]]) == pytest.approx(expected)
    assert m.inception_score(np.eye(5)) == pytest.approx(5.0) and math.isnan(m.inception_score([]))
    with pytest.raises(UserError, match="do not sum to 1"):
        m.inception_score([[0.5, 0.6]])


def test_vendi_of_bags_of_words():
    # counts of a, b, (a b) and a, c, (a c): cosine 1/3; shares (1 +- 1/3)/2
    p = np.array([2 / 3, 1 / 3])
    assert m.ngram_vendi(["a b", "a c"]) == pytest.approx(math.exp(-(p * np.log(p)).sum()))
    assert m.ngram_vendi(["", "", "a"], q=0) == 2 and m.ngram_vendi(["x", "x"]) == pytest.approx(1.0)
    assert m.ngram_vendi(["a b", "b a"], largest=1) == pytest.approx(1.0) and math.isnan(m.ngram_vendi([]))


def test_what_is_known_and_found():
    assert m.coverage(["a", "b", None], {"a", "b", "c"}) == pytest.approx(2 / 3) and m.coverage([], {"a"}) == 0.0
    assert m.feature_coverage([{1, 9}, set()], {1, 2, 3}) == pytest.approx(1 / 3)
    assert m.missing_features([{1, 9}, set()], {1, 2, 3}) == {2, 3} and m.feature_coverage([], {1}) == 0.0
    for function in (m.coverage, m.feature_coverage):
        with pytest.raises(UserError, match="known: is empty"):
            function([], set())


def test_attributes_by_hand():
    # 49 of 50: -(.98 log .98 + .02 log .02) / log 2; colour half and half: 1; size never differs: 0, or left out when
    # one value is all it can take
    cookies = [{"shape": "round", "colour": "ab"[i % 2], "size": 1} for i in range(49)]
    cookies.append({"shape": "square", "colour": "b"})
    shape = -(0.98 * math.log(0.98) + 0.02 * math.log(0.02)) / math.log(2)
    assert shape == pytest.approx(0.141441, abs=5e-7)
    assert m.attribute_entropy(cookies) == pytest.approx((shape + 1 + 0) / 3)
    declared = {"shape": 4, "colour": 2, "size": 1}
    assert m.attribute_entropy(cookies, categories=declared) == pytest.approx((shape / 2 + 1) / 2)
    rows = [["round", "a"]] * 49 + [["square", "a"]]
    assert m.attribute_entropy(rows, categories=[2, 3]) == pytest.approx(shape / 2)
    assert m.default_behaviours(cookies) == {"shape": "round", "size": 1}
    assert math.isnan(m.attribute_entropy([])) and math.isnan(m.attribute_entropy([{"size": 1}], categories=1))
    with pytest.raises(UserError, match="categories: are 1 for 2 attributes"):
        m.attribute_entropy(rows, categories=[2])


def test_approaches_count_correct_solutions_only():
    approaches, correct = ["a", "a", "b", "c"], [True, True, True, False]
    # shares 2/3 and 1/3
    expected = math.exp(-(2 / 3 * math.log(2 / 3) + 1 / 3 * math.log(1 / 3)))
    assert m.approach_diversity(approaches, correct) == pytest.approx(expected)
    assert m.approach_diversity(approaches, correct, q=0) == 2
    assert math.isnan(m.approach_diversity(["a", "b"], [True, False]))
