"""Rows survive kills, full disks and strange values."""

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import group

from polypath.core.errors import UserError
from polypath.core.files import JsonlWriter, TornLineWarning, atomic_write, read_jsonl, to_json
from polypath.core.record import Rollout
from polypath.core.store import (
    RolloutWriter,
    from_parquet,
    read_rollouts,
    to_parquet,
    truncate_to,
    write_parquet,
)


def rows(rollouts: list[Rollout]) -> list[str]:
    """Rows as text, in which NaN equals NaN and the order of keys does not count."""
    return [json.dumps(rollout.to_row(), sort_keys=True) for rollout in rollouts]


def test_rows_come_back_as_they_went(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    full = Rollout(
        "p", "g", 0, "half a pair \ud83d, \x00, \u0085 and \r\n", prompt="née", step=2, prompt_ids=[1], ids=[2, 3],
        logp_sampling=[-0.5, -math.inf], status="truncated", rewards={"a": math.nan, "b": math.inf, "c": -math.inf},
        correct=False, answer="7", canonical="7", context={"id": 1, "kind": "role"}, source={"name": "me"},
        fork_pos=0, forced_mask=[0, 1], spans={"plan": [0, 1]}, keep=False, drop_reason="short",
        tokens={"generated": 2}, seed=2**62, advantage=-0.25, extra={"their": {"deep": [1, None]}},
    )  # fmt: skip
    with RolloutWriter(path) as writer:
        writer.write([full])
        writer.write(group(0))
    assert rows(read_rollouts(path)) == rows([full, *group(0)])


def test_the_lines_are_strict_json() -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    line = to_json({"nan": math.nan, "inf": [math.inf, -math.inf], "deep": {"x": (1, math.nan)}, "ok": 0.1})
    assert json.loads(line, parse_constant=refuse) == {
        "nan": None,
        "inf": ["inf", "-inf"],
        "deep": {"x": [1, None]},
        "ok": 0.1,
    }


def test_arrays_are_written_as_lists() -> None:
    numpy = pytest.importorskip("numpy")
    assert to_json({"a": numpy.array([1.0, numpy.nan]), "b": numpy.float32(0.5)}) == '{"a":[1.0,null],"b":0.5}'


PROGRAM = """
import os, signal, sys
from polypath.core.store import RolloutWriter
sys.path.insert(0, sys.argv[1])
from rows import group
write, left = os.write, 2  # the third write is torn after argv[3] bytes
def torn(fd, data):
    global left
    if left == 0:
        write(fd, data[: int(sys.argv[3])])
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    return write(fd, data)
os.write = torn
with RolloutWriter(sys.argv[2]) as writer:
    for step in range(9):
        writer.write(group(step))
"""
LINE = len(to_json(group(2)[0].to_row()).encode()) + 1


@pytest.mark.parametrize(
    ("cut", "whole", "torn"),
    [
        (0, 6, False),  # nothing of the third group has been written
        (LINE // 2, 6, True),  # in its first line
        (LINE, 7, False),  # exactly between two lines
        (2 * LINE + 9, 8, True),  # in its last line
        (3 * LINE - 1, 9, False),  # all of it but the last line break
    ],
)
def test_a_kill_while_writing_loses_one_line_at_most_and_the_run_continues(
    tmp_path: Path, cut: int, whole: int, torn: bool, recwarn: pytest.WarningsRecorder
) -> None:
    path, uninterrupted = tmp_path / "killed.jsonl", tmp_path / "whole.jsonl"
    command = [sys.executable, "-c", PROGRAM, str(Path(__file__).parent), str(path), str(cut)]
    assert subprocess.run(command).returncode == -signal.SIGKILL

    everything = [rollout for step in range(9) for rollout in group(step)]
    assert rows(read_rollouts(path)) == rows(everything[:whole])
    assert [w.category for w in recwarn] == [TornLineWarning] * torn

    # What resuming does: back to the last whole step, and on from there.
    recwarn.clear()
    assert truncate_to(path, 2) == whole - 6
    for target, steps in ((path, range(2, 9)), (uninterrupted, range(9))):
        with RolloutWriter(target) as writer:
            for step in steps:
                writer.write(group(step))
    assert path.read_bytes() == uninterrupted.read_bytes()


def test_a_writer_mends_a_torn_file_before_it_appends(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    for tail, count in (('{"a": "' + "x" * 100_000, 1), ('{"a": 1}', 2), ("\x00" * 10, 1)):
        path.write_text('{"a": 0}\n' + tail)
        with JsonlWriter(path) as writer:
            writer.write([{"a": 9}])
        found = read_jsonl(path)
        assert (len(found), found[-1]) == (count + 1, {"a": 9})
    path.write_text("torn from the start")
    JsonlWriter(path).close()
    assert path.read_bytes() == b""


@pytest.mark.parametrize("bad", ["{oops", "[1]", "\x00\x00", '{"a": 1'])
def test_a_bad_line_in_the_middle_is_an_error_with_its_line(tmp_path: Path, bad: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(f'{{"a": 0}}\n\n{bad}\n{{"a": 1}}\n')
    with pytest.raises(UserError, match=r"r\.jsonl:3: is not a JSON object"):
        read_jsonl(path)


def test_rows_that_are_not_rollouts(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"prompt_id": "p", "text": "t"}\n')
    with pytest.raises(UserError, match=r"r\.jsonl:1: is not a rollout: no column group_id, index"):
        read_rollouts(path)
    path.write_text('{"prompt_id": "p", "group_id": "g", "index": 0, "text": "t", "schema": 99}\n')
    with pytest.raises(UserError, match=r"schema version 99.*pip install --upgrade"):
        read_rollouts(path)
    with pytest.raises(UserError, match="cannot be read"):
        read_rollouts(tmp_path / "gone.jsonl")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_a_user_error_that_names_the_file() -> None:
    writer = RolloutWriter("/dev/full")
    with pytest.raises(UserError, match=r"/dev/full: the disk is full.*Free some space"):
        writer.write(group(0))
    writer.close()


def test_a_disk_that_fills_half_way_keeps_what_was_there(tmp_path: Path) -> None:
    """A file size limit of the system stands for the disk: the write stops in the middle of the second group."""
    path = tmp_path / "r.jsonl"
    program = """
import errno, resource, signal, sys
sys.path.insert(0, sys.argv[1])
from polypath.core import files
from polypath.core.errors import UserError
from polypath.core.store import RolloutWriter
from rows import group
files._FULL = (errno.EFBIG,)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
writer = RolloutWriter(sys.argv[2])
writer.write(group(0))
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)
try:
    writer.write(group(1))
except UserError as error:
    print(error)
"""
    command = [sys.executable, "-c", program, str(Path(__file__).parent), str(path), str(LINE * 4 + 5)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.startswith(f"{path}: the disk is full; what was written before is intact.")
    assert rows(read_rollouts(path)) == rows(group(0))  # no torn line, so no warning either


def test_an_atomic_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    atomic_write(path, "old")
    (tmp_path / ".state.json.tmp").mkdir()  # the temporary file cannot be written
    with pytest.raises(OSError):
        atomic_write(path, "new")
    assert path.read_text() == "old"


def test_truncating_drops_later_steps_only(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    assert truncate_to(path, 0) == 0
    with RolloutWriter(path) as writer:
        for step in (0, 2, 1):
            writer.write(group(step))
    before = path.read_bytes().splitlines(keepends=True)
    assert truncate_to(path, 2) == 3
    assert path.read_bytes() == b"".join(before[:3] + before[6:])


JSON = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text()
ROLLOUTS = st.builds(
    Rollout,
    prompt_id=st.text(),
    group_id=st.text(),
    index=st.integers(0, 99),
    text=st.text(),
    step=st.integers(0, 9),
    ids=st.lists(st.integers(0, 9)),
    logp_sampling=st.none() | st.lists(st.floats(max_value=0, allow_nan=False)),
    rewards=st.dictionaries(st.sampled_from(["a", "b", "c"]), st.floats()),
    correct=st.none() | st.booleans(),
    answer=st.none() | st.text(),
    context=st.none() | st.fixed_dictionaries({"id": st.integers(0, 9), "level": st.text()}),
    spans=st.none() | st.dictionaries(st.sampled_from(["plan", "code"]), st.lists(st.integers(0, 9)), min_size=1),
    tokens=st.dictionaries(st.sampled_from(["generated", "reused"]), st.integers(0, 99)),
    seed=st.none() | st.integers(0, 2**63 - 1),
    extra=st.dictionaries(st.sampled_from(["x", "y"]), JSON.filter(lambda v: v is not None) | st.lists(JSON)),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(ROLLOUTS, min_size=1, max_size=4))
def test_jsonl_and_parquet_keep_every_row(tmp_path_factory: pytest.TempPathFactory, rollouts: list[Rollout]) -> None:
    pytest.importorskip("pyarrow")
    folder = tmp_path_factory.mktemp("rows")
    with RolloutWriter(folder / "r.jsonl") as writer:
        writer.write(rollouts)
    to_parquet(folder / "r.jsonl", folder / "r.parquet")
    read = read_rollouts(folder / "r.jsonl")
    for rollout in rollouts:  # an infinity in a column of somebody else's stays the text that JSON has for it
        rollout.extra = json.loads(to_json(rollout.extra))
    assert rows(read) == rows(rollouts)
    assert rows(from_parquet(folder / "r.parquet")) == rows(rollouts)


def test_parquet_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "r.parquet"
    write_parquet(group(0), path)
    pq.write_table(pq.read_table(path).replace_schema_metadata({"polypath.schema": "99"}), path)
    with pytest.raises(UserError, match="schema version 99"):
        from_parquet(path)
    path.write_text("not parquet")
    with pytest.raises(UserError, match="cannot be read as Parquet"):
        from_parquet(path)
