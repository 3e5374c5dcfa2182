"""What every environment promises: replay, snapshots, an answer to nonsense, and a death that ends one episode."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ANSWERS, KNOBS

from polypath.core import registry
from polypath.core.errors import UserError
from polypath.tasks.environments.process import EnvironmentDied, ProcessEnvironment
from polypath.tasks.environments.protocol import Turn


def play(world: ProcessEnvironment, seed: int, steps: int = 4) -> list[Turn]:
    """A scripted policy: a fixed walk through what is listed, or the environment's fixed answers."""
    turns = [world.reset(seed)]
    for i in range(steps):
        if turns[-1].done:
            break
        turns.append(world.step(choose(world, turns[-1], i)))
    return turns


def choose(world: ProcessEnvironment, turn: Turn, i: int) -> str:
    return ANSWERS[world.name][i] if world.name in ANSWERS else turn.actions[(7 * i + 3) % len(turn.actions)]


def test_an_environment_keeps_its_promises(world: ProcessEnvironment) -> None:
    seeds = {split: world.games(split, 3) for split in ("train", "dev", "test")}
    assert all(seeds.values()) and not set(seeds["train"]) & set(seeds["test"])
    seed = seeds["train"][0]
    first = play(world, seed)
    assert len(first) > 2 and all(turn.observation for turn in first)
    assert play(world, seed) == first, "the same seed and actions give the same turns"
    assert repr(play(ProcessEnvironmentTwin(world), seed)) == repr(first), "in another process, too"

    turns = play(world, seed, steps=2)
    saved = world.snapshot()
    onwards = choose(world, turns[-1], 2)
    expected = world.step(onwards)
    play(world, seeds["train"][-1], steps=1)
    assert world.restore(saved).observation == turns[-1].observation
    assert world.step(onwards) == expected

    world.reset(seed)
    nonsense = world.step("xyzzy plugh")
    assert not nonsense.valid and nonsense.reward <= 0 and nonsense.observation


class ProcessEnvironmentTwin:
    """A second process of the same environment for one game; `play` sees it as the first."""

    def __init__(self, world: ProcessEnvironment) -> None:
        self.name, self._twin = world.name, ProcessEnvironment(world.name, world.knobs)

    def reset(self, seed: int) -> Turn:
        return self._twin.reset(seed)

    def step(self, action: str) -> Turn:
        return self._twin.step(action)

    def __del__(self) -> None:
        self._twin.close()


def test_a_killed_simulator_is_told_and_started_again(world: ProcessEnvironment) -> None:
    seed = world.games("train", 1)[0]
    opening = world.reset(seed)
    os.kill(world.pid, signal.SIGKILL)
    with pytest.raises(EnvironmentDied, match=r"its process ended \(signal SIGKILL\)"):
        world.step("anything")
    assert world.reset(seed) == opening and world.restarts >= 1


@pytest.mark.parametrize("name", ["textworld", "textworld_express", "babyai"])
def test_the_simulators_own_way_wins(name: str) -> None:
    world = registry.get("environment", name)(**KNOBS[name])
    seed = world.games("test", 1)[0]
    way = world.walkthrough(seed)
    world.reset(seed)
    turns = [world.step(action) for action in way]
    world.close()
    assert turns[-1].done and turns[-1].success and sum(turn.reward for turn in turns) > 0.9


def test_scienceworld_is_won_by_its_gold_path() -> None:
    world = registry.get("environment", "scienceworld")(game="find-non-living-thing", simplification="easy")
    seed = world.games("train", 1)[0]
    world.reset(seed)
    world._world.load(world.game, seed, world.simplification, generateGoldPath=True)
    way = [str(action) for action in world._world.get_gold_action_sequence()]
    world.reset(seed)
    turns = []
    for action in way:
        turns.append(world.step(action))
        if turns[-1].done:
            break
    world.close()
    assert turns[-1].done and turns[-1].success and 0.8 <= sum(turn.reward for turn in turns) <= 1


def test_a_simulator_that_hangs_is_ended() -> None:
    world = ProcessEnvironment("tictactoe", {}, timeout=0.2)
    world.reset(0)
    os.kill(world.pid, signal.SIGSTOP)
    with pytest.raises(EnvironmentDied, match=r"no answer within 0\.2 s"):
        world.step("1")
    assert world.pid is None


@pytest.mark.parametrize(
    ("name", "knobs", "message"),
    [
        ("scienceworld", {"game": "find-living-thin"}, "Did you mean find-living-thing"),
        ("textarena", {"id": "GuessTheNumbr-v0"}, "Did you mean GuessTheNumber-v0"),
        ("babyai", {"id": "BabyAI-GoToLocl-v0"}, "Did you mean BabyAI-GoToLocal-v0"),
        ("gymnasium", {"id": "CartPole-v1"}, "no actions with names"),
        ("tictactoe", {"width": 9, "height": 9}, "cannot be solved"),
        ("tictactoe", {"turns": 0}, "must be at least 1"),
        ("dialogue", {"slots": 9}, "Choose 1 to 4"),
    ],
)
def test_mistakes_are_told_before_anything_starts(name: str, knobs: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        registry.get("task", name)(**knobs)


def test_without_java_the_line_that_installs_it_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"needs Java.*apt-get install default-jre-headless"):
        registry.get("task", "scienceworld")()
    done = subprocess.run(
        [sys.executable, "-m", "polypath", "doctor"], capture_output=True, text=True, env=dict(os.environ)
    )
    line = next(line for line in done.stdout.splitlines() if line.startswith("scienceworld"))
    assert "no" in line and "default-jre-headless" in line


def test_without_its_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from polypath.tasks.environments import needs

    monkeypatch.setattr(needs.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r'needs the package .textworld.*pip install "polypath\[environments\]"'):
        registry.get("task", "textworld")()
