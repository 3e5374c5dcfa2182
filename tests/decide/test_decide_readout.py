"""Readouts on tiny models: exact against one forward a label, isolated, and functions of the option set."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

torch = pytest.importorskip("torch")

from polypath.cli.main import app  # noqa: E402
from polypath.core.errors import UserError  # noqa: E402
from polypath.decide.readout import ask, branch_rows, label_tree  # noqa: E402
from polypath.decide.types import Choice, MultiLabel, Pair, Rank, Score, YesNo, options  # noqa: E402
from polypath.engines.protocol import Row  # noqa: E402
from polypath.engines.tiny import build_gpt2  # noqa: E402
from polypath.engines.tree import build_trie, score_tree  # noqa: E402


@pytest.fixture(scope="module")
def policy():
    from polypath.engines.transformers import TransformersPolicy

    return TransformersPolicy.load("countdown-0")


NUMBERS = Choice(options(["1 + 2", "3", "1 + 4", "48"]), "20 ?")


def naive(policy, row: Row) -> np.ndarray:
    """Plain causal forward of one row, by the model itself."""
    ids = torch.tensor([[*row.prompt_ids, *row.ids]])
    with torch.no_grad():
        logp = policy.model(ids).logits[0].double().log_softmax(-1)
    base = len(row.prompt_ids)
    return np.array([logp[base + j - 1, token].item() for j, token in enumerate(row.ids)])


def rows_of(policy, state: str, question) -> list[Row]:
    return branch_rows(policy.tokenizer, policy.stop_ids[0], state, label_tree(question))


def test_the_tree_equals_one_forward_a_label(policy):
    rows = rows_of(policy, "1 2 3", NUMBERS) + rows_of(policy, "1 2 3", Choice(options(["7", "7 * 2"])))
    worst = max(np.abs(a - naive(policy, row)).max() for a, row in zip(score_tree(policy, rows), rows, strict=True))
    assert worst < 1e-4
    trie = build_trie(rows)
    assert len(trie.ids) < sum(len(row.prompt_ids) + len(row.ids) - 1 for row in rows) / 2  # shared tokens run once


def test_a_tree_above_the_budget_is_split_and_equal(policy):
    rows = rows_of(policy, "1 2 3", NUMBERS)
    whole = np.concatenate(score_tree(policy, rows))
    most, policy.max_tokens = policy.max_tokens, len(rows[0].prompt_ids) + 3
    try:
        split = np.concatenate(score_tree(policy, rows))
    finally:
        policy.max_tokens = most
    np.testing.assert_allclose(split, whole, atol=1e-5)


def test_a_trie_by_hand():
    # rows 7 8 | 1 2, 7 8 | 1 3 and 7 | 9: nodes 7(0) 8(1) 1(2); the last token of each row is only predicted
    trie = build_trie([Row((7, 8), (1, 2)), Row((7, 8), (1, 3)), Row((7,), (9,))])
    assert trie.ids.tolist() == [7, 8, 1] and trie.positions.tolist() == [0, 1, 2]
    assert trie.sources == [[1, 2], [1, 2], [0]]
    branches = build_trie([Row((7,), (1, 2)), Row((7,), (3, 4))])
    assert branches.positions.tolist() == [0, 1, 1]
    assert branches.visible.tolist() == [[True, False, False], [True, True, False], [True, False, True]]


def test_bad_rows_are_refused(policy):
    for row in (Row((), (1,)), Row((1,), ()), Row((1,) * 60, (2,) * 20)):
        with pytest.raises(UserError, match="for a context of 64"):
            score_tree(policy, [row])


@pytest.fixture(scope="module")
def speaker():
    """Random weights, sharpened so that an error would show, and words for every readout."""
    words = [*"ABCDEFGH", "Yes", "No", "yes", "no", "red", "green", "blue", "light", "first", "second"]
    policy = build_gpt2(words, n_embd=32, n_layer=2, n_head=2, n_inner=48, n_positions=96, seed=1)
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter.mul_(8 if parameter.dim() > 1 else 1)
    return policy


@pytest.mark.parametrize("readout", ["label_tree", "letter", "yes_no"])
def test_other_questions_change_nothing(speaker, readout):
    colours = options(["red", "light blue", "green"])
    questions = {
        "choice": Choice(colours),
        "yesno": YesNo("light ?"),
        "some": MultiLabel(colours),
        "one": MultiLabel(colours[:1]),
        "level": Score(colours),
        "pair": Pair("red light", "blue light"),
    }
    together = ask(speaker, "red red", questions, readout=readout)
    for key, question in questions.items():
        alone = ask(speaker, "red red", {key: question}, readout=readout)[key]
        np.testing.assert_allclose(alone.logits, together[key].logits, atol=1e-4)
        assert alone.logits.shape == (len(question.options),)
        assert np.ptp(alone.logits) > 1e-3 or len(question.options) == 1
    assert together["choice"].probabilities.sum() == pytest.approx(1)


def test_permuting_the_options_permutes_the_answer(policy):
    labels = ["3", "1 + 2", "48", "5"]
    for kind in (Choice, Rank):
        given = ask(policy, "4", {"q": kind(options(labels))})["q"].logits
        turned = ask(policy, "4", {"q": kind(options(labels[::-1]))})["q"].logits
        np.testing.assert_array_equal(turned, given[::-1])
    raw = ask(policy, "4", {"q": Choice(options(labels))}, canonical=False)["q"].logits
    back = ask(policy, "4", {"q": Choice(options(labels[::-1]))}, canonical=False)["q"].logits
    assert np.abs(back - raw[::-1]).max() > 1e-3  # what the canonical order is for


def test_labels_that_cannot_be_told_apart_are_refused(policy):
    with pytest.raises(UserError, match="tokenizer writes"):
        ask(policy, "4", {"q": Choice(options(["apple", "3"]))})
    with pytest.raises(UserError, match="has the tokens of"):
        ask(policy, "4", {"q": Choice(options(["3  + 2", "3 + 2"]))})
    with pytest.raises(UserError, match="26 letters"):
        ask(policy, "4", {"q": Choice(options([str(i) for i in range(27)]))}, readout="letter")
    with pytest.raises(UserError, match="Did you mean letter"):
        ask(policy, "4", {"q": NUMBERS}, readout="leter")
    with pytest.raises(UserError, match="Choose sum or mean"):
        ask(policy, "4", {"q": NUMBERS}, length="median")


def test_nan_logits_are_an_error(policy):
    weight = policy.model.lm_head.weight
    kept = weight[3].clone()
    with torch.no_grad():
        weight[3] = float("nan")
    try:
        with pytest.raises(UserError, match="logits are NaN"):
            ask(policy, "4", {"q": NUMBERS})
    finally:
        with torch.no_grad():
            weight[3] = kept


def test_the_command_answers_in_json(tmp_path):
    file = tmp_path / "state.json"
    file.write_text('"1 2 3"')
    given = ["decide", "ask", str(file), "--choice", "1 + 2,3,48", "--model", "countdown-0"]
    done = CliRunner().invoke(app, [*given, "--score", "1,2", "--json"])
    found = json.loads(done.stdout)
    assert sum(found["answers"]["choice"]["probabilities"].values()) == pytest.approx(1)
    assert set(found["answers"]) == {"choice", "score"}
    shown = CliRunner().invoke(app, given)
    assert shown.exit_code == 0 and "1 + 2" in shown.stdout and "not calibrated" in shown.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--choice", "a"], "1 options"),
        ([], "nothing is asked"),
        (["--choice", "a,,b"], "label is empty"),
    ],
)
def test_the_command_refuses_bad_questions(tmp_path, arguments, message):
    file = tmp_path / "state.txt"
    file.write_text("hello")
    done = CliRunner().invoke(app, ["decide", "ask", str(file), *arguments])
    assert done.exit_code == 2 and message in done.stderr


@pytest.mark.model
def test_a_real_model_answers_all_types():
    from polypath.engines.transformers import TransformersPolicy

    policy = TransformersPolicy.load("smollm2")
    three = options({"bug": "something is broken", "feature request": None, "question": None})
    questions = {
        "a": YesNo("Is it urgent?"),
        "b": Choice(three),
        "c": Score(options(["low", "high"])),
        "d": MultiLabel(three),
        "e": Rank(three),
        "f": Pair("It crashed.", "Please add colours."),
    }
    for readout in ("label_tree", "letter", "yes_no"):
        answers = ask(policy, "The app crashes when I press save.", questions, readout=readout)
        for key, answer in answers.items():
            assert np.isfinite(answer.logits).all() and 0 < answer.label_mass <= 1 + 1e-5
            assert key == "d" or answer.probabilities.sum() == pytest.approx(1)
    rows = rows_of(policy, "The app crashes.", questions["b"])
    worst = max(np.abs(a - naive(policy, row)).max() for a, row in zip(score_tree(policy, rows), rows, strict=True))
    assert worst < 1e-4
