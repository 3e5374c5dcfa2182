"""Recordings are small, exact and reproducible; the demo needs no heavy package."""

import gzip
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from polypath.core.errors import UserError
from polypath.evaluate.runs import find_runs, load_run
from polypath.report.demo import demo
from polypath.report.recording import load_recording, save_recording

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def runs(study):
    return [load_run(path) for path in find_runs([study])]


@pytest.fixture(scope="module")
def recording(runs, tmp_path_factory):
    path = tmp_path_factory.mktemp("recording") / "made.jsonl.gz"
    return save_recording(runs, path, title="Made", baseline="grpo", pairs=[("grpo", "start"), ("rarity 1", "grpo")])


def test_every_number_is_computed_again_from_the_counts(runs, recording):
    loaded = load_recording(recording)
    assert [(r.arm, r.seed) for r in loaded.runs] == [(r.arm, r.seed) for r in runs]
    for was, now in zip(runs, loaded.runs, strict=True):
        assert now.summary.prompt_ids == was.summary.prompt_ids and now.trained_tokens == was.trained_tokens
        assert now.summary.table.keys() == was.summary.table.keys()
        for name, column in was.summary.table.items():
            assert np.allclose(now.summary[name], column, atol=1e-5, equal_nan=True), name


def test_a_recording_is_compact_and_reproducible(runs, recording, tmp_path):
    again = save_recording(
        runs,
        tmp_path / "other.jsonl.gz",
        title="Made",
        baseline="grpo",
        pairs=[("grpo", "start"), ("rarity 1", "grpo")],
    )
    assert again.read_bytes() == recording.read_bytes()
    assert recording.stat().st_size < 60_000


def test_the_demo_shows_the_table_the_page_and_what_is_next(recording, tmp_path):
    shown = demo(tmp_path / "report.html", recording=recording)
    assert shown.text.startswith("Made\n") and "grpo - start" in shown.text and "rarity 1 - grpo" in shown.text
    assert shown.text.count("\n  polypath ") == 2
    html = shown.page.read_text(encoding="utf-8")
    assert 'id="frontier"' in html and 'id="groups"' in html and 'id="curve-correct"' in html


def test_the_demo_imports_nothing_heavy(recording, tmp_path):
    code = (
        "import sys; from pathlib import Path; from polypath.report.demo import demo; "
        f"demo(Path({str(tmp_path / 'r.html')!r}), recording=Path({str(recording)!r})); "
        "heavy = ('torch', 'transformers', 'scipy', 'matplotlib', 'pandas', 'jinja2', 'pyarrow'); "
        "print([name for name in heavy if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_bad_recordings_are_named(tmp_path):
    damaged = tmp_path / "x.jsonl.gz"
    damaged.write_bytes(b"nothing")
    with pytest.raises(UserError, match="is not a recording"):
        load_recording(damaged)
    newer = tmp_path / "y.jsonl.gz"
    newer.write_bytes(gzip.compress(b'{"version": 99}\n{"groups": []}\n'))
    with pytest.raises(UserError, match="newer polypath"):
        load_recording(newer)


def test_runs_of_other_prompts_cannot_be_recorded_together(runs, tmp_path):
    from dataclasses import replace

    other = replace(runs[1].summary, prompt_ids=tuple(f"x{p}" for p in runs[1].summary.prompt_ids))
    with pytest.raises(UserError, match="other prompts"):
        save_recording([runs[0], replace(runs[1], summary=other)], tmp_path / "z.gz", title="")


def test_the_script_records_a_study(study, tmp_path, monkeypatch, capsys):
    output = tmp_path / "out.jsonl.gz"
    monkeypatch.setattr(sys, "argv", ["record_demo.py", str(study), "--output", str(output), "--pair", "grpo=start"])
    with pytest.raises(SystemExit) as done:
        runpy.run_path(str(ROOT / "scripts" / "record_demo.py"), run_name="__main__")
    assert done.value.code == 0 and "9 runs" in capsys.readouterr().out
    assert load_recording(output).pairs == [("grpo", "start")]
