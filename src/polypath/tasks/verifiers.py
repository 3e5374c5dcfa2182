"""Verifiers by name: `f(text, answer, *, knobs) -> Score` compares a completion with a reference answer.

Every correct text of one problem has the canonical form of the reference (unless a user's function gives its own), so
a problem with one right answer has one distinct solution. A text without an answer is wrong and not valid.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import re
import threading
import unicodedata
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

from polypath.core import registry
from polypath.core.errors import UserError, did_you_mean, missing_extra
from polypath.core.recipe_types import Call
from polypath.core.registry import register
from polypath.tasks.protocol import Score

Verifier = Callable[[str, Any], Score]
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)?(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,3})?")
_WRONG = Score(0.0, False, valid=False)


def normalise(text: str, *, case: bool = False) -> str:
    """Unicode NFKC, single blanks, no blanks at the ends, and lower case unless `case` counts.

    >>> normalise("  The\\u00a0 Answer\\n")
    'the answer'
    """
    folded = " ".join(unicodedata.normalize("NFKC", text).split())
    return folded if case else folded.casefold()


def verdict(correct: bool, answer: str, canonical: str) -> Score:
    """A valid verdict worth 1 or 0."""
    return Score(float(correct), correct, answer, canonical=canonical)


def find_answer(text: str) -> str | None:
    """The content of the last `<answer>...</answer>`, stripped, or None."""
    found = re.findall(r"<answer>(.*?)</answer>", text, flags=re.DOTALL)
    return found[-1].strip() if found else None


@register("verifier", "exact")
def exact(text: str, answer: Any, *, case: bool = False) -> Score:
    """Equal after normalising Unicode, blanks and (unless `case`) upper case; an `<answer>` tag goes first."""
    given = normalise(found if (found := find_answer(text)) is not None else text, case=case)
    return verdict(given == normalise(str(answer), case=case), given, given) if given else _WRONG


def last_number(text: str) -> float | None:
    """The last finite number of a text; thousands may be grouped by commas.

    >>> last_number("3 + 4 = 7, so 1,200.50 euros.")
    1200.5
    """
    found = [float(m.replace(",", "")) for m in _NUMBER.findall(text) if any(c.isdigit() for c in m)]
    return next((value for value in reversed(found) if math.isfinite(value)), None)


@register("verifier", "numeric")
def numeric(text: str, answer: Any, *, tolerance: float = 1e-6) -> Score:
    """The last number of the text equals the last number of the answer within a relative or absolute tolerance.

    Raises ValueError when the reference answer holds no number.
    """
    expected = last_number(str(answer))
    if expected is None:
        raise ValueError(f"the reference answer {answer!r} holds no number")
    given = last_number(text)
    if given is None:
        return _WRONG
    right = math.isclose(given, expected, rel_tol=tolerance, abs_tol=tolerance)
    return verdict(right, f"{given:.12g}", f"{expected if right else given:.12g}")


@register("verifier", "math_verify")
def math_verify(text: str, answer: Any, *, seconds: int = 5) -> Score:
    """Mathematical equality (LaTeX, sets, intervals, symbols) by the math-verify package.

    The library limits its time by a signal, which exists in the main thread only; in another thread the work is done
    in a third one that is given up after `seconds`. Raises TimeoutError then, UserError without the package.
    """
    if threading.current_thread() is threading.main_thread():
        return _math_verify(text, str(answer), seconds)
    done: list[Score | Exception] = []

    def work() -> None:
        try:
            done.append(_math_verify(text, str(answer), None))
        except Exception as error:  # noqa: BLE001 - carried over to the calling thread, which raises it
            done.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    if not done:
        raise TimeoutError(f"math_verify took longer than {seconds} s")
    if isinstance(done[0], Exception):
        raise done[0]
    return done[0]


def _math_verify(text: str, answer: str, seconds: int | None) -> Score:
    try:
        from math_verify import parse, verify
    except ImportError:
        raise missing_extra("verifier math_verify", "math-verify", "tasks") from None
    gold = parse(answer, parsing_timeout=seconds) or parse(f"${answer}$", parsing_timeout=seconds)
    if not gold:
        raise ValueError(f"math-verify finds nothing in the reference answer {answer!r}")
    found = parse(text, parsing_timeout=seconds)
    if not found:
        return _WRONG
    right = bool(verify(gold, found, timeout_seconds=seconds))
    return verdict(right, str(found[-1]), str(gold[0] if right else found[0]))


@register("verifier", "regex")
def regex(text: str, answer: Any, *, pattern: str, group: int = 1, case: bool = False) -> Score:
    """The last match of `pattern` (its `group`; the whole match when it has none) equals the answer as in `exact`.

    Raises UserError for a pattern that is not a regular expression or lacks the group.
    """
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise UserError("verifier.regex.pattern", f"{pattern!r} is not a regular expression ({error})") from None
    group = group if compiled.groups else 0
    if not 0 <= group <= compiled.groups:
        raise UserError("verifier.regex.group", f"the pattern has {compiled.groups} groups, not {group}")
    matches = list(compiled.finditer(text))
    if not matches or matches[-1][group] is None:
        return _WRONG
    given = normalise(matches[-1][group], case=case)
    return verdict(given == normalise(str(answer), case=case), given, given)


@register("verifier", "choice")
def choice(text: str, answer: Any, *, options: str = "ABCD") -> Score:
    """A letter among `options`: named after the word "answer", boxed, alone on a line, or set off as `(B)`, `B.`, `B:`.

    The last such letter counts, in this order of forms. A letter inside a sentence ("A dog") does not.
    """
    letters = re.escape(options)
    forms = (
        rf"(?i:answer)\W*(?:(?i:is|option|choice)\W*)*([{letters}])\b",
        rf"\\boxed\{{\s*(?:\\text\{{)?\(?([{letters}])\b",
        rf"(?m)^\W*([{letters}])\W*$",
        rf"\(([{letters}])\)|(?<!\w)([{letters}])[.:)]",
    )
    found = next((matches[-1] for form in forms if (matches := re.findall(form, text))), None)
    if found is None:
        return _WRONG
    given = found if isinstance(found, str) else "".join(found)
    return verdict(given == str(answer).strip().strip("().: "), given, given)


@cache
def load_function(target: str) -> Callable[[str, Any], Any]:
    """The function of `module:function` or `file.py:function`. Raises UserError when there is none."""
    where, _, name = target.rpartition(":")
    if not where or not name:
        raise UserError("verifier.python.function", f"'{target}' names no function", "Write file.py:function.")
    try:
        if where.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(where).stem, Path(where).expanduser())
            if spec is None or spec.loader is None or not Path(where).expanduser().is_file():
                raise UserError("verifier.python.function", f"there is no file {where}", "Correct the path.")
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(where)
    except (ImportError, SyntaxError) as error:
        raise UserError("verifier.python.function", f"{where} cannot be imported ({error})", "Correct it.") from error
    function = getattr(module, name, None)
    if not callable(function):
        named = [key for key, value in vars(module).items() if callable(value)]
        raise UserError("verifier.python.function", f"{where} has no function '{name}'", did_you_mean(name, named))
    return function


@register("verifier", "python")
def python(text: str, answer: Any, *, function: str, threshold: float = 1.0) -> Score:
    """A function of yours, `module:function` or `file.py:function`, called as f(text, answer).

    It returns a bool, a number (the reward; correct from `threshold` on) or a Score. Raises TypeError for anything
    else, and whatever the function raises.
    """
    result = load_function(function)(text, answer)
    if isinstance(result, Score):
        return result
    if not isinstance(result, int | float):
        raise TypeError(f"{function} returned {type(result).__name__}, not a bool, a number or a Score")
    return Score(float(result), result >= threshold, text.strip(), canonical=normalise(text))


def bind(verifier: Call | str | dict[str, Any], where: str) -> Verifier:
    """A verifier from a recipe's Call, `name` or `{name: {knob: value}}`. Raises UserError for a wrong name or knob."""
    if isinstance(verifier, Call):
        return verifier.bind()
    if isinstance(verifier, dict) and len(verifier) != 1:
        raise UserError(where, f"names {len(verifier)} verifiers", "Write one, as {numeric: {tolerance: 0.01}}.")
    name, knobs = next(iter(verifier.items())) if isinstance(verifier, dict) else (verifier, {})
    known = registry.entry("verifier", name, where=where).knobs
    knobs = knobs or {}
    for knob in knobs:
        if knob not in known:
            raise UserError(where, f"no parameter of verifier '{name}' named '{knob}'", did_you_mean(knob, known))
    missing = [knob for knob, about in known.items() if "default" not in about and knob not in knobs]
    if missing:
        raise UserError(where, f"verifier '{name}' needs {', '.join(missing)}", "Give a value.")
    return partial(registry.get("verifier", name, where=where), **knobs)
