"""User-facing errors and process exit codes."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from enum import IntEnum


class ExitCode(IntEnum):
    """What a command's exit status means."""

    DONE = 0
    FAILED = 1
    USER_ERROR = 2
    PARTIAL = 3  # finished, with failures above the tolerance
    INTERRUPTED = 130


class UserError(Exception):
    """A mistake of the user's: printed without a traceback, exit code 2.

    Reads as `<where>: <what>. <fix>`, where `where` names the place (a file and line, an option, a key).

    >>> str(UserError("r.yaml:9 credit.scal", "no parameter named 'scal'", "Did you mean scale?"))
    "r.yaml:9 credit.scal: no parameter named 'scal'. Did you mean scale?"
    """

    def __init__(self, where: str, what: str, fix: str = "") -> None:
        self.where, self.what, self.fix = where, what, fix
        super().__init__(where, what, fix)

    def __str__(self) -> str:
        return f"{self.where}: {self.what}. {self.fix}".rstrip()


class UserErrors(UserError):
    """Several user errors found at once, one line each."""

    def __init__(self, errors: Iterable[UserError]) -> None:
        self.errors = list(errors)
        super().__init__("", "")

    def __str__(self) -> str:
        return "\n".join(str(error) for error in self.errors)


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """A sentence that suggests the nearest of `choices`, or lists them when none is near.

    >>> did_you_mean("scal", ["scale", "eps"])
    'Did you mean scale?'
    >>> did_you_mean("zzz", ["scale", "eps"])
    'Choose from: eps, scale.'
    """
    choices = sorted(choices)
    near = nearest(word, choices)
    if near:
        return f"Did you mean {near}?"
    return f"Choose from: {', '.join(choices)}." if choices else ""


def nearest(word: str, choices: Iterable[str]) -> str | None:
    """The choice that `word` probably misspells, or None."""
    return next(iter(difflib.get_close_matches(word, sorted(choices), n=1, cutoff=0.6)), None)


def missing_extra(where: str, module: str, extra: str) -> UserError:
    """The error for an optional dependency that is not installed, with the exact pip line."""
    return UserError(
        where,
        f"needs the package '{module}', which is not installed",
        f'Run: pip install "polypath[{extra}]"',
    )
