"""`polypath doctor`: what is installed, what would be used, and the exact line that installs what is missing."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from polypath import __version__
from polypath.cli.extras import extras, pip_line, version
from polypath.cli.output import emit, table
from polypath.core.registry import entries
from polypath.engines.aliases import ALIASES, SHIPPED, cache_dir, on_disk
from polypath.engines.memory import SMALL_MODEL, choose_threads
from polypath.tasks.environments.needs import survey

EXAMPLE = "polypath doctor"
PACKAGES = ("torch", "transformers", "trl", "accelerate", "peft", "numpy", "scipy", "pyarrow", "typer")
KNOWN_BAD = (  # package, versions, what goes wrong, what to do
    (
        "trl",
        r"1\.15\.0",
        "its GRPO crashes on a machine without Triton, such as any without a GPU",
        'pip install "trl>=1.16"',
    ),
    ("llama-cpp-python", r"0\.3\..*", "crashes on some processors that announce AMX", "pip uninstall llama-cpp-python"),
)
PROBE = """
import json, torch
device = "cuda" if torch.cuda.is_available() else "cpu"
print(json.dumps({"device": device, "torch": torch.__version__}))
"""
PROBE_SECONDS = 60


def command(
    deep: Annotated[bool, typer.Option("--deep", help="Also start torch and ask it for its device.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Report the installation. Loads neither torch nor a model, unless asked to with --deep."""
    facts = examine(deep)
    if as_json:
        emit(facts)
        return
    print("\n".join(_lines(facts)))


def examine(deep: bool = False) -> dict[str, Any]:
    """All facts as JSON data."""
    total, free = host_memory()
    return {
        "polypath": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": {"total": total, "free": free},
        "disk_free_gib": round(shutil.disk_usage(Path.cwd()).free / 2**30, 1),
        "compute": compute(deep),
        "versions": {name: version(name) for name in PACKAGES},
        "extras": installed_extras(),
        "environments": survey(),
        "problems": problems(),
        "models": {name: "ready" if on_disk(name) else "fetched on first use" for name in (*ALIASES, *shipped())},
        "cache": str(cache_dir()),
        "functions": len(entries()),
    }


def _environments(found: dict[str, dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(name, "yes" if e["installed"] else "no", "; ".join(e["run"])) for name, e in found.items()]


def installed_extras() -> dict[str, dict[str, Any]]:
    """For each optional extra: whether it is installed, what is missing, and the line that installs it."""
    found = {}
    for extra, packages in extras().items():
        missing = [package for package in packages if version(package) is None]
        found[extra] = {"installed": not missing, "missing": missing, "pip": pip_line(extra)}
    return found


def problems() -> list[dict[str, str]]:
    """Installed packages that are known not to work with polypath."""
    return [
        {"package": f"{package} {found}", "what": what, "fix": fix}
        for package, bad, what, fix in KNOWN_BAD
        if (found := version(package)) is not None and re.fullmatch(bad, found)
    ]


def host_memory() -> tuple[float | None, float | None]:
    """Total and available memory in GiB; None where the platform does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None, None
    kib = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    return round(kib["MemTotal"] / 2**20, 1), round(kib["MemAvailable"] / 2**20, 1)


def compute(deep: bool) -> dict[str, Any]:
    """The device, dtype and threads that a run would choose; the device is torch's own word only when `deep`."""
    seen = any(Path("/dev").glob("nvidia[0-9]*"))
    found = probe() if deep else {"device": "a GPU, if torch can use it (see --deep)" if seen else "cpu"}
    if found.get("device") == "cpu":
        found |= {"dtype": "float32", "threads": choose_threads(SMALL_MODEL), "threads of a small model": 1}
    return found


def probe() -> dict[str, Any]:
    """What torch would compute on, asked in a process of its own so that a broken install cannot take us down."""
    command = [sys.executable, "-c", PROBE]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"torch did not start within {PROBE_SECONDS} s"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["torch cannot be started"])[-1]}
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def shipped() -> list[str]:
    """Models that are part of the package."""
    return sorted(path.name for path in SHIPPED.iterdir() if path.is_dir()) if SHIPPED.is_dir() else []


def _lines(facts: dict[str, Any]) -> list[str]:
    memory = facts["memory_gib"]
    lines = [
        f"polypath {facts['polypath']}, Python {facts['python']}, {facts['platform']}",
        f"{facts['cores']} cores, {memory['free']} of {memory['total']} GiB memory free, "
        f"{facts['disk_free_gib']} GiB of disk free here",
    ]
    lines.append("a run would use: " + ", ".join(f"{key} {value}" for key, value in facts["compute"].items()))
    lines += ["", table(("package", "version"), list(facts["versions"].items()))]
    rows = [
        (name, "yes" if extra["installed"] else "no", "" if extra["installed"] else extra["pip"])
        for name, extra in facts["extras"].items()
    ]
    lines += ["", table(("extra", "installed", "to install it"), rows)]
    lines += ["", table(("environment", "playable", "to play it"), _environments(facts["environments"]))]
    lines += ["", *(f"problem: {p['package']}: {p['what']}. Run: {p['fix']}" for p in facts["problems"])]
    models = ", ".join(f"{name} ({state})" for name, state in facts["models"].items())
    return [*lines, f"models: {models}; cache: {facts['cache']}", f"{facts['functions']} named functions in the index"]
