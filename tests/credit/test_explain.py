import json

import pytest

from polypath.core.errors import UserError
from polypath.credit import run_method


def test_the_result_is_json_and_null_stands_for_undefined():
    result = run_method("rarity", {"rewards": [1, None, 1, 0], "labels": ["a", None, "b", "a"]})
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert result["keep"] == [True, False, True, True] and result["advantages"][1] == 0.0
    assert result["metrics"]["corr_credit_length"] is None


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ({}, "group.rewards: is missing"),
        ({"rewards": []}, "the group is empty"),
        ({"rewards": [1, "x"]}, "group.rewards[1]: 'x' is not a number"),
        ({"reward": [1]}, "group.reward: unknown field. Did you mean rewards?"),
        ({"rewards": [1, 0], "labels": [0]}, "labels has 1 entries, rewards has 2"),
        ({"rewards": [1, 0]}, "needs the field 'labels', which is missing. Let the task set `canonical`"),
        ({"rewards": [0.5, 0], "labels": [0, 1]}, "needs the field 'correct'"),
        ({"rewards": [1, 0], "labels": "ab"}, "labels is not a list"),
        ({"rewards": [1, 0], "labels": 3}, "labels is not a list"),
        # The text "false" is true in Python, and 0.3 is as well.
        ({"rewards": [1, 0], "labels": [0, 1], "correct": ["true", "false"]}, "neither true nor false"),
        ({"rewards": [1, 0], "labels": [0, 1], "correct": [1, 0.3]}, "neither true nor false"),
        ({"rewards": [1, 0], "labels": [0, 1], "texts": ["a", None]}, "an entry that is no text"),
    ],
)
def test_mistakes_are_named(group, message):
    with pytest.raises(UserError) as caught:
        run_method("rarity", group)
    assert message in str(caught.value)
