"""A judge behind any OpenAI-compatible endpoint: cached on disk, with bounded concurrency, retries and time limits."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from polypath.core.errors import UserError
from polypath.core.files import JsonlWriter, numbered_rows
from polypath.engines.endpoint import Endpoint


@dataclass
class Judge:
    """Chat completions at temperature 0, prompts in and answers out.

    `url` is the base, as in "http://localhost:8000/v1", and `key` its secret, which is kept nowhere. A prompt is sent
    once: answers are kept in `cache`, a JSONL file, by the hash of address, model and request, and written as they
    come, so that nothing paid for is lost when a later one fails. At most `workers` requests are under way. What may
    pass (429, 5xx, time-outs, broken connections) is tried `retries` more times, after the pause that the server asks
    for or twice the one before. `partitions.asked(judge.ask)` makes it a relation between texts.
    """

    url: str
    model: str
    cache: str | Path | None = None
    key: str = field(default="", repr=False)
    system: str = ""
    timeout: float = 60.0
    retries: int = 3
    workers: int = 4
    max_tokens: int = 16
    pause: float = 0.2
    _known: dict[str, str] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self._endpoint = Endpoint(self.url, self.key, self.timeout, self.retries, self.pause)
        if self.cache is not None and Path(self.cache).exists():
            self._known = {row["key"]: row["answer"] for _, row, _ in numbered_rows(Path(self.cache))}

    def ask(self, prompts: Sequence[str]) -> list[str]:
        """One answer per prompt; equal prompts are sent once.

        Raises UserError when the endpoint cannot be reached, refuses, or answers in another format.
        """
        requests = {prompt: self._body(prompt) for prompt in prompts}
        keys = {prompt: self._hash(body) for prompt, body in requests.items()}
        missing = {keys[prompt]: body for prompt, body in requests.items() if keys[prompt] not in self._known}
        if missing:
            self._fetch(missing)
        return [self._known[keys[prompt]] for prompt in prompts]

    def _fetch(self, missing: dict[str, dict[str, Any]]) -> None:
        with ThreadPoolExecutor(self.workers) as pool:
            running = {pool.submit(self._send, body): key for key, body in missing.items()}
            try:
                for future in as_completed(running):
                    if future.exception() is not None:
                        break
                    self._remember(running[future], future.result())
            finally:  # after a failure, or an interrupt, only those under way still come in
                for future in running:
                    future.cancel()
        done = {future: future.exception() for future in running if not future.cancelled()}
        for future, error in done.items():
            if error is None and running[future] not in self._known:
                self._remember(running[future], future.result())
        for error in filter(None, done.values()):
            raise error

    def _remember(self, key: str, answer: str) -> None:
        self._known[key] = answer
        if self.cache is not None:
            with JsonlWriter(self.cache) as writer:
                writer.write([{"key": key, "model": self.model, "answer": answer}])

    def _body(self, prompt: str) -> dict[str, Any]:
        turns = [{"role": "system", "content": self.system}] if self.system else []
        turns.append({"role": "user", "content": prompt})
        return {"model": self.model, "messages": turns, "temperature": 0, "max_tokens": self.max_tokens}

    def _hash(self, body: dict[str, Any]) -> str:
        text = json.dumps([self.url.rstrip("/"), body], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def _send(self, body: dict[str, Any]) -> str:
        raw = self._endpoint.post("chat/completions", body)
        try:
            content = json.loads(raw)["choices"][0]["message"]["content"]
        except (ValueError, KeyError, IndexError, TypeError):
            content = None
        if not isinstance(content, str):
            what = f"answered what is not a chat completion: {raw[:80]!r}"
            raise UserError(self.url, what, "Is it the base of an OpenAI-compatible endpoint, such as .../v1?")
        return content
