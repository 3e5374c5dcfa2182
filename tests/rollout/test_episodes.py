"""Episodes: turns, masks on what the environment wrote, exact log-probabilities, deaths, forks and judges."""

from __future__ import annotations

import json
import math
import os
import signal
from pathlib import Path

import pytest

from polypath.core import registry
from polypath.core.errors import UserError
from polypath.core.record import Batch, Rollout
from polypath.core.store import RolloutWriter, read_rollouts
from polypath.credit import build as build_credit
from polypath.engines.protocol import Row, SamplingParams
from polypath.engines.tiny import build_gpt2
from polypath.engines.transformers import TransformersPolicy
from polypath.rollout.plan import build
from polypath.tasks.environments.process import EnvironmentDied, ProcessEnvironment
from polypath.tasks.environments.task import EnvironmentTask
from polypath.tasks.verify import Failures

PARAMS = SamplingParams(max_new_tokens=12)


@pytest.fixture(scope="module")
def game() -> EnvironmentTask:
    made: EnvironmentTask = registry.get("task", "tictactoe")(turns=4, action_tokens=2)
    return made


@pytest.fixture(scope="module")
def player(game: EnvironmentTask) -> TransformersPolicy:
    """A policy of random weights that knows the words of the game."""
    return build_gpt2(game.vocabulary(), n_embd=32, n_layer=1, n_head=2, n_inner=64, seed=3)


def collect(
    spec: object, player: TransformersPolicy, game: EnvironmentTask, n: int = 3, params: SamplingParams = PARAMS
) -> tuple[Batch, Failures]:
    prompts = list(enumerate(game.prompts("train", n=n)))
    return build(spec, params=params).collect(player, game, prompts, seed=1, step=0)


def check_transcript(row: Rollout, game: EnvironmentTask, player: TransformersPolicy) -> None:
    """What the environment wrote is what it says when the recorded actions are played again, token by token."""
    mask = row.forced_mask or [0] * len(row.ids)
    seed = json.loads(row.env_snapshot or "")["seed"]
    prompt = game.opening(seed)
    episode = game.episode(prompt)
    assert row.prompt_ids == player.tokenizer(prompt.text)["input_ids"]
    at = 0
    for i, turn in enumerate(row.extra["turns"]):
        start = row.extra["starts"][i]
        assert row.ids[at:start] == ([] if i == 0 else _told(player, episode.shown, row.ids[at - 1]))
        assert all(mask[at:start])
        end = next((k for k in range(start, len(row.ids)) if mask[k]), len(row.ids))
        episode.play(player.tokenizer.decode(row.ids[start:end], skip_special_tokens=True))
        assert {key: episode.steps[-1][key] for key in turn} == turn
        at = end
    assert at == len(row.ids) and row.reward == episode.score().reward and row.correct == episode.score().correct
    episode.close()


def _told(player: TransformersPolicy, shown: str, last: int) -> list[int]:
    end = player.tokenizer.eos_token_id
    return [*([] if last == end else [end]), *player.tokenizer(shown)["input_ids"]]


def test_an_episode_is_one_answer_with_a_mask(player: TransformersPolicy, game: EnvironmentTask) -> None:
    batch, failures = collect({"grpo": {"n": 4}}, player, game)
    rows = batch.rollouts()
    assert len(rows) == 12 and failures.count == 0 and len({row.group_id for row in rows}) == 3
    for row in rows:
        check_transcript(row, game, player)
        mask = row.forced_mask or [0] * len(row.ids)
        assert row.tokens["generated"] == mask.count(0) <= PARAMS.max_new_tokens
        logp = player.score([Row(tuple(row.prompt_ids), tuple(row.ids))]).logp[0].tolist()
        drawn = [(a, b) for a, b, m in zip(logp, row.logp_sampling or [], mask, strict=True) if not m]
        assert all(a == pytest.approx(b, abs=1e-4) for a, b in drawn)
        assert all(b == 0.0 for b, m in zip(row.logp_sampling or [], mask, strict=True) if m)
    again = collect({"grpo": {"n": 4}}, player, game)[0].rollouts()
    assert [row.to_row() for row in again] == [row.to_row() for row in rows]
    alone = build({"grpo": {"n": 4}}, params=PARAMS).collect(
        player, game, [list(enumerate(game.prompts("train", n=3)))[1]], seed=1, step=0
    )[0]
    assert [row.ids for row in alone.rollouts()] == [row.ids for row in rows[4:8]], "the batch does not matter"


def test_budgets_and_turns_cut_an_episode(player: TransformersPolicy) -> None:
    long = registry.get("task", "tictactoe")(turns=50, action_tokens=2)
    for row in collect("grpo", player, long, n=1, params=SamplingParams(5))[0].rollouts():
        assert row.tokens["generated"] <= 5
    short = registry.get("task", "tictactoe")(turns=1, action_tokens=2)
    rows = collect("grpo", player, short, n=2)[0].rollouts()
    assert {len(row.extra["turns"]) for row in rows} == {1}
    assert {row.status for row in rows if not row.correct} == {"truncated"}
    crowded = registry.get("task", "tictactoe")(turns=50, action_tokens=2)
    rows = collect("grpo", player, crowded, n=1, params=SamplingParams(400))[0].rollouts()
    assert max(len(row.prompt_ids) + len(row.ids) for row in rows) <= 64, "the context is never overrun"


@pytest.mark.parametrize(("invalid", "penalty"), [("try", 0.0), ("tell", 0.25), ("end", 0.25)])
def test_what_an_impossible_action_does(invalid: str, penalty: float, player: TransformersPolicy) -> None:
    task = registry.get("task", "tictactoe")(turns=3, action_tokens=2, invalid=invalid, penalty=penalty)
    rows = collect({"grpo": {"n": 8}}, player, task)[0].rollouts()
    wrong = [row for row in rows if not row.extra["turns"][0]["valid"]]
    assert wrong, "random weights name impossible moves"
    for row in wrong:
        assert row.extra["turns"][0]["reward"] == -penalty
        if invalid == "end":
            assert len(row.extra["turns"]) == 1 and row.status == "complete"


def test_a_simulator_that_dies_ends_one_episode(player: TransformersPolicy) -> None:
    task = registry.get("task", "tictactoe")(turns=4, action_tokens=2, isolate=True, workers=3)
    prompts = list(enumerate(task.prompts("train", n=2)))
    text = [prompt.text for _, prompt in prompts]
    fresh, started = task._take, []

    def take() -> object:
        started.append(fresh())
        return started[-1]

    task._take = take  # type: ignore[method-assign]
    start = task.episode
    deaths = iter([False, True, False, False])

    def episode(prompt: object, actions: object = ()) -> object:
        made = start(prompt, actions)  # type: ignore[arg-type]
        if next(deaths):
            os.kill(started[-1].pid, signal.SIGKILL)  # type: ignore[attr-defined]
        return made

    task.episode = episode  # type: ignore[method-assign, assignment]
    batch, failures = build({"grpo": {"n": 2}}, params=PARAMS).collect(player, task, prompts, seed=1, step=0)
    rows = batch.rollouts()
    assert [row.status == "error" for row in rows] == [False, True, False, False]
    assert math.isnan(rows[1].reward) and rows[1].correct is False and failures.count == 1
    seed = prompts[0][1].data["seed"]
    assert rows[1].extra["error"] == f"environment tictactoe: its process ended (signal SIGKILL) (seed {seed})"
    assert f"(seed {seed})" in failures.first
    assert all(math.isfinite(row.reward) for row in rows if row.status != "error")
    assert [prompt.text for _, prompt in prompts] == text
    credit = build_credit("grpo")(batch)  # who has no reward has no part in the comparison
    assert credit.advantages[0][1].tolist() == 0.0
    task.close()


def test_forks_between_turns_share_their_beginning(player: TransformersPolicy, game: EnvironmentTask) -> None:
    spec = [{"brancher": {"turns": {"branching": [2, 2], "every": 1}}}, {"comparator": "whole"}]
    rows = collect(spec, player, game, n=2)[0].rollouts()
    whole = [row for row in rows if row.fork_pos]
    assert whole and len(rows) <= 8
    for row in rows:
        check_transcript(row, game, player)
    by_parent: dict[tuple[str, str], list[Rollout]] = {}
    for row in whole:
        by_parent.setdefault((row.prompt_id, row.parent or ""), []).append(row)
    for family in by_parent.values():
        first = family[0]
        assert all(row.ids[: row.fork_pos] == first.ids[: first.fork_pos] for row in family)
    total = sum(row.tokens["generated"] for row in rows)
    assert total < sum((row.forced_mask or [0] * len(row.ids)).count(0) for row in rows), (
        "a shared beginning counts once"
    )
    with pytest.raises(UserError, match="not played in turns"):
        build(spec).collect(player, registry.get("task", "tictactoe_moves")(), [], seed=0, step=0)
    with pytest.raises(UserError, match="an answer is an episode"):
        collect("treerpo", player, game)


def test_strategies_come_first_and_have_their_own_group(player: TransformersPolicy, game: EnvironmentTask) -> None:
    knobs = {"strategies": 2, "answers": 3, "candidates": 8, "by": "ngrams", "max_new": 3}
    texts = {"ask": game.plan_request, "follow": game.plan_shown}
    batch, _ = collect({"strata": {**knobs, **texts}}, player, game, n=2)
    for group in batch.groups:
        if group.group_id.endswith("/strategies"):
            assert 1 <= len(group) <= 2
            for row in group:
                within = next(g for g in batch.groups if g.group_id == f"{row.group_id[:-10]}{row.context['id']}")  # type: ignore[index]
                best = sorted((r.reward for r in within), reverse=True)[:2]
                assert row.reward == sum(best) / 2, "the mean of the best half of three"
                assert all(f"plan {row.text.strip()} >" in r.prompt for r in within)
        else:
            assert len(group) == 3 and all("turns" in row.extra for row in group)
    with pytest.raises(UserError, match="has no chat"):
        collect({"strata": {**knobs, **texts, "judge": "self"}}, player, game, n=1)


def test_step_credit_reads_the_turns(player: TransformersPolicy, game: EnvironmentTask, tmp_path: Path) -> None:
    batch, _ = collect({"grpo": {"n": 8}}, player, game, n=2)
    with RolloutWriter(tmp_path / "rows.jsonl") as writer:
        writer.write(batch.rollouts())
    rows = read_rollouts(tmp_path / "rows.jsonl")
    assert [row.extra["turns"] for row in rows] == [row.extra["turns"] for row in batch.rollouts()]
    credit = build_credit("rtmc")(Batch.from_rollouts(rows))
    for group, advantages in zip(batch.groups, credit.advantages, strict=True):
        for row, values in zip(group, advantages, strict=True):
            assert all(values[k] == 0 for k, put in enumerate(row.forced_mask or []) if put)


def test_a_simulator_that_dies_at_an_opening_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    task = registry.get("task", "tictactoe")(isolate=True, workers=1)
    world = task._take()
    seed = world.games("train", 1)[0]
    os.kill(world.pid, signal.SIGKILL)
    task._give(world)
    alone = registry.get("task", "tictactoe")()
    assert task.opening(seed).text == alone.opening(seed).text and world.restarts == 1
    task.close()

    def dies(self: object, seed: int) -> None:
        raise EnvironmentDied("environment tictactoe: its process ended (signal SIGKILL)")

    monkeypatch.setattr(ProcessEnvironment, "reset", dies)
    with pytest.raises(UserError, match=rf"game of seed {seed} cannot be opened .*SIGKILL"):
        registry.get("task", "tictactoe")(isolate=True).opening(seed)
