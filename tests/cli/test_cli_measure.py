"""`polypath measure` as it is typed: inputs beside the rows, two files, files of every awkward kind."""

from __future__ import annotations

import csv
import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from polypath.cli import main as cli
from polypath.core import registry

RECORDED = Path(cli.__file__).parents[1] / "recordings" / "countdown.jsonl.gz"


def run(*arguments, code=0):
    result = CliRunner().invoke(cli.app, ["measure", *map(str, arguments)])
    assert result.exit_code == code, (result.stderr, result.exception)
    return result


def means(*arguments):
    return json.loads(run(*arguments, "--json").stdout)["means"]


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def rows(tmp_path):
    texts = ["Let x be 3. Add 4 to it.", "Try all numbers. Check each.", "Let x be 3. Add 4 to it.", "Solve it. Wait."]
    forms = ["a", "b", "a", "c"]
    data = [
        {"prompt": p, "text": f"{p}: {t}", "canonical": c, "correct": c != "c", "reward": float(c != "c"), "model": "m"}
        for p in ("p", "q", "r", "s")
        for t, c in zip(texts, forms, strict=True)
    ]
    return write(tmp_path / "rows.jsonl", data)


class Server(BaseHTTPRequestHandler):
    """Groups solutions by their third word and reads the attribute 'start' from it."""

    def do_POST(self):
        prompt = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["messages"][-1]["content"]
        if "Group them" in prompt:
            parts = prompt.split("Solution ")[1:]
            heads = [part.split()[2] for part in parts]
            answer = ", ".join(str(heads.index(head) + 1) for head in heads)
        else:
            answer = "let." if "Let" in prompt.split("Which of")[0] else "something"
        self.server.asked.append(prompt)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"choices": [{"message": {"content": answer}}]}).encode())

    def log_message(self, *_):
        """Nothing."""


@pytest.fixture
def judge(tmp_path, monkeypatch):
    monkeypatch.setenv("POLYPATH_CACHE", str(tmp_path / "cache"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.asked = []
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_every_measure_is_measured_or_says_what_it_needs(rows):
    """Under `-m all`, and by itself: in one line, with the option or column that supplies it."""
    found = json.loads(run(rows, "-m", "all", "--embed", "hash", "--json").stdout)
    told = {reason.split(":")[0].removeprefix("-m ") for reason in found["not_measured"]}
    every = {entry.name for entry in registry.entries("measure")}
    assert told | set(found["signatures"]) == every and not told & set(found["signatures"])
    assert len(told) < len(every) / 2
    for reason in found["not_measured"]:
        assert "\n" not in reason and ("--" in reason or "column" in reason), reason
        name = reason.split(":")[0].removeprefix("-m ")
        assert run(rows, "-m", name, "--embed", "hash", code=2).stderr.strip() == reason


def test_references_known_solutions_and_outcomes(rows, tmp_path):
    data = [json.loads(line) for line in rows.read_text().splitlines()]
    reference = write(tmp_path / "reference.jsonl", [{"text": f"Find {i} and add {i * i}."} for i in range(8)])
    names = ["mmd", "knn_novelty", "frechet_distance", "feature_coverage", "coverage_knn", "novel_sum_against"]
    found = means(rows, *(x for n in names for x in ("-m", n)), "--embed", "hash", "--with", f"reference={reference}")
    assert all(found[name]["n"] == 4 for name in names)
    own = means(rows, "-m", "mmd", "--embed", "hash", "--with", f"reference={rows}")
    assert own["mmd"]["value"] < found["mmd"]["value"]  # the same prompts: compared with their own rows
    known = write(tmp_path / "known.jsonl", [{"prompt": r["prompt"], "solutions": ["a", "b", "d", "e"]} for r in data])
    found = means(rows, "--known", known)
    assert found["coverage"]["value"] == 0.5 and found["solutions"]["value"] == 4
    by_model = means(rows, "--known", known, "--group-by", "model", "-m", "coverage", "-m", "effective_size")
    assert by_model["coverage"]["value"] == 0.5  # 8 of 16: the same form for another prompt is another solution
    assert by_model["effective_size"]["n"] == 0  # all answer alike on every prompt: no correlation
    error = run(rows, "--known", write(tmp_path / "k.jsonl", [{"prompt": "z", "answer": "a"}]), code=2)
    assert "knows none of the prompts" in error.stderr


def test_a_task_knows_its_solutions(tmp_path):
    from polypath.tasks.countdown import Countdown

    prompt = Countdown().prompts("test", n=1)[0]
    forms = sorted(Countdown().solutions(prompt))
    file = write(tmp_path / "r.jsonl", [{"prompt_id": prompt.id, "text": f, "canonical": f} for f in forms[:2]])
    assert means(file, "--known", "countdown")["coverage"]["value"] == pytest.approx(2 / len(forms))
    for name, message in [("countdwn", "Did you mean countdown"), ("human_eval", "not all known")]:
        assert message in run(file, "--known", name, code=2).stderr


def test_a_judge_reads_approaches_and_attributes(rows, judge):
    at = f"judge=http://127.0.0.1:{judge.server_port}/v1#m"
    result = run(rows, "-m", "approach_diversity", "-m", "attribute_entropy", "--with", at, "--with",
                 "attribute.start=let,try", "--json")  # fmt: skip
    found = json.loads(result.stdout)
    # correct: Let, Try, Let -> shares 2/3 and 1/3; Hill 1 = 3 / 4^(1/3)
    assert found["means"]["approach_diversity"]["value"] == pytest.approx(3 / 4 ** (1 / 3))
    # let, other, let, other over two declared values
    assert found["means"]["attribute_entropy"]["value"] == pytest.approx(1.0)
    assert any("evaluation only" in note for note in found["notes"])
    asked = len(judge.asked)
    run(rows, "-m", "approach_diversity", "--with", at)
    assert len(judge.asked) == asked  # from the cache
    assert "needs a judge" in run(rows, "--with", "attribute.start=let,try", code=2).stderr
    assert "two values" in run(rows, "--with", "attribute.start=let", "--with", at, code=2).stderr
    assert "Did you mean judge" in run(rows, "--with", "juge=x", code=2).stderr


def test_two_files_are_paired_and_what_only_one_has_is_counted(rows, tmp_path):
    data = [json.loads(line) for line in rows.read_text().splitlines()]
    other = write(
        tmp_path / "other.jsonl",
        [r | {"text": "a b"} for r in data if r["prompt"] != "p"] + [data[0] | {"prompt": "z"}],
    )
    result = run(rows, other, "-m", "distinct_2", "-m", "self_bleu")
    assert "3 groups are in both and paired; 1 only in" in result.stderr and "distinct_2" in result.stdout
    found = json.loads(run(rows, other, "-m", "distinct_2", "--json", "--seed", 3).stdout)
    assert set(found["unmatched"].values()) == {1}
    difference = next(d for d in found["differences"] if d["metric"] == "distinct_2")
    assert difference["n_prompts"] == 3 and difference["t"]["low"] <= difference["value"] <= difference["t"]["high"]
    assert "compared with itself" in run(rows, rows, code=2).stderr


def test_equal_length_measures_cut_texts_beside_the_whole(tmp_path):
    long = [{"prompt": "p", "text": f"a b c d {'x ' * i}"} for i in range(1, 10)]
    file = write(tmp_path / "r.jsonl", [*long, {"prompt": "p", "text": "a"}])
    result = run(file, "-m", "distinct_1", "-m", "distinct_routes", "--equal-length", "--json")
    found = json.loads(result.stdout)
    assert found["common_length"] == 5  # nine of ten texts have at least 5 words
    # nine texts a b c d x: 5 of 45 different; in full 5 of 36 + 45 + 1
    assert found["means"]["distinct_1@5"]["value"] == pytest.approx(5 / 45)
    assert found["means"]["distinct_1"]["value"] == pytest.approx(5 / 82)
    assert any("1 shorter texts are left out" in note for note in found["notes"])
    empty = write(tmp_path / "e.jsonl", [{"prompt": "p", "text": ""}] * 3)
    assert "no common length" in run(empty, "--equal-length", code=2).stderr


def test_tables_are_written(rows, tmp_path):
    pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    for ending in ("json", "csv", "parquet"):
        run(rows, "-m", "distinct_2", "-m", "hdd", "--out", tmp_path / f"t.{ending}")
    with (tmp_path / "t.csv").open() as file:
        table = list(csv.DictReader(file))
    assert len(table) == 4 and float(table[0]["distinct_2"]) > 0 and table[0]["hdd"] == ""
    assert parquet.read_table(tmp_path / "t.parquet").column("hdd").null_count == 4
    found = json.loads((tmp_path / "t.json").read_text())
    assert found["means"]["distinct_2"]["n"] == 4 and len(found["rows"]) == 4 and found["signatures"]["distinct_2"]
    assert "ending" in run(rows, "--out", tmp_path / "t.xlsx", code=2).stderr
    assert "cannot be written" in run(rows, "--out", tmp_path / "no" / "t.csv", code=2).stderr


def test_texts_are_embedded_once(rows, monkeypatch):
    from polypath.evaluate import selection

    seen = []
    original = selection.hashed
    monkeypatch.setattr(selection, "hashed", lambda texts: (seen.extend(texts), original(texts))[1])
    run(rows, "-m", "vendi", "-m", "chamfer", "-m", "internal_diversity", "--embed", "hash")
    assert len(seen) == len(set(seen)) == 12  # of 16 texts


def test_undefined_rewards_and_verdicts_are_nan_with_n(tmp_path):
    data = [
        {"step": 1, "prompt": "p", "completion": t, "acc": a, "fmt": None, "advantage": 0.0}
        for t, a in (("x", None), ("y", None))
    ]
    found = means(write(tmp_path / "trl.jsonl", data), "-m", "vendi_quality", "-m", "vendi", "--embed", "hash")
    assert found["vendi_quality"]["n"] == 0 and found["reward"]["n"] == 0 and found["vendi"]["n"] == 1
    data = [
        {"prompt": p, "text": t, "correct": c} for p, t, c in (("p", "a", True), ("p", "b", None), ("q", "c", False))
    ]
    found = means(write(tmp_path / "v.jsonl", data), "-m", "pass_at_k")
    assert found["pass_at_k"] == {"value": 0.0, "low": None, "high": None, "n": 1}


UGLY = {
    "bom.csv": ("\ufeffprompt,text\np,a b\np,b c\n", {"samples": 2}),
    "semicolons.csv": ("prompt;text;reward\np;a, b;1\np;b;0\n", {"samples": 2, "reward": 0.5}),
    "tabs.csv": ("prompt\ttext\np\ta\np\tb\n", {"samples": 2}),
    "one.jsonl": ('{"prompt": "p", "text": "only one"}\n', {"samples": 1}),
    "separators.jsonl": ('{"prompt": "p", "text": "a\u2028b\u2029c\x85d"}\n', {"samples": 1, "words": 4}),
    "lines.csv": ('prompt,text\np,"a\u2028b\x0bc"\np,"x\ny"\n', {"samples": 2, "words": 2.5}),
    "old.csv": ("prompt,text\rp,a\rp,b\r", {"samples": 2}),
    "nan.csv": ("prompt,text,reward,correct\np,a,NaN,nan\np,b,1,true\n", {"reward": None}),
    "chat.jsonl": ('{"prompt": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}], "completion": '
                   '[{"role": "assistant", "content": "x y"}]}\n', {"words": 2}),
    "big.jsonl": ('{"prompt_id": 123456789012345678901234567890, "text": "a"}\n', {"samples": 1}),
    "empty.jsonl": ('{"prompt": "p", "text": ""}\n{"prompt": "p", "text": " "}\n', {"words": 0}),
    "utf16.csv": ("prompt,text\np,caf\u00e9\n".encode("utf-16"), {"characters": 4}),
    "rows.csv.gz": (gzip.compress(b"prompt,text\np,a b\n"), {"words": 2}),
}  # fmt: skip


@pytest.mark.parametrize("name", UGLY)
def test_ugly_files_are_read(name, tmp_path):
    content, expected = UGLY[name]
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    found = means(tmp_path / name, "-m", "distinct_1")
    assert {key: found[key]["value"] for key in expected} == expected
    (tmp_path / "within").mkdir()
    (tmp_path / name).rename(tmp_path / "within" / name)
    assert means(tmp_path / "within", "-m", "distinct_1")["samples"] == found["samples"]


BROKEN = {
    "twice.csv": ("prompt,text,text\np,a,b\n", "twice.csv:1: has two columns named 'text'"),
    "open.csv": ('prompt,text\np,"a\nq,b\n', "is not CSV (unexpected end of data)"),
    "none.csv": ("", "has no rows"),
    "header.csv": ("prompt,text\n", "has no rows"),
    "huge.jsonl": ('{"prompt": "p", "text": "a", "reward": 1' + "0" * 400 + "}\n", "holds a number above 1.8e308"),
    "step.jsonl": ('{"prompt": "p", "text": "a", "step": "inf"}\n', "expects a whole number, got inf"),
    "latin.csv": ("prompt,text\np,café\n".encode("latin-1"), "is not UTF-8 text"),
    "fake.jsonl.gz": ('{"prompt": "p", "text": "a"}\n', "is no whole gzip file"),
}
VECTORS = {
    "mixed": ([[1, 2], [1, 2, 3]], "column embedding: holds rows of different length"),
    "nan": ([[1, float("nan")], [1, 2]], "embeddings[0]: is not finite"),
    "zero": ([[0, 0], [1, 2]], "embeddings[0]: is zero and has no direction"),
    "null": ([None, [1, 2]], "column embedding: does not hold lists of numbers in each row"),
    "words": ([["a", "b"], ["c", "d"]], "column embedding: holds what is no number"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_say_what_is_wrong(name, tmp_path):
    content, message = BROKEN[name]
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert message in run(tmp_path / name, code=2).stderr


@pytest.mark.parametrize("name", VECTORS)
def test_bad_vectors_name_their_group(name, tmp_path):
    vectors, message = VECTORS[name]
    file = write(tmp_path / "r.jsonl", [{"prompt_id": "p", "text": "a", "embedding": v} for v in vectors])
    assert f"-m vendi, prompt p: {message}" in run(file, "-m", "vendi", code=2).stderr


def test_a_kernel_that_is_not_psd_warns(tmp_path):
    rows = [[1, 0.9, 0], [0.9, 1, 0.9], [0, 0.9, 1]]
    file = write(tmp_path / "r.jsonl", [{"prompt": "p", "text": "a", "similarity": row} for row in rows])
    with pytest.warns(UserWarning, match="not positive semi-definite"):
        run(file, "-m", "vendi_of_kernel")


def test_a_recorded_study_is_read_by_arm():
    found = json.loads(run(RECORDED, "--group-by", "arm", "-m", "coverage", "-m", "distinct_correct", "--json").stdout)
    assert found["groups"] == 4 and 0 < found["means"]["coverage"]["value"] < 1
