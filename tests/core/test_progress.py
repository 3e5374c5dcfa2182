"""Progress is quiet where nobody looks, alive while the caller is busy, and never on stdout."""

import io
import threading

import pytest

from polypath.core.progress import Progress


class Stream(io.StringIO):
    """A stream that says whether it is a terminal and can be waited on."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal, self.written = terminal, threading.Event()

    def isatty(self) -> bool:
        return self.terminal

    def write(self, text: str) -> int:
        self.written.set()
        return super().write(text)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def no_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)


def test_lines_elsewhere_come_once_per_interval() -> None:
    stream, clock = Stream(terminal=False), Clock()
    with Progress(8, "train", stream=stream, interval=100.0, clock=clock) as progress:
        for step in range(4):
            clock.now += 60
            progress.update(reward=step / 8, kind="rl")
    # at 60 s nothing is due, at 120 s it is, at 180 s not, at 240 s it is; closing shows the end
    assert stream.getvalue().splitlines() == [
        "train | 2/8 25% | reward 0.125 | kind rl | 2:00 | eta 6:00",
        "train | 4/8 50% | reward 0.375 | kind rl | 4:00 | eta 4:00",
        "train | 4/8 50% | reward 0.375 | kind rl | 4:00 | eta 4:00",
    ]


def test_a_terminal_gets_one_line_that_is_redrawn() -> None:
    stream, clock = Stream(terminal=True), Clock()
    with Progress(2, "train", stream=stream, clock=clock) as progress:
        clock.now = 5
        progress.update()
        progress.note("saved")
    lines = stream.getvalue().split("\r\x1b[2K")
    assert lines == ["", "train | 1/2 50% | 0:05 | eta 0:05", "saved\n", "train | 1/2 50% | 0:05 | eta 0:05\n"]


def test_ci_counts_as_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    stream = Stream(terminal=True)
    Progress(2, "train", stream=stream).close()
    assert stream.getvalue() == "train | 0/2 0% | 0:00\n"


def test_a_long_phase_shows_a_heartbeat_while_the_caller_is_busy() -> None:
    stream, clock = Stream(terminal=False), Clock()
    with Progress(None, "train", stream=stream, interval=0.01, clock=clock) as progress:
        with progress.phase("loading model"):
            assert stream.getvalue() == "train | loading model 0 s | 0:00\n"
            clock.now = 12
            stream.written.clear()
            assert stream.written.wait(5)
        assert "train | loading model 12 s | 0:12" in stream.getvalue()
        assert "loading" not in progress.line()


def test_time_left_counts_only_what_this_process_has_done() -> None:
    clock = Clock()
    progress = Progress(10, "train", start=6, enabled=False, clock=clock)
    clock.now = 20
    progress.update(2)
    assert progress.line() == "train | 8/10 80% | 0:20 | eta 0:20"  # 10 s each, two to go


def test_disabled_progress_writes_nothing_and_starts_no_thread(capsys: pytest.CaptureFixture[str]) -> None:
    threads = threading.active_count()
    with Progress(1, "train", enabled=False) as progress:
        assert threading.active_count() == threads
        with progress.phase("loading"):
            progress.update()
        progress.note("hello")
    assert capsys.readouterr() == ("", "")


def test_stdout_stays_clean(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(1, "train") as progress:
        progress.update()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "train | 1/1 100% | 0:00\n"


def test_a_closed_stream_stops_the_display_and_not_the_run() -> None:
    stream = Stream(terminal=False)
    with Progress(2, "train", stream=stream, interval=0.0, clock=Clock()) as progress:
        stream.close()
        progress.update()
        progress.update()
    assert progress.done == 2
