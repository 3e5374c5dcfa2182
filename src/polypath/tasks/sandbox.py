"""Run generated Python in a subprocess with limits on time, memory, files, processes and the network.

What holds: the candidate runs in its own session below a small supervisor, so nothing it signals is the user's
process; wall time is limited from outside and the whole group is killed; memory, CPU time and file size are limited by
the kernel. On Linux the kernel also refuses writes outside its temporary directory and program starts (Landlock, where
it is enabled), and gives it an empty network and process table (where that is permitted). Everywhere an audit hook
forbids sockets, subprocesses, signals and writes outside. The environment is empty, stdin is closed, output is
discarded. Reading files is not restricted. It protects from generated code that is careless, not from code written to
break out of the interpreter: run that in a virtual machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from polypath.core.errors import UserError

Status = Literal["ok", "failed", "timeout", "memory", "crash"]
_CHILD = Path(__file__).with_name("sandbox_child.py")


@dataclass(frozen=True)
class SandboxResult:
    """How a program ended. `ok`: it ran to its end; `failed`: it raised; `crash`: it died without a report."""

    status: Status
    detail: str = ""

    @property
    def passed(self) -> bool:
        """Whether the program ran to its end without an exception."""
        return self.status == "ok"


def run_python(source: str, *, seconds: float = 5.0, memory_mb: int = 512, file_mb: int = 1) -> SandboxResult:
    """Run `source` as a program; never raises for what the program does.

    `seconds` is wall time including the interpreter's start. Raises UserError where there is no POSIX process control.
    """
    if os.name != "posix":
        raise UserError("sandbox", "generated code is only run on Linux and macOS", "Use another task or machine.")
    nonce = secrets.token_hex(16)  # proves that a report comes from the end of the run, not from a premature exit
    job = {"source": source, "nonce": nonce, "seconds": seconds, "memory_mb": memory_mb, "file_mb": file_mb}
    with tempfile.TemporaryDirectory(prefix="polypath-", ignore_cleanup_errors=True) as directory:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-X", "utf8", str(_CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=directory,
            env={},
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(json.dumps(job).encode(), timeout=seconds)
        except subprocess.TimeoutExpired:
            return SandboxResult("timeout", f"took longer than {seconds:g} s")
        finally:
            _kill_group(process)
    return _judge(output, nonce)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """End every process of the session that may be left, and collect the supervisor."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def _judge(output: bytes, nonce: str) -> SandboxResult:
    """Read the supervisor's report."""
    try:
        outer = json.loads(output)
        code = outer["code"]
    except (ValueError, TypeError, KeyError):
        return SandboxResult("crash", "the sandbox ended without a report")
    try:
        report = json.loads(outer["report"])
        if report["nonce"] == nonce:
            return SandboxResult(report["status"], report["detail"])
    except (ValueError, TypeError, KeyError):
        pass
    if code == -signal.SIGXCPU:
        return SandboxResult("timeout", "used up its CPU time")
    how = f"was killed by signal {-code}" if code < 0 else f"exited with code {code} before its end"
    return SandboxResult("crash", f"the program {how}")
