"""How measures behave under controlled changes."""

import math

import pytest

from polypath.core.errors import UserError
from polypath.diversity import measures as m

TEXTS = [f"the {animal} likes {food} on a {day}" for animal, food, day in zip(
    ["cat", "dog", "cow", "hen", "pig"], ["fish", "bones", "grass", "corn", "mud"],
    ["monday", "tuesday", "friday", "sunday", "holiday"], strict=True)]  # fmt: skip
MEASURES = {"distinct_2": m.distinct_n, "self_bleu": m.self_bleu, "routes": m.distinct_routes, "n": len}


def test_copies_lower_diversity_step_by_step():
    found = m.behaviours(MEASURES, TEXTS, change="copies")
    assert found["n"] == [5] * 5
    assert found["distinct_2"] == sorted(found["distinct_2"], reverse=True)
    assert found["self_bleu"] == sorted(found["self_bleu"]) and found["self_bleu"][-1] == pytest.approx(1.0)
    assert found == m.behaviours(MEASURES, TEXTS, change="copies", seed=0)


def test_fewer_and_shorter():
    assert m.behaviours(MEASURES, TEXTS, change="fewer")["n"] == [5, 4, 3, 2, 1]
    lengths = {"characters": lambda texts: float(sum(map(len, texts)))}
    found = m.behaviours(lengths, TEXTS, change="shorter", levels=[0, 0.5, 1])["characters"]
    assert found[0] > found[1] > found[2] == 0.0
    assert all(math.isnan(value) for value in m.behaviours(MEASURES, [])["n"])
    with pytest.raises(UserError, match="levels"):
        m.behaviours(MEASURES, TEXTS, levels=[2.0])
