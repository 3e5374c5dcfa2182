"""A real policy of a quarter of a million weights, and a task with many right answers."""

from __future__ import annotations

import pytest

from polypath.core import registry
from polypath.engines.transformers import TransformersPolicy
from polypath.tasks.protocol import Prompt, Task


@pytest.fixture(scope="session")
def policy() -> TransformersPolicy:
    return TransformersPolicy.load("countdown-0")


@pytest.fixture(scope="session")
def task() -> Task:
    return registry.get("task", "countdown")(numbers=4, min_solutions=3)


@pytest.fixture(scope="session")
def prompts(task: Task) -> list[tuple[int, Prompt]]:
    return list(enumerate(task.prompts("train", n=4, seed=0)))
