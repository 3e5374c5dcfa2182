"""Measures of a file: values, groups, what is missing."""

import math
import re

import numpy as np
import pytest

import polypath
from polypath.core.errors import UserError, UserErrors
from polypath.core.record import Rollout
from polypath.core.store import RolloutWriter
from polypath.diversity import measures as m
from polypath.evaluate.measure import group, measure_difference, measure_file, measure_rollouts
from polypath.evaluate.measure_sources import Sources
from polypath.evaluate.measure_spec import Spec, signature


def rows(prompt_id, texts, forms=None, **fields):
    forms = forms or texts
    return [
        Rollout(prompt_id, f"{prompt_id}{i % 2}", i, t, canonical=c, rewards={"r": float(i)}, **fields)
        for i, (t, c) in enumerate(zip(texts, forms, strict=True))
    ]


def test_values_per_prompt_beside_length_and_reward(tmp_path):
    path = tmp_path / "rollouts.jsonl"
    with RolloutWriter(path) as writer:
        writer.write(rows("p", ["a b", "a b", "a c"], tokens={"generated": 2}))
        writer.write(rows("q", ["x", "y"], tokens={"generated": 1}))
    table = measure_file(path, ["distinct_n:n=2", "pairwise_difference", "hill:q=inf"])
    assert table.prompt_ids == ("p", "q")
    # p: bigrams ab ab ac; forms 2 + 1: 1 of 3 pairs equal; 1/(2/3). q: no bigram; both differ
    assert table["distinct_n:n=2"] == pytest.approx([2 / 3, math.nan], nan_ok=True)
    assert table["pairwise_difference"] == pytest.approx([2 / 3, 1.0])
    assert table["hill:q=inf"] == pytest.approx([1.5, 2.0])
    assert table["length"].tolist() == [2.0, 1.0] and table["reward"].tolist() == [1.0, 0.5]
    assert table["characters"].tolist() == [3.0, 1.0] and table.mean("distinct_n:n=2").n == 1


def test_groups_and_columns_of_others():
    data = rows("p", ["a", "b"], extra={"model": "m"}) + rows("q", ["c"], extra={"model": "n"})
    assert list(group(data, "model")) == ["m", "n"] and len(group(data, "all")["all"]) == 3
    assert list(group(data, "group")) == ["p0", "p1", "q0"]
    with pytest.raises(UserError, match=r"no column 'modle'.*Did you mean model"):
        group(data, "modle")


def test_embeddings_from_a_column_or_a_callable():
    data = rows("p", ["a", "b"], extra={"embedding": [1.0, 0.0]})
    assert measure_rollouts(data, ["vendi"])["vendi"] == pytest.approx([1.0])
    assert measure_rollouts(data, ["vendi"], sources=Sources(embed=lambda texts: np.eye(len(texts))))[
        "vendi"
    ] == pytest.approx([2.0])


def test_pass_at_k_needs_verdicts():
    data = rows("p", ["a", "b"])
    with pytest.raises(UserErrors, match=r"needs correct(.|\n)*needs embeddings"):
        measure_rollouts(data, ["pass_at_k:k=2", "vendi"])
    judged = [Rollout("p", "p", i, "t", correct=i == 0, canonical=str(i)) for i in range(4)]
    table = measure_rollouts(judged, ["pass_at_k:k=2", "distinct_at_k:k=2"])
    assert table["pass_at_k:k=2"] == pytest.approx([0.5]) and table["distinct_at_k:k=2"] == pytest.approx([0.5])


def test_bad_names_are_all_reported_at_once():
    with pytest.raises(UserErrors) as caught:
        measure_rollouts(rows("p", ["a"]), ["distnct_n", "hill:p=2"])
    text = str(caught.value)
    assert "no measure named 'distnct_n'. Did you mean distinct_n?" in text and "no knob 'p'" in text
    with pytest.raises(UserError, match="no rollouts"):
        measure_rollouts([])
    assert Spec.parse("hill:q=inf").knobs == {"q": math.inf}


def test_knobs_are_checked_before_anything_is_measured():
    assert Spec.parse("value_diversity:options=[4, 3]").knobs == {"options": [4, 3]}
    assert Spec.parse("novel_sum:alpha=2,with_self=false").knobs == {"alpha": 2.0, "with_self": False}
    for text, message in [
        ("distinct_n:n=few", "distinct_n:n=few: expects a whole number, got 'few'"),
        ("reasoning_path_divergence:reduce=largest", "'largest' is not a choice"),
        ("distinct_n:n", "expects a whole number, got nothing"),
        ("distinct_n:n=[1", "is not valid YAML"),
    ]:
        with pytest.raises(UserError, match=re.escape(message)):
            Spec.parse(text)


def test_two_files_are_paired_by_prompt():
    a = measure_rollouts(rows("p", ["a", "b"]) + rows("q", ["c", "d"]), ["distinct"])
    b = measure_rollouts(rows("q", ["c", "c"]) + rows("r", ["c", "d"]), ["distinct"])
    d = measure_difference(a, b).difference("a", "distinct")
    assert d.value == 1.0 and d.n_prompts == 1


def spell(texts):
    """An embedding by the number of each vowel."""
    return np.array([[text.count(vowel) + 0.1 for vowel in "aeiou"] for text in texts])


def test_similarity_and_steps_follow_from_texts_and_a_model():
    texts = ["Let a be.\n\nadd a", "eel\n\nover", "Let a be.\n\nadd a"]
    embeddings, steps = spell(texts), [spell(text.split("\n\n")) for text in texts]
    found = measure_rollouts(
        rows("p", texts),
        ["internal_diversity", "reasoning_path_divergence", "pairwise_cosine"],
        sources=Sources(embed=spell),
    )
    assert found["internal_diversity"][0] == pytest.approx(m.pairwise_cosine(embeddings))
    assert found["reasoning_path_divergence"][0] == pytest.approx(m.reasoning_path_divergence(steps))
    with pytest.raises(UserErrors) as caught:
        measure_rollouts(rows("p", texts), ["internal_diversity", "gradient_vendi"])
    assert "--embed minilm" in str(caught.value) and "--with proxy=smollm2" in str(caught.value)


def test_gradients_come_from_a_proxy_that_sees_prompt_and_text():
    def proxy(prompts, texts):
        return [[len(prompt), len(text)] for prompt, text in zip(prompts, texts, strict=True)]

    rollouts = [Rollout("p", "p", i, text, prompt="12345") for i, text in enumerate(["a", "abcdefgh"])]
    found = measure_rollouts(rollouts, ["gradient_vendi"], sources=Sources(gradients=proxy))
    assert found["gradient_vendi"][0] == pytest.approx(m.vendi([[5, 1], [5, 8]]))


def test_a_signature_says_how_a_value_was_made():
    text = signature("novel_sum:beta=0", embedder="minilm")
    assert text.startswith("novel_sum|alpha=1.0|beta=0.0|k=10|with_self=True|density=None|embedding:minilm v1 #")
    assert signature("novel_sum:beta=0", embedder="other") != text
    assert "gradients:smollm2" in signature("gradient_vendi", proxy="smollm2")
    assert signature("distinct_2").endswith(f"|polypath {polypath.__version__}")


def test_equal_numbers_of_each_group():
    rows = [Rollout("a", "a", i, f"t{i}") for i in range(6)] + [Rollout("b", "b", i, f"u{i}") for i in range(3)]
    found = measure_rollouts(rows, ["distinct_1"], equal_n=4)
    assert found.prompt_ids == ("a",) and found.table["samples"].tolist() == [4.0]
    again = measure_rollouts(rows[::-1], ["distinct_1"], equal_n=3)
    assert set(again.prompt_ids) == {"a", "b"} and again.table["samples"].tolist() == [3.0, 3.0]
    with pytest.raises(UserError, match="largest has 6"):
        measure_rollouts(rows, ["distinct_1"], equal_n=7)
