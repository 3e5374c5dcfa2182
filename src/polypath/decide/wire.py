"""Two public JSON contracts for decisions: System One (`POST /v1/systemone`) and OpenAI Decisions (`/v1/decisions`).

System One calls its types noul, choice and score; ours beyond them (multilabel, rank, pair) use the same shape.
Unknown fields at the top of a request are ignored, as both contracts ask.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polypath.core.errors import UserError, did_you_mean
from polypath.decide.answers import Answer, choice_confidence, score_confidence
from polypath.decide.types import (
    Choice,
    MultiLabel,
    Option,
    Pair,
    Question,
    Rank,
    Score,
    YesNo,
    make_option,
    options,
    plain,
)

Json = dict[str, Any]
CHOICES: dict[str, type[Choice] | type[MultiLabel] | type[Rank]] = {
    "choice": Choice,
    "multilabel": MultiLabel,
    "rank": Rank,
}
SYSTEM_ONE = ("noul", "choice", "score", "multilabel", "rank", "pair")
OPENAI = ("predicate", "choice", "score")


def parse_system_one(request: Any) -> tuple[str, dict[str, Question]]:
    """State and questions of a System One request. Raises UserError that names the place of the first mistake."""
    body = _object(request, "request")
    questions = _object(_field(body, "questions", "request"), "questions")
    if not questions:
        raise UserError("questions", "there are none", "Ask at least one.")
    state = plain(_field(body, "state", "request"), "state")
    return state, {str(key): _system_one_question(value, f"questions.{key}") for key, value in questions.items()}


def _system_one_question(given: Any, where: str) -> Question:
    body = _object(given, where)
    kind = _type(body, where, SYSTEM_ONE)
    instructions = plain(body.get("instructions"), f"{where}.instructions")
    criteria = body.get("criteria")
    place = f"{where}.criteria"
    if kind in ("noul", "pair"):
        names = ("true", "false") if kind == "noul" else ("first", "second")
        sides = _object(criteria if criteria is not None else {}, place)
        if unknown := sorted(set(sides) - set(names)):
            raise UserError(f"{place}.{unknown[0]}", "is no such side", did_you_mean(unknown[0], names))
        one, other = (plain(sides.get(side), f"{place}.{side}") for side in names)
        if kind == "noul":
            return YesNo(instructions, one, other)
        return _at(where, lambda: Pair(one, other, instructions))
    if kind == "score":
        if not isinstance(criteria, list):
            raise UserError(place, f"is a {type(criteria).__name__}", "Give a list of levels, the worst first.")
        levels = tuple(Option(str(i), plain(level, f"{place}[{i}]"), str(i)) for i, level in enumerate(criteria))
        return _at(where, lambda: Score(levels, instructions))
    return _at(where, lambda: CHOICES[kind](options(_object(criteria, place), place), instructions))


def emit_system_one(answers: Mapping[str, Answer], *, model: str, tokens: int = 0) -> Json:
    """A System One response: probabilities in the question's own order, `tokens` of input."""
    usage = {"input_tokens": tokens, "output_tokens": 0}
    return {"model": model, "answers": {key: _system_one_answer(a) for key, a in answers.items()}, "usage": usage}


def _system_one_answer(answer: Answer) -> Json:
    question, p = answer.question, answer.probabilities
    if isinstance(question, YesNo):
        return {"type": "noul", "noul": float(p[0])}
    labels = [option.label for option in question.options]
    found = dict(zip(labels, map(float, p), strict=True))
    if isinstance(question, Score):
        legend = {option.label: option.description for option in question.options}
        value = float(p @ range(len(p)))
        return {
            "type": "score",
            "score": value,
            "legend": legend,
            "probabilities": found,
            "confidence": score_confidence(p),
        }
    if isinstance(question, MultiLabel):
        chosen = [label for label, own in found.items() if own >= 0.5]
        return {"type": "multilabel", "labels": chosen, "probabilities": found}
    if isinstance(question, Rank):
        order = sorted(range(len(p)), key=lambda i: -p[i])
        return {"type": "rank", "ranking": [labels[i] for i in order], "probabilities": found}
    kind = "pair" if isinstance(question, Pair) else "choice"
    return {"type": kind, kind: labels[answer.best], "probabilities": found, "confidence": choice_confidence(p)}


def parse_openai(request: Any) -> tuple[str, list[Question]]:
    """State and questions of an OpenAI Decisions request, in their order. Raises UserError naming the place."""
    body = _object(request, "request")
    questions = _field(body, "questions", "request")
    if not isinstance(questions, list) or not questions:
        raise UserError("questions", "is no list of questions", "Give a list of at least one.")
    state = conversation(_field(body, "input", "request"), "input")
    return state, [_openai_question(given, f"questions[{i}]") for i, given in enumerate(questions)]


def conversation(given: Any, where: str) -> str:
    """A text as it is; messages, calls and their outputs as one paragraph each. Raises UserError for images.

    >>> conversation([{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}], "input")
    'user: Hi'
    """
    if isinstance(given, str):
        return given
    if not isinstance(given, list) or not given:
        raise UserError(where, f"is {given!r:.40}", "Give a text, or a list of at least one message.")
    return "\n\n".join(_turn(_object(item, f"{where}[{i}]"), f"{where}[{i}]") for i, item in enumerate(given))


def _turn(item: Json, where: str) -> str:
    kind = item.get("type", "message")
    if kind == "message":
        return f"{_text(item, 'role', where)}: {_content(_field(item, 'content', where), f'{where}.content')}"
    if kind in ("function_call", "custom_tool_call"):
        given = "arguments" if kind == "function_call" else "input"
        return f"call {_text(item, 'name', where)}: {_content(_field(item, given, where), f'{where}.{given}')}"
    if kind in ("function_call_output", "custom_tool_call_output"):
        return f"output: {_content(_field(item, 'output', where), f'{where}.output')}"
    raise UserError(f"{where}.type", f"{kind!r} is no kind of input", "Give messages, calls or their outputs.")


def _text(item: Json, key: str, where: str) -> str:
    found = _field(item, key, where)
    if not isinstance(found, str):
        raise UserError(f"{where}.{key}", f"is a {type(found).__name__}", "Give a text.")
    return found


def _content(given: Any, where: str) -> str:
    if isinstance(given, str):
        return given
    if not isinstance(given, list):
        raise UserError(where, f"is a {type(given).__name__}", "Give a text, or a list of text parts.")
    texts = []
    for i, part in enumerate(given):
        own = _object(part, f"{where}[{i}]")
        key = "refusal" if own.get("type") == "refusal" else "text"
        if key not in own:
            raise UserError(f"{where}[{i}]", f"{own.get('type')!r} holds no text", "This model reads text alone.")
        texts.append(_text(own, key, f"{where}[{i}]"))
    return "\n".join(texts)


def _openai_question(given: Any, where: str) -> Question:
    body = _object(given, where)
    asked = _type(body, where, OPENAI)
    instructions = plain(body.get("instructions"), f"{where}.instructions")
    if asked == "predicate":
        return YesNo(instructions)
    listed, name = ("choices", "value") if asked == "choice" else ("levels", "label")
    place = f"{where}.{listed}"
    rows = body.get(listed)
    if not isinstance(rows, list):
        raise UserError(place, f"is a {type(rows).__name__}", f"Give a list of objects with a {name}.")
    found = []
    for i, row in enumerate(rows):
        own = _object(row, f"{place}[{i}]")
        found.append(make_option(_field(own, name, f"{place}[{i}]"), own.get("description"), f"{place}[{i}]"))
    return _at(where, lambda: (Choice if asked == "choice" else Score)(tuple(found), instructions))


def emit_openai(answers: Sequence[Answer], *, model: str, tokens: int = 0) -> Json:
    """An OpenAI Decisions response, in the order of the questions. Raises UserError for a type without a form there."""
    details = {"input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0}}
    usage = {"input_tokens": tokens, "output_tokens": 0, "total_tokens": tokens, **details}
    usage["output_tokens_details"] = {"reasoning_tokens": 0}
    found = [_openai_answer(answer, f"answers[{i}]") for i, answer in enumerate(answers)]
    return {"model": model, "answers": found, "usage": usage}


def _openai_answer(answer: Answer, where: str) -> Json:
    question, p = answer.question, answer.probabilities
    if isinstance(question, YesNo):
        return {"type": "predicate", "probability": float(p[0])}
    if isinstance(question, Choice):
        rows = [{"value": o.value, "probability": float(own)} for o, own in zip(question.options, p, strict=True)]
        best = question.options[answer.best].value
        return {"type": "choice", "choice": best, "confidence": choice_confidence(p), "probabilities": rows}
    if isinstance(question, Score):
        levels = enumerate(zip(question.options, p, strict=True))
        rows = [{"label": o.label, "value": i, "probability": float(own)} for i, (o, own) in levels]
        value = float(p @ range(len(p)))
        return {"type": "score", "score": value, "confidence": score_confidence(p), "probabilities": rows}
    raise UserError(where, f"{type(question).__name__} has no form in this contract", "Use System One JSON.")


def _object(given: Any, where: str) -> Json:
    if not isinstance(given, dict):
        raise UserError(where, f"is a {type(given).__name__}", "Give a JSON object.")
    return given


def _field(body: Json, key: str, where: str) -> Any:
    if key not in body:
        raise UserError(where, f"has no '{key}'", f"Add {key}.")
    return body[key]


def _type(body: Json, where: str, known: Sequence[str]) -> str:
    kind = _field(body, "type", where)
    if not isinstance(kind, str) or kind not in known:
        raise UserError(f"{where}.type", f"{kind!r} is no question type", did_you_mean(str(kind), known))
    return kind


def _at(where: str, build: Any) -> Any:
    """Build a question; a mistake in it is reported with its place in the request."""
    try:
        return build()
    except UserError as error:
        raise UserError(f"{where}: {error.where}", error.what, error.fix) from error
