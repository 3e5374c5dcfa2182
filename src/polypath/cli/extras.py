"""Optional dependencies: which are installed, and which a named function would need. Imports none of them."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from pathlib import Path

REQUIREMENT = re.compile(r"([\w.-]+).*;.*extra\s*==\s*['\"]([\w-]+)['\"]")


def version(package: str) -> str | None:
    """The installed version by its metadata, None when it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


@cache
def extras() -> dict[str, tuple[str, ...]]:
    """The packages of each optional extra."""
    found: dict[str, tuple[str, ...]] = {}
    for requirement in metadata.requires("polypath") or ():
        match = REQUIREMENT.match(requirement)
        if match and match[1] != "polypath":
            found[match[2]] = (*found.get(match[2], ()), match[1])
    return found


def pip_line(extra: str) -> str:
    """The command that installs an extra."""
    return f'pip install "polypath[{extra}]"'


def missing_extras(targets: Iterable[str]) -> list[str]:
    """The extras whose packages the modules of `module:qualname` targets import, now or later, and that are absent."""
    wanted = {root for target in targets for root in _imports(target.partition(":")[0])}
    absent = {root.replace("_", "-") for root in wanted if importlib.util.find_spec(root) is None}
    return [extra for extra, packages in extras().items() if extra not in ("all", "dev") and absent & set(packages)]


def _imports(module: str) -> set[str]:
    """Top-level packages that a module's source imports, anywhere in it, other than our own and Python's."""
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        return set()
    roots: set[str] = set()
    for node in ast.walk(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            roots |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            roots.add(node.module.partition(".")[0])
    return roots - set(sys.stdlib_module_names) - {"polypath"}
