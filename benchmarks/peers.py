"""What the benchmarks against peers share: a row of the table, and the command line that prints it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping


def line(task: str, peer: str, theirs: float, ours: float, agreement: object, aim: str) -> None:
    """One row: CPU seconds of both, their ratio, how far the results agree, and the ratio that was aimed at."""
    print(
        f"| {task} | {peer} | {theirs:.4g} | {ours:.4g} | **{theirs / ours:.3g}x** | {agreement} | {aim} |", flush=True
    )


def run(description: str | None, parts: Mapping[str, Callable[[bool], None]]) -> None:
    """Run all parts, or those named by --only; a peer that is not installed is named and left out."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that the script runs")
    parser.add_argument("--only", choices=parts, action="append")
    options = parser.parse_args()
    print("| task | peer | peer, s | ours, s | ratio | agreement | aim |\n|---|---|---|---|---|---|---|")
    for name in options.only or parts:
        try:
            parts[name](options.quick)
        except ModuleNotFoundError as error:
            print(f"| {name} | {error.name} (not installed) | - | - | - | - | - |")
