"""The judge against a real server on this machine."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from polypath.core.errors import UserError
from polypath.diversity.partitions import asked, average_linkage, by_equivalence, same_matrix
from polypath.engines.judge import Judge

DROP, ODD, SLOW = 0, 299, 298  # beside HTTP codes: what the server is planned to do


class Handler(BaseHTTPRequestHandler):
    """Says yes when both solutions begin alike; fails as `server.plan` says."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.seen.append((self.path, self.headers.get("Authorization"), body))
            self.server.running += 1
            self.server.most = max(self.server.most, self.server.running)
            plan = self.server.plan.pop(0) if self.server.plan else 200
        time.sleep(1.0 if plan == SLOW else self.server.delay)
        if plan != DROP:
            with contextlib.suppress(OSError):  # the client has hung up
                self.answer(plan, body["messages"][-1]["content"])
        with self.server.lock:
            self.server.running -= 1

    def answer(self, plan, prompt):
        first, _, second = prompt.partition("Solution 1:\n")[2].partition("\n\nSolution 2:\n")
        reply = {"choices": [{"message": {"content": " Yes." if first[:1] == second[:1] else "No"}}]}
        if plan == ODD:
            reply = {"odd": 1}
        elif plan >= 300:
            reply = {"error": {"message": "no such\nmodel"}}
        self.send_response(200 if plan in (ODD, SLOW) else plan)
        if plan == 429:
            self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(json.dumps(reply).encode())

    def log_message(self, *_):
        """Nothing."""


@pytest.fixture
def server():
    found = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.lock, found.seen, found.plan, found.running, found.most, found.delay = threading.Lock(), [], [], 0, 0, 0.0
    threading.Thread(target=found.serve_forever, args=(0.01,), daemon=True).start()
    yield found
    found.shutdown()
    found.server_close()


def judge(server, **options):
    return Judge(f"http://127.0.0.1:{server.server_port}/v1/", "m", pause=0.01, **options)


def test_a_judge_partitions_and_remembers(server, tmp_path):
    cache = tmp_path / "judge.jsonl"
    first = judge(server, cache=cache, key="secret", system="Be brief.")
    assert by_equivalence(["ax", "b{}", "ay", "ax"], asked(first.ask)).tolist() == [0, 1, 0, 0]
    path, authorization, body = server.seen[0]
    assert path == "/v1/chat/completions" and authorization == "Bearer secret"
    assert body["temperature"] == 0 and body["messages"][0] == {"role": "system", "content": "Be brief."}
    count = len(server.seen)
    again = judge(server, cache=str(cache), system="Be brief.")
    assert by_equivalence(["ax", "b{}", "ay"], asked(again.ask)).tolist() == [0, 1, 0]
    assert len(server.seen) == count  # from the cache of another process
    assert "secret" not in cache.read_text() + repr(first)
    for other in (judge(server, cache=cache), judge(server, cache=cache, system="Be brief.", max_tokens=17)):
        other.ask([body["messages"][1]["content"]])
    assert len(server.seen) == count + 2  # another request is another question


def test_all_pairs_at_once_with_bounded_concurrency(server):
    server.delay = 0.02
    matrix = same_matrix(["a1", "a2", "b1", "b2", "c1"], asked(judge(server, workers=3).ask))
    assert len(server.seen) == 10 and 1 < server.most <= 3
    assert average_linkage(matrix).tolist() == [0, 0, 1, 1, 2]


def test_equal_prompts_are_sent_once(server):
    assert judge(server).ask(["x", "y", "x"]) == [" Yes."] * 3  # no solutions: both begin alike
    assert len(server.seen) == 2 and judge(server).ask([]) == []


@pytest.mark.parametrize("plan", [[503, 429], [DROP, 500], [408]])
def test_what_may_pass_is_tried_again(server, plan):
    server.plan[:] = plan
    assert judge(server).ask(["x"]) == [" Yes."] and len(server.seen) == len(plan) + 1


def test_a_slow_answer_is_tried_again(server):
    server.plan[:] = [SLOW]
    assert judge(server, timeout=0.2).ask(["x"]) == [" Yes."]


@pytest.mark.parametrize(
    ("plan", "message", "sent"),
    [
        ([401], r"answered 401 \(no such model\)", 1),
        ([ODD], "not a chat completion", 1),
        ([500, 500, 200], "answered 500", 2),
        ([SLOW, SLOW], "timed out", 2),
        ([DROP, DROP], "cannot be reached", 2),
    ],
)
def test_what_does_not_pass_is_told(server, plan, message, sent):
    server.plan[:] = plan
    with pytest.raises(UserError, match=message):
        judge(server, retries=1, timeout=0.3).ask(["x"])
    assert len(server.seen) == sent


def test_what_was_answered_before_a_failure_is_kept(server, tmp_path):
    cache = tmp_path / "judge.jsonl"
    server.plan[:], server.delay = [200, 200, 401], 0.1
    with pytest.raises(UserError, match="401"):
        judge(server, cache=cache, workers=1).ask(["x", "y", "z", *map(str, range(20))])
    sent = len(server.seen)
    assert sent < 6  # the rest was not asked
    assert len(cache.read_text().splitlines()) == sent - 1
    assert len(judge(server, cache=cache).ask(["x", "y", "z"])) == 3 and len(server.seen) == sent + 1


def test_a_torn_cache_is_read_up_to_the_tear_and_mended(server, tmp_path):
    cache = tmp_path / "judge.jsonl"
    judge(server, cache=cache).ask(["x"])
    cache.write_bytes(cache.read_bytes() + b'{"key": "12')
    with pytest.warns(match="torn"):
        judge(server, cache=cache).ask(["x", "y"])
    assert len(server.seen) == 2 and len(cache.read_text().splitlines()) == 2


def test_no_server_and_no_address():
    with pytest.raises(UserError, match="cannot be reached"):
        Judge("http://127.0.0.1:9/v1", "m", retries=0, timeout=2).ask(["a"])
    with pytest.raises(UserError, match="no address"):
        Judge("localhost:8000", "m")
