import math

import pytest

from polypath.core.errors import UserError
from polypath.tasks.protocol import Prompt, Score
from polypath.tasks.verify import Failures, verify_all

PROMPT = Prompt("p", "?")


class Fake:
    name, chat = "fake", False

    def verify(self, prompt, text):
        if text == "raise":
            raise KeyError("boom")
        if text == "mistake":
            raise UserError("task", "is wrong")
        return Score(math.nan if text == "nan" else 1.0, True, text, canonical=text)


def test_exceptions_and_nan_are_contained_and_counted():
    failures = Failures()
    texts = ["fine", "raise", "", " \n", "nan", "raise"]
    scores = verify_all(Fake(), [PROMPT] * len(texts), texts, failures)
    assert scores[0] == Score(1.0, True, "fine", canonical="fine")
    for i in (1, 4, 5):
        assert math.isnan(scores[i].reward)
        assert (scores[i].correct, scores[i].valid, scores[i].canonical) == (False, False, None)
    for i in (2, 3):  # an empty completion is wrong, not a failure of the verifier
        assert scores[i] == Score(0.0, False, valid=False)
    assert (failures.count, failures.total, failures.share) == (3, 6, 0.5)
    assert "KeyError: 'boom'" in failures.first
    assert "in verify" in failures.first


def test_mistakes_of_the_user_and_bad_lengths_pass_through():
    with pytest.raises(UserError):
        verify_all(Fake(), [PROMPT], ["mistake"])
    with pytest.raises(ValueError):
        verify_all(Fake(), [PROMPT], ["a", "b"])
    assert math.isnan(Failures().share)
