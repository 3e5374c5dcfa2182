"""Tic-tac-toe and its family: boards of any small size, solved exactly, against an opponent that blunders."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Annotated, Any

from polypath.core.errors import UserError
from polypath.core.recipe_types import Range
from polypath.core.registry import register
from polypath.core.seeds import rng
from polypath.tasks.environments.protocol import Turn, hashed_games
from polypath.tasks.environments.task import environment
from polypath.tasks.protocol import EOS, PAD, Prompt, Score
from polypath.tasks.splits import content_id, draw, pools, split_of

MOST_CELLS = 12  # exact solutions of larger boards take minutes
AIMS = ("attack", "defend", "wander")  # what a plan puts first
PLACES = ("centre", "corner", "edge")  # where it goes otherwise
Shape = tuple[int, int, int, bool]  # width, height, marks in a row, and whether making one loses


@cache
def lines(shape: Shape) -> tuple[tuple[int, ...], ...]:
    """All rows of the length that ends a game, as cells."""
    width, height, row, _ = shape
    found = []
    for x in range(width):
        for y in range(height):
            for dx, dy in ((1, 0), (0, 1), (1, 1), (1, -1)):
                ends = (x + dx * (row - 1), y + dy * (row - 1))
                if 0 <= ends[0] < width and 0 <= ends[1] < height:
                    found.append(tuple((y + dy * i) * width + x + dx * i for i in range(row)))
    return tuple(found)


def outcome(board: str, shape: Shape) -> str | None:
    """The winner "x" or "o", "draw", or None while the game goes on.

    >>> outcome("xxxoo....", (3, 3, 3, False)), outcome("xxxoo....", (3, 3, 3, True))
    ('x', 'o')
    """
    for line in lines(shape):
        mark = board[line[0]]
        if mark != "." and all(board[cell] == mark for cell in line):
            return mark if not shape[3] else "xo"[mark == "x"]
    return None if "." in board else "draw"


def mover(board: str) -> str:
    """Whose turn it is; x begins."""
    return "x" if board.count("x") == board.count("o") else "o"


@cache
def value(board: str, shape: Shape) -> int:
    """What perfect play gives the side to move: 1, 0 or -1.

    >>> value("." * 9, (3, 3, 3, False))
    0
    """
    end = outcome(board, shape)
    if end is not None:
        return 0 if end == "draw" else 1 if end == mover(board) else -1
    best = -1
    for cell in range(len(board)):
        if board[cell] == ".":
            best = max(best, -value(put(board, cell), shape))
            if best == 1:
                break
    return best


def put(board: str, cell: int) -> str:
    """The board after the side to move takes a cell."""
    return board[:cell] + mover(board) + board[cell + 1 :]


def optimal(board: str, shape: Shape) -> list[int]:
    """All cells that keep the value of the position, ascending.

    >>> optimal("xx.oo....", (3, 3, 3, False)), len(optimal("." * 9, (3, 3, 3, False)))
    ([2], 9)
    """
    best = value(board, shape)
    return [cell for cell in range(len(board)) if board[cell] == "." and -value(put(board, cell), shape) == best]


def check_shape(width: int, height: int, row: int, misere: bool) -> Shape:
    """Raises UserError for a board that has no game or no exact solution here."""
    if min(width, height) < 2 or not 2 <= row <= max(width, height) or width * height > MOST_CELLS:
        what = f"a board of {width} x {height} with {row} in a row cannot be solved here"
        raise UserError("tictactoe", what, f"Choose at most {MOST_CELLS} cells and a row that fits.")
    return width, height, row, misere


@environment("tictactoe", paper="Action augmentation (2.41)")
class TicTacToe:
    """Tic-tac-toe with any small board, a row length, or misere rules; the policy is x, all optimal moves are known.

    A game begins after `opening` random moves of both sides (those of a decided game are drawn again). The opponent
    moves at random with probability `blunder` and plays a random one of its best moves otherwise. A win is 1, a draw
    `draw`. Texts are words: the board, then the opponent's move and the board again.
    """

    chat = False
    plan_request, plan_shown = "{prompt} plan", "{prompt} plan {context} >"

    def __init__(
        self,
        *,
        width: int = 3,
        height: int = 3,
        row: int = 3,
        misere: bool = False,
        blunder: Annotated[float, Range(0.0, 1.0)] = 0.3,
        opening: Annotated[int, Range(0, None)] = 1,
        draw: float = 0.0,
    ) -> None:
        self.shape = check_shape(width, height, row, misere)
        if opening * 2 > width * height - 2:
            raise UserError("tictactoe.opening", f"{opening} moves each leave no game", "Choose fewer.")
        self.blunder, self.opening, self.draw = blunder, opening, draw
        self.board, self.seed = "", 0
        self.instructions = (
            f"You are x in noughts and crosses on {width} columns; {row} in a row {'lose' if misere else 'win'}. "
            "The board is written line by line, a free cell as a dot. Your action is the number of a cell, from 1."
        )

    def vocabulary(self) -> list[str]:
        """Marks, cells, and the words of plans."""
        return [PAD, EOS, ".", "x", "o", ">", "plan", *map(str, range(1, len(self.start(0)) + 1)), *AIMS, *PLACES]

    def start(self, seed: int) -> str:
        """The board after the opening of a seed."""
        for attempt in range(1000):
            random, board = rng(seed, "tictactoe", "opening", attempt), "." * (self.shape[0] * self.shape[1])
            for _ in range(2 * self.opening):
                board = put(board, random.choice([i for i, mark in enumerate(board) if mark == "."]))
                if outcome(board, self.shape):
                    break
            if outcome(board, self.shape) is None:
                return board
        raise UserError("tictactoe.opening", "every opening ends the game", "Choose fewer moves.")

    def reset(self, seed: int) -> Turn:
        """The board after the opening moves of that seed; x is to move."""
        self.seed, self.board = seed, self.start(seed)
        return self.turn()

    def turn(self, reward: float = 0.0, valid: bool = True) -> Turn:
        """The board in words, and how the game stands."""
        end = outcome(self.board, self.shape)
        free = () if end else tuple(str(i + 1) for i, mark in enumerate(self.board) if mark == ".")
        success = None if end is None else end == "x"
        return Turn(" ".join(self.board) + " >", reward, end is not None, free, success, valid)

    def step(self, action: str) -> Turn:
        """Take a cell and see the opponent's move. A text that names no free cell changes nothing."""
        free = [str(i + 1) for i, mark in enumerate(self.board) if mark == "."]
        if outcome(self.board, self.shape) is not None or action not in free:
            return self.turn(valid=False)
        self.board = put(self.board, int(action) - 1)
        if outcome(self.board, self.shape) is None:
            self.board = put(self.board, self.reply())
        end = outcome(self.board, self.shape)
        return self.turn({"x": 1.0, "draw": self.draw}.get(end or "", 0.0))

    def reply(self) -> int:
        """The opponent's move: a function of the seed and the board."""
        random = rng(self.seed, "tictactoe", "reply", self.board)
        blunders = random.random() < self.blunder
        free = [i for i, mark in enumerate(self.board) if mark == "."]
        return random.choice(free if blunders else optimal(self.board, self.shape))

    def snapshot(self) -> dict[str, Any]:
        """The seed and the board."""
        return {"seed": self.seed, "board": self.board}

    def restore(self, state: dict[str, Any]) -> Turn:
        """Put the board back."""
        self.seed, self.board = int(state["seed"]), str(state["board"])
        return self.turn()

    def games(self, split: str, n: int) -> list[int]:
        """The first `n` seeds of the split, by hash."""
        return hashed_games(type(self).__name__, split, n)

    def close(self) -> None:
        """Nothing is held."""

    def expert(self, seed: int, draw: int) -> list[tuple[str, list[str]]]:
        """One game of a player that draws a plan, such as `attack corner`, and follows it, well or not."""
        random = rng(draw, "tictactoe", "expert", seed)
        aim, place = random.choice(AIMS), random.choice(PLACES)
        self.reset(seed)
        actions = []
        while outcome(self.board, self.shape) is None:
            actions.append(str(self.planned(aim, place, random) + 1))
            self.step(actions[-1])
        return [(f"{aim} {place}", actions)]

    def planned(self, aim: str, place: str, random: Random) -> int:
        """The cell that a plan takes: one that its aim asks for, else one of its place, else any."""
        free = [i for i, mark in enumerate(self.board) if mark == "."]
        wins = [cell for cell in free if outcome(put(self.board, cell), self.shape) == "x"]
        saves = [cell for cell in free if outcome(_as_o(self.board, cell), self.shape) == "o"]
        urgent = {"attack": wins, "defend": saves, "wander": []}[aim]
        fitting = [cell for cell in free if self.place_of(cell) == place]
        return random.choice(urgent or fitting or free)

    def place_of(self, cell: int) -> str:
        """Whether a cell is a corner, on the edge, or inside."""
        width, height = self.shape[:2]
        borders = (cell % width in (0, width - 1)) + (cell // width in (0, height - 1))
        return ("centre", "edge", "corner")[borders]


def _as_o(board: str, cell: int) -> str:
    return board[:cell] + "o" + board[cell + 1 :]


@register("task", "tictactoe_moves", paper="Action augmentation (2.41)")
class TicTacToeMoves:
    """Name a best move of a position: every move that keeps the value of the game is right, and all are known.

    The positions are those with the side to move at x that have at least `min_optimal` best moves.
    """

    name, chat = "tictactoe_moves", False

    def __init__(
        self,
        *,
        width: int = 3,
        height: int = 3,
        row: int = 3,
        misere: bool = False,
        min_optimal: Annotated[int, Range(1, None)] = 1,
    ) -> None:
        self.shape, self.min_optimal = check_shape(width, height, row, misere), min_optimal

    def vocabulary(self) -> list[str]:
        """Marks and cells."""
        return [PAD, EOS, ".", "x", "o", ">", *map(str, range(1, self.shape[0] * self.shape[1] + 1))]

    def prompts(self, split: str, *, n: int, seed: int = 0) -> list[Prompt]:
        """At most `n` positions of a split."""
        boards = [b for b in positions(self.shape) if len(optimal(b, self.shape)) >= self.min_optimal]
        made = (Prompt(content_id("tictactoe", board), " ".join(board) + " >", {"board": board}) for board in boards)
        return draw("task tictactoe_moves", pools(made, [split_of(f"tictactoe {b}") for b in boards]), split, n, seed)

    def verify(self, prompt: Prompt, text: str) -> Score:
        """1 for a best move; its canonical form is the cell."""
        move, best = text.strip(), self.solutions(prompt)
        free = [str(i + 1) for i, mark in enumerate(prompt.data["board"]) if mark == "."]
        right = move in best
        return Score(float(right), right, move or None, valid=move in free, canonical=move if right else None)

    def solutions(self, prompt: Prompt) -> frozenset[str]:
        """All best moves."""
        return frozenset(self.demonstrations(prompt))

    def demonstrations(self, prompt: Prompt) -> list[str]:
        """All best moves, each of which is to be imitated."""
        return [str(cell + 1) for cell in optimal(prompt.data["board"], self.shape)]


@cache
def positions(shape: Shape) -> tuple[str, ...]:
    """All undecided boards that can arise with x to move, sorted."""
    seen, stack = set(), ["." * (shape[0] * shape[1])]
    while stack:
        board = stack.pop()
        if board not in seen and outcome(board, shape) is None:
            seen.add(board)
            stack += [put(board, i) for i, mark in enumerate(board) if mark == "."]
    return tuple(sorted(board for board in seen if mover(board) == "x"))
