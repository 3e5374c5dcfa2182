"""The inner side of the sandbox: run as a script by `sandbox.run_python`, never imported by it.

Two processes: this one reads the job from stdin, forks, waits and reports; the fork gives up what it can, runs the
candidate and hands its verdict over through a pipe. So the candidate's parent is never the user's process.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import struct
import sys
from typing import Any

NEW_NETWORK, NEW_PROCESSES, NEW_IPC, NEW_USER = 0x40000000, 0x20000000, 0x08000000, 0x10000000
PARENT_DEATH_SIGNAL = 1
REPORT_BYTES = 8192
FORBIDDEN = (
    "ctypes.",
    "os.chdir",
    "os.exec",
    "os.fork",
    "os.kill",
    "os.posix_spawn",
    "os.spawn",
    "os.startfile",
    "os.system",
    "pty.",
    "shutil.chown",
    "signal.pthread_kill",
    "socket.",
    "subprocess.",
    "syslog.",
)
INSIDE_ONLY = (
    "os.chmod",
    "os.chown",
    "os.link",
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.symlink",
    "os.truncate",
    "os.utime",
    "os.setxattr",
    "os.removexattr",
)

# Landlock (linux/landlock.h): the system calls have these numbers on every architecture
CREATE_RULESET, ADD_RULE, RESTRICT_SELF, NO_NEW_PRIVILEGES, PATH_BENEATH = 444, 445, 446, 38, 1
EXECUTE, WRITE_FILE, REMOVE_AND_MAKE, REFER, TRUNCATE = 1 << 0, 1 << 1, 0x1FF0, 1 << 13, 1 << 14
TCP_BIND_AND_CONNECT, SCOPE_SOCKETS_AND_SIGNALS = 3, 3


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends, even after it has left its process group."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)


def isolate() -> None:
    """Leave the network and the process table where the kernel permits it (root, or user namespaces)."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        spaces = NEW_NETWORK | NEW_PROCESSES | NEW_IPC
        if libc.unshare(spaces) != 0:
            libc.unshare(spaces | NEW_USER)


def limit(job: dict[str, Any]) -> None:
    """Set the kernel's limits; a limit that is already lower stays."""
    wanted = {
        resource.RLIMIT_AS: job["memory_mb"] * 2**20,
        resource.RLIMIT_CPU: int(job["seconds"]) + 1,
        resource.RLIMIT_FSIZE: job["file_mb"] * 2**20,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: 64,
    }
    if hasattr(resource, "RLIMIT_NPROC"):  # the kernel does not apply it to root; the audit hook forbids forks anyway
        wanted[resource.RLIMIT_NPROC] = 1
    for kind, value in wanted.items():
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        try:
            resource.setrlimit(kind, (value, value))
        except (OSError, ValueError):  # macOS has no usable RLIMIT_AS
            continue


def restrict_writes(directory: str) -> bool:
    """Let the kernel (Landlock) refuse every write, removal and creation outside `directory`, and every program start.

    Newer kernels also refuse TCP and signals to processes outside. Returns whether the kernel enforces it; cannot be
    undone.
    """
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None)
    version = libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    if version < 1:
        return False
    writing = WRITE_FILE | REMOVE_AND_MAKE | (REFER if version >= 2 else 0) | (TRUNCATE if version >= 3 else 0)
    fields = (
        [EXECUTE | writing] + [TCP_BIND_AND_CONNECT] * (version >= 4) + [SCOPE_SOCKETS_AND_SIGNALS] * (version >= 6)
    )
    attributes = struct.pack(f"={len(fields)}Q", *fields)
    rules = libc.syscall(CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    on_files = WRITE_FILE | (TRUNCATE if version >= 3 else 0)
    done = rules >= 0
    for path, allowed in ((directory, writing), (os.devnull, on_files)):
        place = os.open(path, os.O_PATH)
        done = done and libc.syscall(ADD_RULE, rules, PATH_BENEATH, struct.pack("=Qi", allowed, place), 0) == 0
        os.close(place)
    done = done and libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0 and libc.syscall(RESTRICT_SELF, rules, 0) == 0
    if rules >= 0:
        os.close(rules)
    return done


def guard(directory: str) -> None:
    """Forbid, by an audit hook that cannot be taken off, sockets, processes, signals and writes outside `directory`.

    Directories outside cannot be opened either: a name relative to such a descriptor would look like one inside.
    """
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

    def outside(path: str | bytes) -> bool:
        full = os.path.realpath(os.fsdecode(path))
        return not (full + os.sep).startswith(directory + os.sep) and full != os.devnull

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event.startswith(FORBIDDEN):
            raise PermissionError(f"{event} is not allowed in the sandbox")
        if event == "open" and isinstance(args[0], str | bytes) and outside(args[0]):
            flags = args[2] if isinstance(args[2], int) else 0
            if flags & writing or os.path.isdir(args[0]):
                raise PermissionError(f"opening {args[0]!r} is not allowed in the sandbox")
        if event in INSIDE_ONLY:
            paths = [args[0], *(a for a in args[1:] if isinstance(a, str | bytes))]
            if any(not isinstance(path, str | bytes) or outside(path) for path in paths):
                raise PermissionError(f"{event} is not allowed in the sandbox, but on names in its directory")

    sys.addaudithook(hook)


def run(job: dict[str, Any], pipe: int) -> None:
    """The candidate's process: give up rights, execute, report through `pipe`; never returns."""
    directory = os.path.realpath(os.getcwd())
    die_with_parent()
    restrict_writes(directory)
    limit(job)
    for name in ("ctypes", "_ctypes"):  # its next import is an event that the guard forbids
        del sys.modules[name]
    sys.argv = ["candidate"]
    guard(directory)
    status, detail = "ok", ""
    try:
        exec(compile(job["source"], "candidate.py", "exec"), {"__name__": "candidate"})
    except MemoryError:
        status, detail = "memory", "out of memory"
    except BaseException as error:  # noqa: BLE001 - this is the boundary that untrusted code runs behind
        status, detail = "failed", f"{type(error).__name__}: {describe(error)}"
    report = {"nonce": job["nonce"], "status": status, "detail": detail[:500]}
    os.write(pipe, json.dumps(report).encode())
    os._exit(0)


def describe(error: BaseException) -> str:
    """The message of an exception of untrusted code, whose `__str__` may itself raise."""
    try:
        return str(error)
    except BaseException:  # noqa: BLE001
        return "(no message)"


def main() -> None:
    """Read the job, fork the candidate, wait for it and print one JSON report."""
    job = json.loads(sys.stdin.buffer.read())
    out = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):  # no input, and any amount of output goes nowhere
        os.dup2(null, descriptor)
    die_with_parent()
    isolate()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(out)
        os.close(reader)
        run(job, writer)
    os.close(writer)
    received = b""
    while len(received) < REPORT_BYTES and (chunk := os.read(reader, REPORT_BYTES)):
        received += chunk
    os.kill(child, signal.SIGKILL)  # it is done, or it floods the pipe
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.write(out, json.dumps({"code": code, "report": received.decode("utf-8", "replace")}).encode())


if __name__ == "__main__":
    main()
