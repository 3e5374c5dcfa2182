import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from polypath.tasks import sandbox
from polypath.tasks.sandbox import run_python

CHILD = Path(sandbox.__file__).with_name("sandbox_child.py")


@pytest.mark.parametrize(
    ("source", "status", "detail"),
    [
        ("x = 1 + 1\nassert x == 2", "ok", ""),
        ("print('hello')\nimport sys; print('x', file=sys.stderr)", "ok", ""),
        ("for _ in range(2000): print('flood' * 1000)", "ok", ""),
        ("assert 'ä' + '日本' == 'ä日本'; print('日本 🎲')", "ok", ""),
        ("import math, typing, collections, re, hashlib, threading, decimal, random", "ok", ""),
        ("assert 1 == 2, 'not equal'", "failed", "AssertionError: not equal"),
        ("def f(:\n  pass", "failed", "SyntaxError"),
        ("x = '\\0'\nraise ValueError('日本')", "failed", "ValueError: 日本"),
        ("class E(Exception):\n  def __str__(self): raise SystemExit\nraise E()", "failed", "E: (no message)"),
        ("def f(): return f()\nf()", "failed", "RecursionError"),
        ("import sys; sys.exit(0)", "failed", "SystemExit"),
        ("import os; os._exit(0)", "crash", "exited with code 0 before"),
        ("input()", "failed", "EOFError"),
        ("x = bytearray(4 * 2**30)", "memory", "out of memory"),
        ("x = []\nwhile True: x.append('y' * 10**6)", "memory", "out of memory"),
        ("import os\nos.fork()", "failed", "os.fork is not allowed"),
        ("import subprocess; subprocess.run(['true'])", "failed", "not allowed"),
        ("import os; os.system('true')", "failed", "os.system is not allowed"),
        ("import socket; socket.socket()", "failed", "socket"),
        ("import urllib.request; urllib.request.urlopen('http://127.0.0.1:1')", "failed", "not allowed"),
        ("import os; os.kill(os.getppid(), 0)", "failed", "os.kill is not allowed"),
        ("import os; os.killpg(os.getpgrp(), 0)", "failed", "os.killpg is not allowed"),
        ("import ctypes; ctypes.CDLL(None)", "failed", "not allowed"),
        ("import os; assert not os.environ.get('HOME') and not os.environ.get('PATH')", "ok", ""),
        ("open('mine.txt', 'w').write('x'); assert open('mine.txt').read() == 'x'", "ok", ""),
        ("open('big', 'wb').write(b'x' * 2**22)", "failed", "OSError"),
        ("import os; os.write(3, b'{}'); os.write(4, b'{}'); os.write(5, b'{}')", "failed", ""),
        ("import polypath", "failed", "ModuleNotFoundError"),
    ],
)
def test_how_programs_end(source, status, detail):
    result = run_python(source, seconds=20)
    assert result.status == status, result
    assert detail in result.detail
    assert result.passed == (status == "ok")


@pytest.mark.parametrize(
    "source",
    ["while True: pass", "import time; time.sleep(60)", "import threading\nwhile True: threading.Event().wait(1)"],
)
def test_endless_programs_are_stopped_in_time(source):
    started = time.monotonic()
    result = run_python(source, seconds=0.7)
    assert result.status == "timeout"
    assert time.monotonic() - started < 5


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_program_that_left_its_session_dies_with_the_sandbox(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # its working directory identifies the program
    source = "import os, time\ntry: os.setsid()\nexcept OSError: pass\ntime.sleep(60)"
    assert run_python(source, seconds=0.7).status == "timeout"
    deadline = time.monotonic() + 5
    while _living_in(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert _living_in(tmp_path) == []


def _living_in(directory):
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(process.joinpath("cwd").readlink()).startswith(str(directory)):
                found.append(process.name)
    return found


def test_the_directory_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert run_python("open('left', 'w')", seconds=20).passed
    assert list(tmp_path.iterdir()) == []


def test_a_forged_report_does_not_pass():
    source = 'import os\nfor fd in range(3, 20):\n  try: os.write(fd, b\'{"status": "ok", "detail": ""}\')\n'
    result = run_python(source + "  except OSError: pass\nos._exit(0)")
    assert result.status == "crash"


# Every destructive attempt below aims at a folder that the test made, so that a hole in the sandbox costs nothing.
ATTEMPTS = {
    "write": "open(f'{victim}/new', 'w')",
    "append": "open(f'{victim}/deep/file', 'a').write('x')",
    "truncate": "os.truncate(f'{victim}/deep/file', 0)",
    "remove": "os.remove(f'{victim}/deep/file')",
    "relative": "os.remove(os.path.relpath(f'{victim}/deep/file'))",
    "rename": "os.rename(f'{victim}/deep/file', 'taken')",
    "link": "os.symlink(victim, 'way'); os.remove('way/deep/file')",
    "tree": "shutil.rmtree(victim)",
    "descriptor": "d = os.open(f'{victim}/deep', os.O_RDONLY); os.unlink('file', dir_fd=d)",
    "descriptor_write": "d = os.open(f'{victim}/deep', os.O_RDONLY); os.open('file', os.O_RDWR | os.O_TRUNC, dir_fd=d)",
    "mode": "os.chmod(f'{victim}/deep/file', 0)",
}
CALL_MODE_ONLY = ("mode",)  # Landlock does not cover changes of mode: there the hook is alone


def _victim(tmp_path):
    file = tmp_path / "victim" / "deep" / "file"
    file.parent.mkdir(parents=True)
    file.write_text("precious")
    file.chmod(0o644)
    return file


def _untouched(file):
    assert file.read_text() == "precious"
    assert file.stat().st_mode & 0o777 == 0o644
    assert [p.name for p in file.parent.parent.rglob("*")] == ["deep", "file"]


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_files_outside_are_safe(attempt, tmp_path):
    file = _victim(tmp_path)
    result = run_python(f"import os, shutil\nvictim = {str(tmp_path / 'victim')!r}\n{ATTEMPTS[attempt]}", seconds=20)
    assert (result.status, result.detail.split(":")[0]) == ("failed", "PermissionError")
    _untouched(file)


@pytest.mark.parametrize("layer", ["restrict_writes", "guard"])
def test_each_layer_alone_keeps_files_outside_safe(layer, tmp_path):
    file = _victim(tmp_path)
    home = tmp_path / "home"
    home.mkdir()
    tried = {n: a for n, a in ATTEMPTS.items() if layer == "guard" or n not in CALL_MODE_ONLY}
    script = f"""
import os, runpy, shutil, sys
child = runpy.run_path({str(CHILD)!r})
victim = {str(tmp_path / "victim")!r}
if child[{layer!r}]({str(home)!r}) is False: sys.exit(3)
allowed = []
for name, code in {tried!r}.items():
    try: exec(code)
    except PermissionError: continue
    allowed.append(name)
sys.exit(str(allowed) if allowed else 0)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=home, capture_output=True, text=True, check=False)
    if done.returncode == 3:
        pytest.skip("this kernel has no Landlock")
    assert (done.returncode, done.stderr) == (0, "")
    _untouched(file)


def test_its_own_directory_can_be_used():
    source = """
import os, shutil
os.makedirs('a/b'); open('a/b/c', 'w').write('x'); os.rename('a/b/c', 'a/d')
assert sorted(os.listdir('a')) == ['b', 'd']
os.chmod('a/d', 0o600); shutil.copy('a/d', 'e'); shutil.rmtree('a'); os.remove('e'); open(os.devnull, 'w').write('x')
assert os.listdir('.') == []
"""
    assert run_python(source, seconds=20).passed


def test_the_user_process_cannot_be_signalled(tmp_path):
    ask = "try: os.kill({pid}, 0)\nexcept PermissionError: os._exit(0)\nos._exit(1)"
    victim = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"])
    try:
        result = run_python(f"import os, signal; os.kill({victim.pid}, signal.SIGKILL)", seconds=20)
        assert result.status == "failed"
        restrict = f"import os, runpy; runpy.run_path({str(CHILD)!r})['restrict_writes'](os.getcwd())\n"
        code = restrict + ask.format(pid=victim.pid)
        alone = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False)
        assert alone.returncode == 0 or not _scopes_signals()
        assert victim.poll() is None
    finally:
        victim.kill()
        victim.wait()


def _scopes_signals():
    """Whether this kernel's Landlock covers signals (Linux 6.12)."""
    return sys.platform == "linux" and tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 12)
