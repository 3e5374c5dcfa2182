"""A simulated user who wants something and says it in their own way: the policy asks, and then proposes.

Users come from a population of manners (Trip, 0.23), and every reply is a function of the seed, so that a dialogue can
be saved at a junction and resumed with another user's reply (DIVERT, 0.16).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any, Literal

from polypath.core.errors import UserError
from polypath.core.recipe_types import Range
from polypath.core.seeds import rng
from polypath.tasks.environments.protocol import Turn, hashed_games
from polypath.tasks.environments.task import environment

SLOTS = {
    "cuisine": ("italian", "indian", "thai", "mexican", "greek"),
    "area": ("north", "south", "centre", "riverside"),
    "price": ("cheap", "moderate", "expensive"),
    "time": ("noon", "six", "seven", "nine"),
}
ASKING = {  # words by which a question names a slot
    "cuisine": ("cuisine", "food", "eat", "kitchen", "dish"),
    "area": ("area", "where", "part of town", "location", "place"),
    "price": ("price", "budget", "cost", "spend", "expensive or cheap"),
    "time": ("time", "when", "what hour", "o'clock"),
}
TELLING = {
    "terse": "{value}.",
    "polite": "I would like {slot} to be {value}, please.",
    "rambling": "Well, you know, last week I was undecided, but today it has to be {value}, I think.",
    "vague": "Hmm, hard to say.",  # and tells when asked again
}
Manner = Literal["mixed", "terse", "polite", "rambling", "vague", "fickle"]
MANNERS = (*TELLING, "fickle")  # a fickle user changes one wish in the middle, and says so
SHARE = 0.5  # of the reward for a proposal that fits in part


@dataclass(frozen=True)
class Wish:
    """What the user wants, how they speak, and what a fickle one wants later."""

    values: dict[str, str]
    manner: str
    later: tuple[str, str]


@environment("dialogue", paper="DIVERT (0.16), Trip (0.23)")
class Dialogue:
    """Book a table for a simulated user: find out what they want, then `propose VALUE, VALUE, ...`.

    A question that names a subject (food, area, price, time) is answered in the user's manner; a proposal is accepted
    or its first wrong point named, up to `proposals` times. The reward is 1 for one that fits in every of the first
    `slots` points, and at the last proposal up to half for a part of them. `manner` fixes the kind of user.
    """

    chat = True
    instructions = (
        "You book a table for a guest. Find out what they want by asking, one question at a time (food, area, price "
        "or time). When you know it, write: propose VALUE, VALUE, ..."
    )

    def __init__(
        self,
        *,
        slots: Annotated[int, Range(1, 4)] = 3,
        manner: Manner = "mixed",
        proposals: Annotated[int, Range(1, None)] = 2,
    ) -> None:
        if not 1 <= slots <= len(SLOTS):
            raise UserError("dialogue.slots", f"is {slots}", f"Choose 1 to {len(SLOTS)}.")
        self.slots, self.manner, self.most = tuple(SLOTS)[:slots], manner, proposals
        self.state: dict[str, Any] = {}

    def wish(self, seed: int, reply: int = 0) -> Wish:
        """The user of a seed; another `reply` wants the same and speaks differently."""
        random = rng(seed, "dialogue", "wish")
        values = {slot: random.choice(SLOTS[slot]) for slot in self.slots}
        slot = random.choice(self.slots)
        changed = random.choice([value for value in SLOTS[slot] if value != values[slot]])
        manner = self.manner if self.manner != "mixed" else rng(seed, "dialogue", "manner", reply).choice(MANNERS)
        return Wish(values, manner, (slot, changed))

    def reset(self, seed: int) -> Turn:
        """The user's opening words."""
        self.state = {"seed": seed, "reply": 0, "asked": {}, "turns": 0, "proposed": 0, "changed": False, "done": False}
        opening = rng(seed, "dialogue", "opening").choice(
            ("Hello, I need a table.", "Hi! Can you book a restaurant for me?", "Good day. I want to eat out tonight.")
        )
        self.said = Turn(opening)
        return self.said

    def step(self, action: str) -> Turn:
        """The user's reply to a question or a proposal; what is neither is not understood."""
        if self.state["done"]:
            return Turn("The guest has left.", 0.0, True, success=False, valid=False)
        self.state["turns"] += 1
        words = action.casefold()
        named = [slot for slot in self.slots if any(word in words for word in ASKING[slot])]
        if words.startswith("propose"):
            self.said = self.judge(set(re.findall(r"[a-z]+", words)))
        elif named:
            self.said = Turn(self.answer(named[0]))
        else:
            self.said = Turn("Sorry, what do you want to know?", valid=False)
        return self.said

    def wants(self) -> dict[str, str]:
        """What the user wants now."""
        wish = self.wish(self.state["seed"], self.state["reply"])
        return {**wish.values, **(dict([wish.later]) if self.state["changed"] else {})}

    def answer(self, slot: str) -> str:
        """What the user says of a slot."""
        wish = self.wish(self.state["seed"], self.state["reply"])
        times = self.state["asked"][slot] = self.state["asked"].get(slot, 0) + 1
        manner = "terse" if wish.manner == "vague" and times > 1 else wish.manner
        said = TELLING.get(manner, TELLING["polite"]).format(slot=slot, value=self.wants()[slot])
        if wish.manner == "fickle" and not self.state["changed"] and sum(self.state["asked"].values()) == 2:
            self.state["changed"] = True
            said += f" Oh, and I changed my mind: {wish.later[0]} should be {wish.later[1]}."
        return said

    def judge(self, words: set[str]) -> Turn:
        """Accept a proposal, or name the first point that is wrong."""
        self.state["proposed"] += 1
        wants = self.wants()
        wrong = [slot for slot in self.slots if words.isdisjoint({wants[slot]}) or len(words & {*SLOTS[slot]}) > 1]
        last = self.state["proposed"] >= self.most
        self.state["done"] = not wrong or last
        if not wrong:
            return Turn("Perfect, thank you!", 1.0, True, success=True)
        part = SHARE * (len(self.slots) - len(wrong)) / len(self.slots) if last else 0.0
        return Turn(f"No, the {wrong[0]} is not right.", part, last, success=False if last else None)

    def snapshot(self) -> dict[str, Any]:
        """Everything that was said and is wanted; with another `reply` in it the user speaks in another manner."""
        turn = self.said
        return {**self.state, "asked": dict(self.state["asked"]), "said": [turn.observation, turn.reward, turn.success]}

    def restore(self, state: dict[str, Any]) -> Turn:
        """Resume a dialogue."""
        self.state = {**state, "asked": dict(state["asked"])}
        words, reward, success = self.state.pop("said")
        self.said = Turn(words, reward, self.state["done"], success=success)
        return self.said

    def games(self, split: str, n: int) -> list[int]:
        """The first `n` seeds of the split, by hash."""
        return hashed_games(type(self).__name__, split, n)

    def close(self) -> None:
        """Nothing is held."""

    def expert(self, seed: int, draw: int) -> list[tuple[str, list[str]]]:
        """One patient dialogue: every subject in an order drawn, again where the user was vague, then the proposal."""
        order = list(self.slots)
        rng(draw, "dialogue", "expert", seed).shuffle(order)
        self.reset(seed)
        actions: list[str] = []
        for slot, _ in product(order, range(2 if self.wish(seed).manner == "vague" else 1)):
            actions.append(f"What {slot} do you want?")
            self.step(actions[-1])
        actions.append("propose " + ", ".join(self.wants()[slot] for slot in self.slots))
        return [("ask about " + ", ".join(order), actions)]
