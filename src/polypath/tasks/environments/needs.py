"""What an environment needs beside polypath, and the exact lines that install it. Imports no simulator."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterable

from polypath.core.errors import UserError
from polypath.core.registry import entries

EXTRA = "environments"
PACKAGE, PROGRAM = "package:", "program:"  # how an environment's traits name what it needs
PROGRAMS = {  # what a program is called in prose, and how it is installed
    "java": ("Java", "apt-get install default-jre-headless (Debian, Ubuntu), brew install openjdk (macOS)"),
}
OWN_LINES = {"alfworld": "pip install --no-deps alfworld==0.4.2 && pip install fast-downward-textworld==20.6.3"}


def missing(traits: Iterable[str]) -> list[tuple[str, str]]:
    """What of the needs in `traits` is not there, as (what, the line that installs it)."""
    found = []
    for trait in sorted(traits):
        if trait.startswith(PACKAGE) and importlib.util.find_spec(trait.removeprefix(PACKAGE)) is None:
            module = trait.removeprefix(PACKAGE)
            found.append((f"the package '{module}'", OWN_LINES.get(module, f'pip install "polypath[{EXTRA}]"')))
        if trait.startswith(PROGRAM) and shutil.which(trait.removeprefix(PROGRAM)) is None:
            found.append(PROGRAMS[trait.removeprefix(PROGRAM)])
    return found


def check(name: str, traits: Iterable[str]) -> None:
    """Raise UserError, with the line that installs it, when something that an environment needs is not there."""
    absent = missing(traits)
    if absent:
        what = " and ".join(what for what, _ in absent)
        raise UserError(f"environment {name}", f"needs {what}", "Run: " + "; then: ".join(line for _, line in absent))


def survey() -> dict[str, dict[str, object]]:
    """For every environment: whether it can be played here, what is missing, and the lines that install it."""
    found: dict[str, dict[str, object]] = {}
    for entry in entries("environment"):
        absent = missing(entry.traits)
        found[entry.name] = {
            "installed": not absent,
            "missing": [what for what, _ in absent],
            "run": list(dict.fromkeys(line for _, line in absent)),
        }
    return found
