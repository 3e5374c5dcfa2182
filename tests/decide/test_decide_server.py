"""The server over HTTP: both contracts, their public clients, the conformance tool, and what must be refused."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future

import httpx
import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("starlette")
uvicorn = pytest.importorskip("uvicorn")

from polypath.cli.decide_serve import listen  # noqa: E402
from polypath.core.errors import UserError  # noqa: E402
from polypath.decide.answers import make_answer  # noqa: E402
from polypath.decide.batching import Batcher, Busy  # noqa: E402
from polypath.decide.readout import ask  # noqa: E402
from polypath.decide.server import Limits, parse_json, serve_policy  # noqa: E402
from polypath.decide.types import YesNo  # noqa: E402
from polypath.decide.wire import parse_system_one  # noqa: E402
from polypath.engines.transformers import TransformersPolicy  # noqa: E402

NOUL = {"type": "noul", "instructions": "Is it urgent?"}
CHOICE = {"type": "choice", "instructions": "Which queue?", "criteria": {"bug": None, "question": "they ask"}}
SCORE = {"type": "score", "instructions": "How angry?", "criteria": ["calm", "cross", "furious"]}
REQUEST = {"model": "jev-latest", "state": "The app crashes.", "questions": {"a": NOUL, "b": CHOICE, "c": SCORE}}


@pytest.fixture(scope="module")
def policy(byte_model):
    return TransformersPolicy.load(byte_model)


class Live:
    """A server in a thread, on a free port."""

    def __init__(self, policy, **settings):
        self.decisions = serve_policy(policy, **settings)
        self.socket = listen("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.server = uvicorn.Server(uvicorn.Config(self.decisions.app, log_level="error"))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]})

    def __enter__(self):
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        self.server.should_exit = True
        self.thread.join()
        self.decisions.batcher.close()


@pytest.fixture(scope="module")
def live(policy):
    with Live(policy, aliases=["gpt-6-luna"]) as server:
        yield server


@pytest.fixture(scope="module")
def locked(policy):
    with Live(policy, token="s3cret", limits=Limits(body_bytes=2000, questions=2)) as server:
        yield server


def post(url, body, path="/v1/systemone", **headers):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return httpx.post(url + path, content=content, headers=headers, timeout=60)


def test_the_server_answers_what_the_readout_answers(live, policy):
    answer = post(live.url, REQUEST).json()
    state, questions = parse_system_one(REQUEST)
    direct = ask(policy, state, questions)
    assert answer["answers"]["a"]["noul"] == pytest.approx(direct["a"].probabilities[0], abs=1e-6)
    found = [answer["answers"]["c"]["probabilities"][str(i)] for i in range(3)]
    np.testing.assert_allclose(found, direct["c"].probabilities, atol=1e-6)
    assert answer["usage"]["input_tokens"] > len(REQUEST["state"])  # one token a byte, and the questions


@pytest.mark.parametrize("key", [None, "s3cret"])
def test_the_conformance_tool_finds_nothing(policy, key):
    runner = pytest.importorskip("jevcompat.runner")
    with Live(policy, token=key or "") as server:
        report = runner.run(server.url, key=key, model="jev-latest", timeout=60)
    assert [(r.id, r.findings) for r in report.results if r.status not in ("pass", "skip")] == []
    assert report.verdict == "conformant" and report.count("MUST", "pass") == 32


def test_the_openai_client_parses_the_answers(live):
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=f"{live.url}/v1", api_key="any", max_retries=0)
    asked = [
        {"type": "predicate", "instructions": "Is it urgent?"},
        {"type": "choice", "instructions": "Ready?", "choices": [{"value": True}, {"value": "later"}]},
        {"type": "score", "instructions": "How angry?", "levels": [{"label": "calm"}, {"label": "furious"}]},
    ]
    messages = [{"role": "user", "content": [{"type": "input_text", "text": "It crashes."}]}]
    found = client.decisions.create(model="gpt-6-luna", input=messages, questions=asked)
    predicate, choice, score = found.answers
    assert 0 <= predicate.probability <= 1
    assert [type(row.value) for row in choice.probabilities] == [bool, str]
    assert sum(row.probability for row in score.probabilities) == pytest.approx(1)
    with pytest.raises(openai.UnprocessableEntityError, match="no question type"):
        client.decisions.create(model="gpt-6-luna", input="x", questions=[{"type": "essay"}])
    with pytest.raises(openai.NotFoundError, match="gpt-6-luna-mini"):
        client.decisions.create(model="gpt-6-luna-mini", input="x", questions=asked)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "no JSON"),
        (b"{", "no JSON"),
        (b"\xff", "UTF-8"),
        (b'{"state": "\\ud800", "questions": {}}', "surrogate"),
        (b'{"state": NaN}', "NaN"),
        (b"[" * 100_000, "flatter"),
        (b"[]", "list"),
        ({**REQUEST, "questions": {}}, "at least one"),
        ({**REQUEST, "state": 3}, "int"),
        ({"questions": {"a": NOUL}}, "no 'state'"),
        ({**REQUEST, "state": "a\x00b"}, "NUL"),
        ({**REQUEST, "questions": {"a": {**CHOICE, "criteria": {"one": None}}}}, "2 to 255"),
        ({**REQUEST, "questions": {"a": {**CHOICE, "criteria": {str(i): None for i in range(256)}}}}, "2 to 255"),
        (b'{"state": "s", "questions": {"a": {"type": "choice", "criteria": {"x": null, "x": null}}}}', "twice"),
        ({**REQUEST, "state": "long " * 5000}, "tokens"),
    ],
)
def test_mistakes_are_422_with_their_place(live, body, told):
    answer = post(live.url, body)
    assert answer.status_code == 422
    (detail,) = answer.json()["detail"]
    assert told in detail["msg"] and detail["loc"][0] == "body"


def test_a_mistake_names_its_question(live):
    (detail,) = post(live.url, {**REQUEST, "questions": {"t": {**SCORE, "criteria": "x"}}}).json()["detail"]
    assert detail["loc"] == ["body", "questions", "t", "criteria"]


def test_limits_and_keys(locked):
    assert httpx.get(f"{locked.url}/health").status_code == 200
    refused = post(locked.url, REQUEST)
    assert refused.status_code == 401 and refused.json()["detail"]["error_type"] == "authentication_error"
    assert httpx.get(f"{locked.url}/v1/models").status_code == 401
    assert post(locked.url, REQUEST, authorization="Bearer s3cre").status_code == 401
    key = {"authorization": "Bearer s3cret"}
    assert post(locked.url, {**REQUEST, "questions": {"a": NOUL}}, **key).status_code == 200
    assert "at most 2" in post(locked.url, REQUEST, **key).json()["detail"][0]["msg"]
    assert post(locked.url, {**REQUEST, "state": "x" * 3000}, **key).status_code == 413
    assert post(locked.url, REQUEST, "/v1/other", **key).status_code == 404
    assert post(locked.url, {**REQUEST, "model": ["x"]}, **key).status_code == 404


def test_models_are_listed_for_both_clients(live):
    body = httpx.get(f"{live.url}/v1/models").json()
    assert body["models"][0]["name"] == body["data"][0]["id"]


def answers_of(state, questions):
    if any(question.instructions == "wrong" for question in questions.values()):
        raise UserError("question", "is wrong", "Mend it.")
    return {key: make_answer(question, np.array([0.0, len(state)])) for key, question in questions.items()}


def test_waiting_requests_about_one_state_share_a_forward():
    gate, calls = threading.Event(), []

    def slow(state, questions):
        calls.append((state, len(questions)))
        gate.wait(10)
        return answers_of(state, questions)

    batcher = Batcher(slow, waiting=5)
    first = batcher.submit("warm", {"q": YesNo("a")})
    while not calls:
        time.sleep(0.001)
    rest = [batcher.submit(state, {"q": YesNo(state)}) for state in ("s", "t", "s", "s")]
    cancelled: Future = batcher.submit("s", {"q": YesNo("never")})
    with pytest.raises(Busy):
        batcher.submit("s", {"q": YesNo("one too many")})
    assert cancelled.cancel()
    gate.set()
    assert [f.result(10)["q"].logits[1] for f in [first, *rest]] == [4, 1, 1, 1, 1]
    batcher.close()
    assert calls == [("warm", 1), ("s", 3), ("t", 1)]


def test_a_mistake_fails_its_own_request_alone():
    gate = threading.Event()

    def slow(state, questions):
        gate.wait(10)
        return answers_of(state, questions)

    batcher = Batcher(slow)
    batcher.submit("warm", {"q": YesNo("a")})
    good, bad = batcher.submit("s", {"q": YesNo("a")}), batcher.submit("s", {"q": YesNo("wrong")})
    gate.set()
    assert good.result(10)["q"].best == 1
    with pytest.raises(UserError, match="is wrong"):
        bad.result(10)
    batcher.close()


def test_an_address_that_is_taken_is_told():
    held = listen("127.0.0.1", 0)
    held.listen()
    with pytest.raises(UserError, match="Choose another --port"):
        listen("127.0.0.1", held.getsockname()[1])
    held.close()


def test_strict_json():
    assert parse_json(b'{"a": [1, "\xc3\xa9"]}') == {"a": [1, "é"]}


def test_the_command_serves_until_interrupted(byte_model):
    port = listen("127.0.0.1", 0)
    number = port.getsockname()[1]
    port.close()
    command = [sys.executable, "-m", "polypath", "decide", "serve", "--model", byte_model, "--port", str(number)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": "src"}) as child:
        try:
            line = child.stderr.readline()
            assert f"http://127.0.0.1:{number}/v1/systemone" in line
            for _ in range(200):
                try:
                    answer = post(f"http://127.0.0.1:{number}", REQUEST)
                    break
                except httpx.ConnectError:
                    time.sleep(0.05)
            assert set(answer.json()["answers"]) == {"a", "b", "c"}
        finally:
            child.send_signal(signal.SIGINT)
        assert child.wait(20) in (0, 130)
        assert "Traceback" not in child.stderr.read()
