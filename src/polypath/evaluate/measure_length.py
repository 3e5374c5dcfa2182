"""Texts cut to one length: most measures of texts move with length, so that longer answers look more diverse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from polypath.core.errors import UserError
from polypath.core.record import Rollout
from polypath.diversity.features.words import token_ends

REACHED = 0.9  # the share of the texts that are at least as long as the common length


def words(text: str) -> int:
    """How many tokens a text has, as the measures of texts count them."""
    return len(token_ends(text))


def common_length(files: Sequence[Sequence[Rollout]]) -> int:
    """The number of tokens that 90 % of the texts of every file reach. Raises UserError where that is none."""
    found = min(sorted(words(r.text) for r in rows)[int((1 - REACHED) * len(rows) + 1e-9)] for rows in files)
    if found < 1:
        what = "more than a tenth of the texts of a file are empty, so that there is no common length"
        raise UserError("--equal-length", what, "Remove them, or measure without --equal-length.")
    return found


def cut(rollouts: Sequence[Rollout], length: int) -> list[Rollout]:
    """The rollouts of at least `length` tokens, with their texts cut after that many."""
    found = []
    for rollout in rollouts:
        ends = token_ends(rollout.text)
        if len(ends) >= length:
            found.append(replace(rollout, text=rollout.text[: ends[length - 1]]))
    return found
