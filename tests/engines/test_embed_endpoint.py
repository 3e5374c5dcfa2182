"""Embeddings from an endpoint, against a real server on this machine."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from polypath.core.errors import UserError
from polypath.engines.embed_endpoint import BATCH, EndpointEmbedder


class Handler(BaseHTTPRequestHandler):
    """Counts the vowels of each text, in reverse order of the texts; `server.plan` holds other answers."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append((self.path, self.headers.get("Authorization"), body))
        code, answer = self.server.plan.pop(0) if self.server.plan else (200, None)
        if answer is None:
            rows = [[float(text.count(v)) + 0.5 for v in "aeiou"] for text in body["input"]]
            answer = {"data": [{"index": i, "embedding": row} for i, row in reversed(list(enumerate(rows)))]}
        self.send_response(code)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_):
        """Nothing."""


@pytest.fixture
def server():
    found = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.seen, found.plan = [], []
    threading.Thread(target=found.serve_forever, args=(0.01,), daemon=True).start()
    yield found
    found.shutdown()
    found.server_close()


def url(server):
    return f"http://127.0.0.1:{server.server_port}/v1/"


def test_vectors_come_in_order_once_and_are_kept(server, tmp_path):
    cache = tmp_path / "new" / "cache.jsonl"
    embed = EndpointEmbedder(url(server), "m", cache=cache, key="secret")
    found = embed(["aaa", "e", "aaa", ""])
    expected = np.array([[3.5, 0.5, 0.5, 0.5, 0.5], [0.5, 1.5, 0.5, 0.5, 0.5], [0.5] * 5])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected[[0, 1, 0, 2]], rtol=1e-6)
    (path, key, body), *rest = server.seen
    assert (path, key, rest) == ("/v1/embeddings", "Bearer secret", [])
    assert body["input"] == ["aaa", "e", " "] and body["model"] == "m"  # servers refuse an empty text
    assert "secret" not in cache.read_text() and "secret" not in repr(embed)
    np.testing.assert_array_equal(EndpointEmbedder(url(server), "m", cache=cache)(["e", "aaa"]), found[[1, 0]])
    assert len(server.seen) == 1
    EndpointEmbedder(url(server), "other", cache=cache)(["e"])
    assert len(server.seen) == 2


def test_many_texts_go_in_batches_and_what_came_is_kept(server, tmp_path):
    texts = [f"a{i}" for i in range(BATCH + 3)]
    server.plan = [(200, None), (400, {"error": {"message": "too long"}})]
    embed = EndpointEmbedder(url(server), "m", cache=tmp_path / "c.jsonl", pause=0.01)
    with pytest.raises(UserError, match=r"answered 400 \(too long\)"):
        embed(texts)
    assert EndpointEmbedder(url(server), "m", cache=tmp_path / "c.jsonl")(texts).shape == (len(texts), 5)
    assert [len(body["input"]) for _, _, body in server.seen] == [BATCH, 3, 3]


@pytest.mark.parametrize(
    "answer",
    [{}, {"data": []}, {"data": [{"index": 0, "embedding": [1.0, None]}]}, {"data": [{"index": 0, "embedding": "x"}]}],
)
def test_an_answer_that_is_none_is_told(server, answer):
    server.plan = [(200, answer)]
    with pytest.raises(UserError, match="not one vector for each of 1 texts"):
        EndpointEmbedder(url(server), "m")(["a"])


def test_a_model_that_changed_its_width_is_told(server):
    embed = EndpointEmbedder(url(server), "m")
    embed(["a"])
    server.plan = [(200, {"data": [{"index": 0, "embedding": [1.0, 2.0]}]})]
    with pytest.raises(UserError, match=r"different width \(2, 5\)"):
        embed(["a", "b"])


def test_a_busy_server_is_asked_again(server):
    server.plan = [(503, {}), (429, {})]
    assert EndpointEmbedder(url(server), "m", pause=0.01)(["a"]).shape == (1, 5)
    assert EndpointEmbedder(url(server), "m")([]).shape[0] == 0


def test_names_of_endpoints():
    with pytest.raises(UserError, match="names no model"):
        EndpointEmbedder.of("http://host/v1")
    with pytest.raises(UserError, match="is no address"):
        EndpointEmbedder.of("host/v1#m")
