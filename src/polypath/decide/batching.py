"""One worker that answers the requests of many clients: those about the same state share one forward pass."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from polypath.core.errors import UserError
from polypath.decide.answers import Answer
from polypath.decide.types import Question

Key = tuple[int, Any]
Ask = Callable[[str, Mapping[Key, Question]], dict[Key, Answer]]


class Busy(Exception):
    """More requests wait than the queue holds."""


@dataclass(frozen=True)
class _Job:
    state: str
    questions: Mapping[Any, Question]
    done: Future[dict[Any, Answer]] = field(default_factory=Future)


class Batcher:
    """Questions in, futures of answers out; the model is used by one thread alone.

    `ask(state, questions)` answers all questions about one state. While it runs, requests gather; of those waiting
    (at most `most`), all with the state of the oldest are asked together. No answer depends on what it was batched
    with, so a mistake in one request fails that one only.
    """

    def __init__(self, ask: Ask, *, waiting: int = 256, most: int = 64) -> None:
        self._ask, self._most = ask, most
        self._jobs: queue.Queue[_Job | None] = queue.Queue(waiting)
        self.forwards = 0
        self._model = ThreadPoolExecutor(1, "model")
        self._worker = threading.Thread(target=self._run, name="decide", daemon=True)
        self._worker.start()

    def submit(self, state: str, questions: Mapping[Any, Question]) -> Future[dict[Any, Answer]]:
        """The answers to come, or the UserError. Raises Busy when the queue is full."""
        job = _Job(state, questions)
        try:
            self._jobs.put_nowait(job)
        except queue.Full:
            raise Busy from None
        return job.done

    def close(self) -> None:
        """Answer what waits, then end the worker."""
        self._jobs.put(None)
        self._worker.join()
        self._model.shutdown()

    def _run(self) -> None:
        closing = False
        while not closing:
            jobs = [self._jobs.get()]
            while len(jobs) < self._most and not self._jobs.empty():
                jobs.append(self._jobs.get())
            closing = None in jobs
            waiting = [job for job in jobs if job is not None]
            while waiting:
                state = waiting[0].state
                self._answer([job for job in waiting if job.state == state])
                waiting = [job for job in waiting if job.state != state]

    def _answer(self, jobs: list[_Job]) -> None:
        live = [job for job in jobs if job.done.set_running_or_notify_cancel()]
        if not live:
            return
        merged = {(i, key): question for i, job in enumerate(live) for key, question in job.questions.items()}
        found = self._call(live[0].state, merged)
        error = found.exception()  # waits
        if isinstance(error, UserError) and len(live) > 1:  # whose mistake was it? Each alone
            for job in live:
                self._settle([job], self._call(job.state, {(0, key): own for key, own in job.questions.items()}))
        else:
            self._settle(live, found)

    def _call(self, state: str, questions: Mapping[Key, Question]) -> Future[dict[Key, Answer]]:
        self.forwards += 1
        return self._model.submit(self._ask, state, questions)

    @staticmethod
    def _settle(jobs: Sequence[_Job], found: Future[dict[Key, Answer]]) -> None:
        error = found.exception()
        for i, job in enumerate(jobs):
            if error is not None:
                job.done.set_exception(error)
            else:
                job.done.set_result({key: found.result()[i, key] for key in job.questions})
