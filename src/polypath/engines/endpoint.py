"""JSON over HTTP to an OpenAI-compatible endpoint: time limits, retries with growing pauses, errors in words."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any

from polypath.core.errors import UserError

LONGEST_WAIT = 30.0  # seconds between two tries, also where the server asks for more
KEYS = ("POLYPATH_API_KEY", "OPENAI_API_KEY")  # environment variables with the key, the first that is set


def key_of_environment() -> str:
    """The key that the user has set for endpoints, or none."""
    return next((os.environ[name] for name in KEYS if os.environ.get(name)), "")


@dataclass
class Endpoint:
    """The base address of an API, as in "http://localhost:8000/v1", and its key, which is kept nowhere.

    What may pass (429, 5xx, time-outs, broken connections) is tried `retries` more times, after the pause that the
    server asks for or twice the one before. Raises UserError for what is no address.
    """

    url: str
    key: str = field(default="", repr=False)
    timeout: float = 60.0
    retries: int = 3
    pause: float = 0.2
    where: str = "judge.url"

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise UserError(self.where, f"'{self.url}' is no address", "Write http://host:port/v1 or https://...")
        self.url = self.url.rstrip("/")

    def post(self, path: str, body: dict[str, Any]) -> bytes:
        """The raw answer to a request. Raises UserError when the endpoint cannot be reached, or refuses."""
        wait, reason = self.pause, ""
        for attempt in range(self.retries + 1):
            if attempt:
                time.sleep(min(wait, LONGEST_WAIT))
            try:
                return self._post(path, body)
            except urllib.error.HTTPError as error:
                reason = f"the endpoint answered {error.code}{_message(error)}"
                if error.code not in (408, 425, 429) and error.code < 500:
                    break
                wait = max(2 * wait, _seconds(error.headers.get("Retry-After")))
            except (OSError, http.client.HTTPException) as error:
                reason = f"cannot be reached ({getattr(error, 'reason', error) or type(error).__name__})"
                wait = 2 * wait
        raise UserError(self.url, reason, "Check the address, the model's name and the key.")

    def _post(self, path: str, body: dict[str, Any]) -> bytes:
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self.key}"} if self.key else {})
        request = urllib.request.Request(f"{self.url}/{path}", json.dumps(body).encode(), headers, method="POST")
        with urllib.request.urlopen(request, timeout=self.timeout) as response:
            return bytes(response.read())


def _message(error: urllib.error.HTTPError) -> str:
    """What the server says about an error, shortened."""
    text = error.read().decode("utf-8", "replace").strip()
    with contextlib.suppress(ValueError, KeyError, TypeError):
        text = str(json.loads(text)["error"]["message"])
    return f" ({' '.join(text.split())[:120]})" if text else f" ({error.reason})"


def _seconds(header: str | None) -> float:
    """A Retry-After in seconds; 0 for none, and for the form that is a date."""
    return float(header) if header is not None and header.strip().isdigit() else 0.0
