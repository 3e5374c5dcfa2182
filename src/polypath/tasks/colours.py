"""Name a colour: eight right answers, one word. The smallest task on which an instruction model collapses."""

from __future__ import annotations

import re

from polypath.core.errors import UserError
from polypath.core.registry import register
from polypath.tasks.protocol import Prompt, Score
from polypath.tasks.splits import content_id, draw, pools

COLOURS = ("black", "blue", "green", "orange", "purple", "red", "white", "yellow")
PROMPTS = (
    "Name a colour. Answer with one word.",
    "Tell me a colour, in one word.",
    "Give the name of any colour. One word only.",
    "Which colour comes to your mind? Reply with one word.",
    "Pick a colour and write its name as a single word.",
    "Say one colour. Use a single word.",
    "Please name any colour you like, with one word.",
    "Write down a colour. Just one word.",
    "Choose a colour. Your answer is one word.",
    "What is an example of a colour? One word, please.",
)
_COLOUR = re.compile(rf"\b({'|'.join(COLOURS)})\b", re.IGNORECASE)


@register("task", "colours")
class Colours:
    """Name one of eight colours: 1 when exactly one of them appears in the text, however often.

    `prompts` are ways to ask. The first three of five are for training, the fourth for dev, the fifth for test, and so
    on: a short list cannot be left to a hash. With fewer than five, some splits are empty.
    """

    name = "colours"
    chat = True

    def __init__(self, *, prompts: list[str] | None = None) -> None:
        """Raises UserError for an empty list or an empty prompt."""
        asked = PROMPTS if prompts is None else prompts
        if not asked or not all(text.strip() for text in asked):
            raise UserError("task.prompts", "is empty or holds an empty prompt", "Give at least one prompt.")
        splits = [("train", "train", "train", "dev", "test")[i % 5] for i in range(len(asked))]
        self._pools = pools((Prompt(content_id("colours", text), text) for text in asked), splits)

    def prompts(self, split: str, *, n: int, seed: int = 0) -> list[Prompt]:
        """At most `n` prompts; see `splits.draw`."""
        return draw("task colours", self._pools, split, n, seed)

    def verify(self, prompt: Prompt, text: str) -> Score:
        """The canonical form is the colour. Several different colours are no answer to the question."""
        named = {match.lower() for match in _COLOUR.findall(text)}
        if len(named) != 1:
            return Score(0.0, False, valid=False)
        colour = named.pop()
        return Score(1.0, True, colour, canonical=colour)

    def solutions(self, prompt: Prompt) -> frozenset[str]:
        """The eight colours."""
        return frozenset(COLOURS)

    def demonstrations(self, prompt: Prompt) -> list[str]:
        """The eight colours, as an answer is written."""
        return [colour.capitalize() for colour in COLOURS]
