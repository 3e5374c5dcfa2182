"""Routes: which kinds of steps a solution takes, in order, told by rules on the CPU."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from polypath.core.registry import register
from polypath.diversity.features.signature import Features, Signature

# The first rule that matches names the kind of a step: define, substitute, simplify, cases, enumerate, induct,
# construct, bound, verify, backtrack, conclude, solve, compute.
ROUTE = (
    ("D", r"\b(let|define|denote|suppose|assume)\b"),
    ("B", r"\b(substitut\w*|plug\w*|replac\w*)\b"),
    ("S", r"\b(simplif\w*|expand\w*|factor\w*|cancel\w*|combin\w*)\b"),
    ("C", r"\b(case|cases|either|otherwise)\b"),
    ("E", r"\b(enumerat\w*|list\w*|try|trying|test\w*)\b"),
    ("I", r"\b(induct\w*|hypothesis)\b"),
    ("G", r"\b(construct\w*|build\w*|draw\w*)\b"),
    ("L", r"\b(bound\w*|at least|at most|maxim\w*|minim\w*|inequal\w*)\b"),
    ("V", r"\b(verif\w*|check\w*|confirm\w*)\b"),
    ("R", r"\b(wait|instead|backtrack\w*|mistake|wrong)\b"),
    ("Z", r"\b(therefore|thus|hence|finally|answer)\b"),
    ("Q", r"\b(solv\w*|equation\w*|root\w*)\b"),
    ("K", r"\b(comput\w*|calculat\w*|add\w*|multipl\w*|divid\w*|subtract\w*)\b|="),
)
OTHER = "o"
_RULES = tuple((symbol, re.compile(pattern, re.IGNORECASE)) for symbol, pattern in ROUTE)
_STEP = re.compile(r"\n\s*\n|\n(?=\s*(?:\d+[.)]|step\s+\d+|[-*]\s))|(?<=[.!?])\s+", re.IGNORECASE)


def route(text: str) -> str:
    """The fingerprint of a solution: a symbol per step, by the first rule that matches; runs are one symbol.

    Steps end at blank lines, numbered lines and sentences. A step that no rule knows is "o". A long solution gets no
    longer fingerprint for repeating a kind of step. Reconstructed: the rules are ours.

    >>> route("Let x be the sum. Then 2x = 6. Solve the equation. Check it: fine.")
    'DKQV'
    """
    symbols = _symbols(text)
    return "".join(symbol for i, symbol in enumerate(symbols) if i == 0 or symbols[i - 1] != symbol)


def unknown_share(text: str) -> float:
    """Share of the steps that no rule knows, to be reported beside fingerprints. NaN for no steps."""
    symbols = _symbols(text)
    return symbols.count(OTHER) / len(symbols) if symbols else math.nan


@register("features", "route_symbols", returns="features", paper="[2.6]")
def route_symbols(texts: Sequence[str]) -> Features:
    """The route fingerprint of each text: strings for the LCS kernel and for farthest-first selection."""
    return Features([route(text) for text in texts], Signature("route_symbols"))


def _symbols(text: str) -> list[str]:
    steps = filter(None, (part.strip() for part in _STEP.split(text)))
    return [next((symbol for symbol, rule in _RULES if rule.search(step)), OTHER) for step in steps]
