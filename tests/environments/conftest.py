"""Every environment with a way to play it: the real simulators, in processes of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from polypath.tasks.environments.process import ProcessEnvironment

KNOBS: dict[str, dict[str, object]] = {
    "tictactoe": {},
    "dialogue": {"manner": "fickle"},
    "textworld": {"rooms": 2, "objects": 3, "quest": 2},
    "textworld_express": {"game": "coin", "parameters": "numLocations=3,includeDoors=0,numDistractorItems=0"},
    "scienceworld": {"game": "find-non-living-thing"},
    "gymnasium": {"id": "FrozenLake-v1"},
    "babyai": {"id": "BabyAI-GoToLocal-v0"},
    "textarena": {"id": "GuessTheNumber-v0"},
}
ANSWERS = {  # what a scripted policy says where nothing is listed
    "dialogue": ["What cuisine do you want?", "Which area?", "banana", "propose thai, north, cheap"],
    "scienceworld": ["look around", "open door to kitchen", "look in inventory", "wait"],
    "textarena": ["[10]", "[5]", "[15]", "[3]"],
}


@pytest.fixture(scope="module", params=sorted(KNOBS))
def world(request: pytest.FixtureRequest) -> Iterator[ProcessEnvironment]:
    """One simulator after the other, each started once."""
    environment = ProcessEnvironment(request.param, KNOBS[request.param])
    yield environment
    environment.close()
