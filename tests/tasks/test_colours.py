import pytest

from polypath.core.errors import UserError
from polypath.tasks.colours import COLOURS, Colours

TASK = Colours()
PROMPT = TASK.prompts("train", n=1)[0]


@pytest.mark.parametrize(
    ("text", "colour"),
    [
        ("Blue", "blue"),
        ("I would say RED! Red.", "red"),
        ("It is\nyellow.", "yellow"),
        ("bluebird", None),
        ("Scarlet", None),
        ("red or blue", None),
        ("", None),
    ],
)
def test_verify(text, colour):
    score = TASK.verify(PROMPT, text)
    assert (score.correct, score.reward, score.canonical) == (colour is not None, float(colour is not None), colour)


def test_solutions_are_exactly_what_verifies():
    assert {TASK.verify(PROMPT, text).canonical for text in TASK.demonstrations(PROMPT)} == TASK.solutions(PROMPT)
    assert len(COLOURS) == len(TASK.solutions(PROMPT)) == 8


def test_splits():
    texts = {split: {p.text for p in TASK.prompts(split, n=99)} for split in ("train", "dev", "test")}
    assert {split: len(found) for split, found in texts.items()} == {"train": 6, "dev": 2, "test": 2}
    assert len(set.union(*texts.values())) == 10
    assert "Name a colour. Answer with one word." in texts["train"]
    single = Colours(prompts=["A colour?"])
    assert [p.text for p in single.prompts("train", n=4)] == ["A colour?"]
    with pytest.raises(UserError, match="no prompts"):
        single.prompts("test", n=4)
    for wrong in ([], [" "]):
        with pytest.raises(UserError):
            Colours(prompts=wrong)
