"""Rebuild the static registry index: `python -m polypath.core.index`."""

from __future__ import annotations

import importlib
import json
import pkgutil
from pathlib import Path

import polypath
from polypath.core import registry

PATH = Path(__file__).with_name("index.json")
SCANNED = (
    "core",
    "diversity",
    "engines",
    "tasks",
    "rollout",
    "credit",
    "losses",
    "train",
    "evaluate",
    "report",
)


def build() -> str:
    """Import every module that may register something, and return the index as JSON text."""
    for layer in SCANNED:
        package = importlib.import_module(f"polypath.{layer}")
        for module in pkgutil.walk_packages(package.__path__, f"{polypath.__name__}.{layer}."):
            importlib.import_module(module.name)
    return json.dumps(registry.index_rows(), indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def main() -> None:
    """Write the index beside this module."""
    PATH.write_text(build(), encoding="utf-8")


if __name__ == "__main__":
    main()
