"""Every method file as a registered function of kind "credit": recipes can name it and its knobs are checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from polypath.core import registry
from polypath.core.registry import register
from polypath.credit.methods import Method, load_method, methods
from polypath.credit.pipeline import Pipeline, build
from polypath.credit.spec import KINDS


def register_method(method: Method) -> Callable[..., Pipeline]:
    """A function of the method's knobs that builds its pipeline, registered under kind "credit"."""

    def pipeline(**knobs: Any) -> Pipeline:
        return build({method.name: knobs})

    types = dict(_uses([*method.credit, {"loss": method.loss}]))
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value, annotation=types.get(name, "Any"))
        for name, value in method.knobs.items()
    ]
    vars(pipeline).update(__signature__=inspect.Signature(parameters))
    pipeline.__name__ = pipeline.__qualname__ = method.name
    pipeline.__doc__ = method.summary
    paper = f"arXiv:{method.paper['arxiv']}" if method.paper.get("arxiv") else str(method.paper.get("title", ""))
    return register("credit", method.name, returns="advantages", paper=paper, traits=method.traits)(pipeline)


def _uses(stages: list[Any]) -> Iterator[tuple[str, str]]:
    """Pairs of a knob and the type it needs where it is used: that of the stage's own knob, or a stage's name."""
    for stage in stages:
        ((kind, body),) = stage.items()
        if isinstance(body, str) and body.startswith("$"):
            yield body[1:], f"Annotated[Call, Kind({kind!r})]"
        elif isinstance(body, Mapping):
            ((name, knobs),) = body.items()
            known = registry.entry(kind, name).knobs if kind in (*KINDS, "loss") else {}
            for knob, value in knobs.items():
                if isinstance(value, str) and value.startswith("$"):
                    yield value[1:], known[knob]["type"]


REGISTERED = {name: register_method(load_method(name)) for name in methods()}
