"""The simulator's side of the wall: `python -m polypath.tasks.environments.child`, one request a line, one answer."""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from dataclasses import asdict
from typing import Any

from polypath.core import registry
from polypath.core.errors import UserError

METHODS = ("reset", "step", "snapshot", "restore", "games", "close")


def serve() -> None:
    """Answer requests until the input ends. What a simulator prints goes to the error stream."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    setup = json.loads(sys.stdin.readline())
    environment: Any = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if environment is None:
                importlib.import_module(setup["module"])  # where the environment registers itself
                environment = registry.get("environment", setup["name"])(**setup["knobs"])
            value = getattr(environment, METHODS[METHODS.index(request["do"])])(*request["with"])
            answer = {"value": asdict(value) if hasattr(value, "observation") else value}
        except UserError as error:
            answer = {"user_error": [error.where, error.what, error.fix]}
        except Exception as error:  # noqa: BLE001 - the boundary to simulators, which are other people's code
            answer = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    serve()
