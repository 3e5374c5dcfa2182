"""A server of both wire contracts: `/v1/systemone` and `/v1/decisions`, beside `/v1/models` and `/health`.

A mistake in a request is answered with 422 and its place, never with a 5xx, which clients would send again.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from polypath.core.errors import UserError
from polypath.decide.batching import Batcher, Busy
from polypath.decide.types import Question
from polypath.decide.wire import emit_openai, emit_system_one, parse_openai, parse_system_one

if TYPE_CHECKING:
    from polypath.engines.transformers import TransformersPolicy

ALIASES = ("jev-latest",)  # the default of System One clients: whatever model is served


@dataclass(frozen=True)
class Limits:
    """What one request may hold, and how many may wait."""

    body_bytes: int = 2_000_000
    questions: int = 400  # what OpenAI's contract allows
    waiting: int = 256


class Refused(Exception):
    """A request that is answered with an error of the given status."""

    def __init__(self, status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.kind, self.message, self.headers = status, kind, message, headers


class DecisionServer:
    """The application and its worker.

    `ask(state, questions)` answers; `count(state, questions)` is the number of tokens read for it.
    """

    def __init__(
        self,
        ask: Callable[[str, Mapping[Any, Question]], dict[Any, Any]],
        count: Callable[[str, Mapping[Any, Question]], int],
        name: str,
        *,
        token: str = "",
        aliases: Sequence[str] = (),
        limits: Limits | None = None,
    ) -> None:
        self.names = {name, *ALIASES, *aliases}
        self.limits = limits or Limits()
        self.batcher = Batcher(ask, waiting=self.limits.waiting)
        self.count, self.name, self.token = count, name, token
        self.app = Starlette(
            routes=[
                Route("/v1/systemone", self.system_one, methods=["POST"]),
                Route("/v1/decisions", self.decisions, methods=["POST"]),
                Route("/v1/models", self.models, methods=["GET"]),
                Route("/health", self.health, methods=["GET"]),
            ]
        )

    async def health(self, request: Request) -> Response:
        """Whether the server is up; needs no token."""
        return JSONResponse({"status": "ok", "model": self.name, "forwards": self.batcher.forwards})

    async def models(self, request: Request) -> Response:
        """The one model, in the form of both families of clients."""

        async def answer() -> dict[str, Any]:
            row = {"name": self.name, "description": "a causal language model", "release_date": "1970-01-01"}
            return {
                "models": [row],
                "object": "list",
                "data": [{"id": self.name, "object": "model", "created": 0, "owned_by": "polypath"}],
            }

        return await self.reply(request, answer, system_one_error)

    async def system_one(self, request: Request) -> Response:
        """System One: questions by name about a state."""

        async def answer() -> dict[str, Any]:
            body = await self.read(request)
            state, questions = parse_system_one(body)
            found = await self.ask(state, questions)
            return emit_system_one(found, model=self.name, tokens=self.count(state, questions))

        return await self.reply(request, answer, system_one_error)

    async def decisions(self, request: Request) -> Response:
        """OpenAI Decisions: a list of questions about an input."""

        async def answer() -> dict[str, Any]:
            body = await self.read(request)
            state, asked = parse_openai(body)
            questions = dict(enumerate(asked))
            found = await self.ask(state, questions)
            return emit_openai([found[i] for i in questions], model=self.name, tokens=self.count(state, questions))

        return await self.reply(request, answer, openai_error)

    async def ask(self, state: str, questions: Mapping[Any, Question]) -> dict[Any, Any]:
        """Answers of the worker. Raises Refused for too many questions, or when too many requests wait."""
        if len(questions) > self.limits.questions:
            what = f"{len(questions)} questions"
            raise UserError("questions", what, f"Ask at most {self.limits.questions} at once.")
        try:
            return await asyncio.wrap_future(self.batcher.submit(state, questions))
        except Busy:
            said = f"{self.limits.waiting} requests wait already"
            raise Refused(503, "overloaded_error", said, {"Retry-After": "1"}) from None

    async def read(self, request: Request) -> Any:
        """The body as JSON. Raises Refused for one that is too large, UserError for what is no JSON."""
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > self.limits.body_bytes:
                raise Refused(413, "request_too_large", f"the body has more than {self.limits.body_bytes:,} bytes")
        found = parse_json(bytes(body))
        if isinstance(found, dict) and not self.serves(found.get("model")):
            message = f"this server has the model '{self.name}' alone, not {found.get('model')!r}"
            raise Refused(404, "not_found_error", message)
        return found

    def serves(self, model: Any) -> bool:
        """Whether a request's model is the one here; none given, or the clients' default, is it too."""
        return model is None or (isinstance(model, str) and model in self.names)

    async def reply(
        self,
        request: Request,
        answer: Callable[[], Awaitable[dict[str, Any]]],
        error_body: Callable[[int, str, str, tuple[str, ...]], dict[str, Any]],
    ) -> Response:
        """The answer, or the error in the contract's own shape."""
        try:
            if self.token and not authorised(request.headers.get("authorization", ""), self.token):
                message = "the key is missing or wrong; send `Authorization: Bearer KEY`"
                raise Refused(401, "authentication_error", message, {"WWW-Authenticate": "Bearer"})
            return JSONResponse(await answer())
        except UserError as error:
            place = location(error.where)
            return JSONResponse(error_body(422, "invalid_request_error", str(error), place), 422)
        except Refused as refused:
            body = error_body(refused.status, refused.kind, refused.message, ())
            return JSONResponse(body, refused.status, headers=refused.headers)


def serve_policy(
    policy: TransformersPolicy,
    *,
    readout: str = "label_tree",
    length: str = "sum",
    temperature: Callable[[Question], float] = lambda _: 1.0,
    token: str = "",
    aliases: Sequence[str] = (),
    limits: Limits | None = None,
) -> DecisionServer:
    """A server of one policy by one readout. Raises UserError for a readout that does not exist."""
    from polypath.core.registry import get
    from polypath.decide import readout as readouts
    from polypath.engines.tree import build_trie

    make = get("readout", readout, where="readout")

    def ask(state: str, questions: Mapping[Any, Question]) -> dict[Any, Any]:
        return readouts.ask(policy, state, questions, readout=readout, length=length, temperature=temperature)

    def count(state: str, questions: Mapping[Any, Question]) -> int:
        branches = [branch for question in questions.values() for branch in make(question)]
        return len(build_trie(readouts.branch_rows(policy.tokenizer, policy.stop_ids[0], state, branches)).ids)

    return DecisionServer(ask, count, policy.name, token=token, aliases=aliases, limits=limits)


def authorised(header: str, token: str) -> bool:
    """Whether the header carries the token, compared in constant time."""
    scheme, _, given = header.partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())


def parse_json(body: bytes) -> Any:
    """Strict JSON. Raises UserError for other text, NaN, a key given twice, half a surrogate and depth without end.

    >>> parse_json(b'{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ...
    polypath.core.errors.UserError: body: the key 'a' is given twice. Give every label once.
    """
    try:
        found = json.loads(body.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_constant)
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    except UnicodeError:
        raise UserError(
            "body", "is no UTF-8 text, or holds half a surrogate pair", "Send UTF-8 without lone surrogates."
        ) from None
    except json.JSONDecodeError as error:
        place = f"body:{error.lineno}:{error.colno}"
        raise UserError(place, f"is no JSON ({error.msg})", "Send one JSON object.") from None
    except (RecursionError, ValueError) as error:
        raise UserError("body", f"cannot be read ({type(error).__name__})", "Send a flatter object.") from None
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise UserError("body", f"the key '{key}' is given twice", "Give every label once.")
        found[key] = value
    return found


def _no_constant(name: str) -> float:
    raise UserError("body", f"holds {name}", "JSON numbers are finite.")


def location(where: str) -> tuple[str, ...]:
    """The parts of a place in a request.

    >>> location("questions.topic.criteria: choice option 2")
    ('body', 'questions', 'topic', 'criteria')
    """
    path = where.partition(":")[0].strip()
    parts = tuple(part for part in path.replace("[", ".").replace("]", "").split(".") if part)
    return ("body", *(part for part in parts if part not in ("body", "request")))


def system_one_error(status: int, kind: str, message: str, place: tuple[str, ...]) -> dict[str, Any]:
    """`detail` is a list of mistakes with their places, or one error with its type."""
    if status == 422:
        return {"detail": [{"loc": list(place), "msg": message, "type": "value_error"}]}
    return {"detail": {"error_type": kind, "message": message}}


def openai_error(status: int, kind: str, message: str, place: tuple[str, ...]) -> dict[str, Any]:
    """The error object of OpenAI's clients."""
    param = ".".join(place[1:]) or None
    return {"error": {"message": message, "type": kind, "param": param, "code": str(status)}}
