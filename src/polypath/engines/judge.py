"""A judge behind any OpenAI-compatible endpoint: cached on disk, with bounded concurrency, retries and time limits."""

from __future__ import annotations

import hashlib
import json
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from polypath.core.errors import UserError
from polypath.core.files import JsonlWriter, numbered_rows

SAME = (
    "Two solutions of one problem follow. Do they take the same approach? Answer with the single word yes or no."
    "\n\nSolution 1:\n{a}\n\nSolution 2:\n{b}"
)


@dataclass
class Judge:
    """Chat completions at temperature 0. An answer is asked for once: the cache is keyed by model and request.

    `url` is the base, as in "http://localhost:8000/v1". Raises UserError when the endpoint cannot be reached, refuses,
    or does not answer in its own format, after `retries` further tries for what may pass (429, 5xx, time-outs).
    """

    url: str
    model: str
    cache: Path | None = None
    key: str = ""
    timeout: float = 60.0
    retries: int = 3
    workers: int = 4
    max_tokens: int = 16
    _known: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.cache is not None and self.cache.exists():
            self._known = {row["key"]: row["answer"] for _, row, _ in numbered_rows(self.cache)}

    def ask(self, prompts: Sequence[str]) -> list[str]:
        """One answer per prompt; equal prompts are sent once."""
        keys = [hashlib.sha256(json.dumps([self.model, prompt]).encode()).hexdigest() for prompt in prompts]
        missing = {key: prompt for key, prompt in zip(keys, prompts, strict=True) if key not in self._known}
        with ThreadPoolExecutor(self.workers) as pool:
            for key, answer in zip(missing, pool.map(self._send, missing.values()), strict=True):
                self._known[key] = answer
                if self.cache is not None:
                    with JsonlWriter(self.cache) as writer:
                        writer.write([{"key": key, "answer": answer}])
        return [self._known[key] for key in keys]

    def same(self, a: str, b: str) -> bool:
        """Whether two texts are the same approach. Raises UserError for an answer that is neither yes nor no."""
        answer = self.ask([SAME.format(a=a, b=b)])[0].strip().lower().strip(".!\"'")
        if answer.startswith(("yes", "no")):
            return answer.startswith("yes")
        raise UserError(self.url, f"the judge answered {answer[:40]!r}", "Use a model that follows instructions.")

    def _send(self, prompt: str) -> str:
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": prompt}],
            "temperature": 0,
            "max_tokens": self.max_tokens,
        }
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self.key}"} if self.key else {})
        request = urllib.request.Request(
            f"{self.url.rstrip('/')}/chat/completions", json.dumps(body).encode(), headers, method="POST"
        )
        for attempt in range(self.retries + 1):
            try:
                with urllib.request.urlopen(request, timeout=self.timeout) as response:
                    return str(_content(json.loads(response.read())))
            except urllib.error.HTTPError as error:
                reason = f"the endpoint answered {error.code} {error.reason}"
                if error.code != 429 and error.code < 500:
                    break
            except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
                reason = f"cannot be reached ({getattr(error, 'reason', error)})"
            except (ValueError, KeyError, IndexError, TypeError):
                reason = "the answer is not a chat completion"
                break
            if attempt < self.retries:
                time.sleep(min(0.2 * 2**attempt, 5.0))
        raise UserError(self.url, reason, "Check the address, the model's name and the key.")


def _content(answer: Any) -> Any:
    return answer["choices"][0]["message"]["content"]
