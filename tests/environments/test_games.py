"""The games of our own: exact play in tic-tac-toe, and simulated users."""

from __future__ import annotations

from functools import cache

import pytest

from polypath.core import registry
from polypath.tasks.environments.tictactoe import mover, optimal, outcome, positions, put, value

CLASSIC, MISERE, WIDE = (3, 3, 3, False), (3, 3, 3, True), (4, 3, 3, False)


@cache
def minimax(board: str, shape: tuple[int, int, int, bool], me: str) -> int:
    """The whole game tree, by who x and o are and without cutting: an oracle for `value`."""
    end = outcome(board, shape)
    if end is not None:
        return 0 if end == "draw" else 1 if end == me else -1
    values = [minimax(put(board, i), shape, me) for i, mark in enumerate(board) if mark == "."]
    return max(values) if mover(board) == me else min(values)


@pytest.mark.parametrize("shape", [CLASSIC, MISERE])
def test_values_are_those_of_the_whole_tree(shape: tuple[int, int, int, bool]) -> None:
    boards = positions(shape)
    assert all(value(board, shape) == minimax(board, shape, mover(board)) for board in boards)
    for board in boards[::17]:
        best = [
            i for i, m in enumerate(board) if m == "." and minimax(put(board, i), shape, "x") == value(board, shape)
        ]
        assert optimal(board, shape) == best


def test_what_is_known_of_the_family() -> None:
    assert len(positions(CLASSIC)) == 2423 and value("." * 9, CLASSIC) == 0
    assert value("." * 9, MISERE) == 0 and optimal("." * 9, MISERE) == [4]  # only the centre holds the draw
    assert value("." * 12, WIDE) == 1  # three in a row on 4 x 3 is won by the first


def test_every_best_move_is_a_solution() -> None:
    task = registry.get("task", "tictactoe_moves")(min_optimal=2)
    prompt = task.prompts("train", n=1)[0]
    best = task.demonstrations(prompt)
    assert len(best) >= 2 and all(task.verify(prompt, move).correct for move in best)
    assert len({task.verify(prompt, move).canonical for move in best}) == len(best)
    taken = str(next(i for i, mark in enumerate(prompt.data["board"]) if mark != ".") + 1)
    assert not task.verify(prompt, taken).valid and not task.verify(prompt, "banana").correct


def test_a_perfect_player_never_loses_and_a_blunderer_is_beaten() -> None:
    game = registry.get("environment", "tictactoe")(blunder=1.0, opening=0)
    won = lost = 0
    for seed in range(40):
        turn = game.reset(seed)
        while not turn.done:
            turn = game.step(str(optimal(game.board, CLASSIC)[0] + 1))
        won, lost = won + bool(turn.success), lost + (outcome(game.board, CLASSIC) == "o")
    assert lost == 0 and won > 30


@pytest.mark.parametrize("manner", ["terse", "polite", "rambling", "vague", "fickle"])
def test_a_patient_waiter_satisfies_every_user(manner: str) -> None:
    user = registry.get("environment", "dialogue")(manner=manner)
    for seed in range(5):
        ((_, actions),) = user.expert(seed, 0)
        user.reset(seed)
        turns = [user.step(action) for action in actions]
        assert turns[-1].success and sum(turn.reward for turn in turns) == 1.0


def test_a_junction_resumes_with_another_users_reply() -> None:
    user = registry.get("environment", "dialogue")()
    user.reset(3)
    saved = user.snapshot()
    replies = set()
    for reply in range(12):
        user.restore({**saved, "reply": reply})
        replies.add(user.step("What cuisine do you want?").observation)
    assert len(replies) > 2
    wants = user.wants()["cuisine"]
    assert all(wants in said or said == "Hmm, hard to say." for said in replies)
    user.restore(saved)
    wrong = user.step("propose nothing")
    assert not wrong.done and user.step("propose nothing").done  # two proposals and no more
