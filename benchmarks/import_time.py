"""How long `import polypath` and `polypath --help` take, in fresh processes, and that neither loads torch.

Run: python benchmarks/import_time.py [--rounds 7]
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time

COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "import polypath": ["-c", "import polypath"],
    "import polypath.core.registry": ["-c", "import polypath.core.registry"],
    "polypath --help": ["-m", "polypath", "--help"],
    "polypath train --help": ["-m", "polypath", "train", "--help"],
    "polypath list": ["-m", "polypath", "list"],
}
HEAVY = "[m for m in ('torch', 'transformers', 'pandas', 'scipy', 'matplotlib') if m in sys.modules]"


def seconds(arguments: list[str]) -> tuple[float, float]:
    """Wall and CPU seconds of one fresh process."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def heavy_modules(arguments: list[str]) -> str:
    """Which heavy packages are loaded after the command."""
    if arguments[0] == "-c":
        code = f"import sys; {arguments[1]}; print({HEAVY})"
    else:
        run = "runpy.run_module('polypath', run_name='__main__')\nexcept SystemExit: pass"
        code = f"import runpy, sys; sys.argv = {['polypath', *arguments[2:]]!r}\ntry: {run}\nprint({HEAVY})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip().splitlines()[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in COMMANDS}
    for _ in range(options.rounds):  # in turn, so that a busy machine slows all
        for name, arguments in COMMANDS.items():
            times[name].append(seconds(arguments))
    print(f"{'':32}{'wall s':>9}{'least':>9}{'CPU s':>9}  heavy modules")
    for name, found in times.items():
        wall, cpu = (statistics.median(column) for column in zip(*found, strict=True))
        least = min(wall for wall, _ in found)
        print(f"{name:32}{wall:9.3f}{least:9.3f}{cpu:9.3f}  {heavy_modules(COMMANDS[name])}")


if __name__ == "__main__":
    main()
