"""The judge against a real server on this machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from polypath.core.errors import UserError
from polypath.diversity.clustering import by_equivalence
from polypath.engines.judge import Judge


class Handler(BaseHTTPRequestHandler):
    """Says yes when both solutions begin alike; fails as `server.plan` says."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append((self.path, self.headers.get("Authorization"), body))
        status = self.server.plan.pop(0) if self.server.plan else 200
        first, second = body["messages"][0]["content"].split("Solution 1:\n")[1].split("\n\nSolution 2:\n")
        answer = {"choices": [{"message": {"content": " Yes." if first[0] == second[0] else "No"}}]}
        text = json.dumps(answer if status != 299 else {"odd": 1}).encode()
        self.send_response(200 if status == 299 else status)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    found = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.seen, found.plan = [], []  # type: ignore[attr-defined]
    threading.Thread(target=found.serve_forever, daemon=True).start()
    yield found
    found.shutdown()


def judge(server: ThreadingHTTPServer, **options: object) -> Judge:
    return Judge(f"http://127.0.0.1:{server.server_port}/v1", "m", **options)  # type: ignore[arg-type]


def test_a_judge_partitions_and_remembers(server, tmp_path: Path) -> None:
    cache = tmp_path / "judge.jsonl"
    first = judge(server, cache=cache, key="secret")
    assert by_equivalence(["ax", "b", "ay", "ax"], first.same).tolist() == [0, 1, 0, 0]
    path, authorization, body = server.seen[0]
    assert path == "/v1/chat/completions" and authorization == "Bearer secret" and body["temperature"] == 0
    count = len(server.seen)
    assert by_equivalence(["ax", "b", "ay"], judge(server, cache=cache).same).tolist() == [0, 1, 0]
    assert len(server.seen) == count  # from the cache of another process


def test_what_may_pass_is_tried_again(server) -> None:
    server.plan[:] = [503, 429]
    assert judge(server).same("ab", "ac") and len(server.seen) == 3


@pytest.mark.parametrize(("plan", "message"), [([401], "401"), ([299], "not a chat completion"), ([500, 500], "500")])
def test_what_does_not_pass_is_told(server, plan, message) -> None:
    server.plan[:] = plan
    with pytest.raises(UserError, match=message):
        judge(server, retries=1).same("ab", "ac")


def test_no_server() -> None:
    with pytest.raises(UserError, match="cannot be reached"):
        Judge("http://127.0.0.1:9/v1", "m", retries=0, timeout=2).same("a", "b")
