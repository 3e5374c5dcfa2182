"""Question types, statistics and the two wire contracts."""

import json

import numpy as np
import pytest

from polypath.core.errors import UserError
from polypath.decide.answers import make_answer, softmax, statistics
from polypath.decide.types import Choice, MultiLabel, Pair, Rank, Score, YesNo, options
from polypath.decide.wire import emit_openai, emit_system_one, parse_openai, parse_system_one

THREE = np.log([0.1, 0.7, 0.2])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Choice(options(["a", "b", " a "])), "choice option 2: 'a' is option 0 too"),
        (lambda: Choice(()), "0 options"),
        (lambda: Choice(options(["a"])), "1 options"),
        (lambda: Choice(options([f"o{i}" for i in range(256)])), "256 options. Give 2 to 255"),
        (lambda: Choice(options(["a", " "])), "option 1: the label is empty"),
        (lambda: Choice(options(["a", 3])), "label 3 is a int"),
        (lambda: Choice(options("a,b")), "is a str"),
        (lambda: Choice(options({"a": 1.5, "b": None})), "is a float"),
        (lambda: Score(options([str(i) for i in range(11)])), "11 options. Give 2 to 10"),
        (lambda: Pair("x", "x"), "both texts are the same"),
    ],
)
def test_bad_questions_are_refused(make, message):
    with pytest.raises(UserError, match=message):
        make()


def test_the_limits_are_allowed():
    assert len(Choice(options([f"o{i}" for i in range(255)])).options) == 255
    assert len(MultiLabel(options(["only"])).options) == 1
    Choice(options([True, "true"]))  # a bool and a text are different answers


def test_statistics_of_the_worked_example():
    # p = [.1, .7, .2], n = 3. Choice: (.7 - 1/3) / (2/3) = .55. Score: mode 1, sum p|i-1| = .3, D = (1+0+1)/3 = 2/3,
    # 1 - .3 / (2/3) = .55. Log margin ln 3.5 = 1.2528; entropy .8018, 1 - .8018 / ln 3 = .2702.
    labels = options(["a", "b", "c"])
    found = statistics(make_answer(Choice(labels), THREE))
    want = {"p_max": 0.7, "log_margin": 1.252763, "entropy": 0.801819, "confidence": 0.55}
    assert {key: found[key] for key in want} == pytest.approx(want, abs=1e-6)
    assert found["entropy_confidence"] == pytest.approx(0.2702, abs=1e-4)
    assert statistics(make_answer(Score(labels), THREE))["confidence"] == pytest.approx(0.55)
    # [.5, 0, .5]: sum p|i-0| = 1, 1 - 1 / (2/3) < 0, so 0
    spread = statistics(make_answer(Score(labels), np.array([0.0, -np.inf, 0.0])))
    assert spread["confidence"] == 0 and spread["entropy"] == pytest.approx(np.log(2))


def test_nan_scores_stay_nan():
    assert np.isnan(softmax(np.array([0.0, np.nan]))).all()


def test_system_one_round_trip():
    request = {
        "model": "jev-latest",
        "state": {"ticket": "it crashes"},
        "extra": 1,
        "questions": {
            "urgent": {"type": "noul", "instructions": "Urgent?", "criteria": {"true": "down"}},
            "queue": {"type": "choice", "criteria": {"bug": "broken", "feature": None, "question": {"x": 1}}},
            "anger": {"type": "score", "instructions": ["How", "angry?"], "criteria": ["calm", "cross", "furious"]},
            "tags": {"type": "multilabel", "criteria": {"ui": None, "api": None}},
            "order": {"type": "rank", "criteria": {"a": None, "b": None, "c": None}},
            "better": {"type": "pair", "criteria": {"first": "x", "second": "y"}},
        },
    }
    state, questions = parse_system_one(json.loads(json.dumps(request)))
    assert state == '{"ticket": "it crashes"}'
    assert questions["urgent"] == YesNo("Urgent?", yes="down")
    assert [o.description for o in questions["queue"].options] == ["broken", "", '{"x": 1}']
    logits = {"urgent": np.log([0.9, 0.1]), "tags": np.array([1.0, -1.0]), "better": np.log([0.25, 0.75])}
    answers = {key: make_answer(q, logits.get(key, THREE)) for key, q in questions.items()}
    found = json.loads(json.dumps(emit_system_one(answers, model="m", tokens=7)))
    assert found["usage"] == {"input_tokens": 7, "output_tokens": 0}
    got = found["answers"]
    assert got["urgent"] == {"type": "noul", "noul": pytest.approx(0.9)}
    assert got["queue"]["choice"] == "feature" and got["queue"]["confidence"] == pytest.approx(0.55)
    assert got["anger"]["score"] == pytest.approx(1.1) and got["anger"]["legend"]["2"] == "furious"
    assert got["tags"]["labels"] == ["ui"] and got["tags"]["probabilities"]["ui"] == pytest.approx(1 / (1 + np.exp(-1)))
    assert got["order"]["ranking"] == ["b", "c", "a"] and got["better"]["pair"] == "second"


def test_openai_round_trip():
    request = {
        "input": "text",
        "questions": [
            {"type": "predicate", "instructions": "Spam?"},
            {"type": "choice", "choices": [{"value": True}, {"value": "true"}, {"value": "no", "description": "d"}]},
            {"type": "score", "levels": [{"label": "low"}, {"label": "mid"}, {"label": "high"}]},
        ],
    }
    _, questions = parse_openai(request)
    answers = [make_answer(questions[0], np.log([0.2, 0.8])), *(make_answer(q, THREE) for q in questions[1:])]
    found = emit_openai(answers, model="m")["answers"]
    assert found[0] == {"type": "predicate", "probability": pytest.approx(0.2)}
    assert [row["value"] for row in found[1]["probabilities"]] == [True, "true", "no"]  # a bool stays a bool
    assert found[1]["choice"] == "true" and found[2]["score"] == pytest.approx(1.1)
    with pytest.raises(UserError, match=r"answers\[0\]: Rank"):
        emit_openai([make_answer(Rank(options(["a", "b", "c"])), THREE)], model="m")


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ([], "request: is a list"),
        ({"questions": {"a": {"type": "noul"}}}, "request: has no 'state'"),
        ({"state": 3, "questions": {"a": {"type": "noul"}}}, "state: is a int"),
        ({"state": "", "questions": {}}, "questions: there are none"),
        ({"state": "", "questions": {"q": {"type": "nuol"}}}, r"questions.q.type: 'nuol'.*Did you mean noul"),
        ({"state": "", "questions": {"q": {"type": "choice", "criteria": {}}}}, "questions.q: choice: 0 options"),
        ({"state": "", "questions": {"q": {"type": "choice", "criteria": ["a"]}}}, "questions.q.criteria: is a list"),
        ({"state": "", "questions": {"q": {"type": "score", "criteria": {"a": 1}}}}, "q.criteria: is a dict"),
        ({"state": "", "questions": {"q": {"type": "noul", "criteria": {"yes": ""}}}}, "criteria.yes: is no such side"),
    ],
)
def test_bad_requests_name_the_place(request_, message):
    with pytest.raises(UserError, match=message):
        parse_system_one(request_)


def test_bad_openai_requests_name_the_place():
    for questions, message in (
        ({}, "questions: is no list"),
        ([{"type": "choice", "choices": ["a"]}], r"questions\[0\].choices\[0\]: is a str"),
        ([{"type": "choice", "choices": [{"value": 1}, {"value": 2}]}], "label 1 is a int"),
    ):
        with pytest.raises(UserError, match=message):
            parse_openai({"input": "", "questions": questions})
