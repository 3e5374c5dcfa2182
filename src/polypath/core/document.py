"""YAML documents whose every value remembers the file and line, or the `-o` option, that it came from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from polypath.core.errors import UserError, UserErrors, did_you_mean

OPTION = "-o"
_DEEPEST = 50
_PLAIN_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("str", "seq", "map")}  # all that the base loader gives
_INT = re.compile(r"[-+]?[0-9]+(_[0-9]+)*")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(_[0-9]+)*(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL_FLOAT = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WORDS = {"": None, "~": None} | {
    form: value
    for word, value in (("null", None), ("true", True), ("false", False))
    for form in (word, word.capitalize(), word.upper())
}


@dataclass(frozen=True)
class Node:
    """A value with its origin. `value` is a scalar, a dict of nodes or a list of nodes.

    `layer` counts files and options in order of precedence, so that a later one can replace what an earlier one named.
    """

    value: Any
    source: str  # "recipe.yaml:9", or "-o"
    layer: int = 0

    def where(self, path: str) -> str:
        """The place as an error shows it: `recipe.yaml:9 credit.scale`."""
        return f"{self.source} {path}".rstrip()

    def plain(self) -> Any:
        """The value without origins."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value


@dataclass(frozen=True)
class Document:
    """A loaded recipe: the file it came from, and its merged content."""

    name: str
    root: Node

    def plain(self) -> dict[str, Any]:
        """The content as plain dictionaries, lists and scalars."""
        return self.root.plain()


def load_document(path_or_name: str | Path, overrides: Sequence[str] = (), *, folder: str = "recipes") -> Document:
    """Read a YAML file, or the packaged one of that bare name, with what it `extends` and the overrides on top.

    An override reads `key.path=value`, where the value is YAML and a number in the path is a list index. Raises
    UserError for a missing file or bad syntax, and UserErrors for repeated keys.
    """
    chain = _chain(path_or_name, folder)
    root = chain[0]
    for layer in chain[1:]:
        root = merge(root, layer)
    root.value.pop("extends", None)
    for count, override in enumerate(overrides):
        root = merge(root, _parse_override(override, len(chain) + count))
    return Document(str(path_or_name), root)


def merge(base: Node, top: Node, path: str = "") -> Node:
    """Lay `top` over `base`: mappings merge key by key, `{0: ...}` over a list edits its entries, all else replaces."""
    if isinstance(top.value, dict) and isinstance(base.value, dict):
        merged = {
            key: merge(base.value[key], node, join(path, key)) if key in base.value else node
            for key, node in top.value.items()
        }
        return Node({**base.value, **merged}, top.source, top.layer)
    if isinstance(top.value, dict) and isinstance(base.value, list) and top.value:
        entries = list(base.value)
        for key, node in top.value.items():
            if not key.isdecimal() or int(key) > len(entries):
                fix = f"Use an index from 0 to {len(entries)} (which appends)."
                raise UserError(node.where(join(path, key)), f"the list has no entry '{key}'", fix)
            edited = merge(base.value[int(key)], node, join(path, key)) if int(key) < len(base.value) else node
            entries[int(key) : int(key) + 1] = [edited]
        return Node(entries, top.source, top.layer)
    return top


def join(path: str, key: str | int) -> str:
    """Extend a dotted path."""
    return f"{path}.{key}" if path else str(key)


def scalar(text: str) -> Any:
    """What an unquoted YAML scalar means here: `1e-5` is a float, and only true and false are booleans.

    >>> [scalar(text) for text in ("1e-5", "no", "true", "1_000", "")]
    [1e-05, 'no', True, 1000, None]
    """
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return float(text.replace(".", "")) if _SPECIAL_FLOAT.fullmatch(text) else text


def parse_value(text: str, where: str) -> Any:
    """Any YAML value, read as a recipe reads it. Raises UserError at `where`."""
    return parse_node(text, where).plain()


def packaged(folder: str) -> dict[str, Path]:
    """The YAML files inside the package's `recipes` or `methods` folder, by stem."""
    files = Path(str(resources.files("polypath").joinpath(folder)))
    return {file.stem: file for file in sorted(files.glob("*.yaml"))}


def _chain(path_or_name: str | Path, folder: str) -> list[Node]:
    """The roots of a file and of all that it extends, the most basic first."""
    roots: list[Node] = []
    seen: set[Path] = set()
    path, shown = _find(path_or_name, folder, Path(), "recipe")
    while True:
        if path.resolve() in seen:
            raise UserError(shown, "extends itself", "Remove one `extends`.")
        seen.add(path.resolve())
        roots.append(_read(path, shown))
        base = roots[-1].value.get("extends")
        if base is None:
            break
        if not isinstance(base.value, str):
            raise UserError(base.where("extends"), "expects the name of one file", "Write `extends: other.yaml`.")
        path, shown = _find(base.value, folder, path.parent, base.where("extends"))
    return [_layered(root, layer) for layer, root in enumerate(reversed(roots))]


def _find(name: str | Path, folder: str, near: Path, where: str) -> tuple[Path, str]:
    """Where a file is, and how errors name it."""
    path = near / name
    if path.is_file():
        return path, str(path)
    known = packaged(folder)
    stem = str(name).removesuffix(".yaml")
    if stem in known:
        return known[stem], known[stem].name
    if Path(name).name == str(name) and "." not in stem:
        raise UserError(where, f"there is no file or packaged recipe '{name}'", did_you_mean(stem, known))
    raise UserError(where, f"cannot read '{path}'", "Is it a file, and is the path right?")


def _read(path: Path, shown: str) -> Node:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(shown, f"cannot be read as UTF-8 text ({error})") from error
    root = parse_node(text, shown)
    if root.value is None:
        return Node({}, f"{shown}:1")
    if not isinstance(root.value, dict):
        raise UserError(root.source, "a recipe is a mapping of keys to values", "Start with a line such as `seed: 0`.")
    return root


def parse_node(text: str, source: str) -> Node:
    """Any YAML value with the place of every part of it. Raises UserError."""
    try:
        # The base loader resolves no scalars, so that YAML 1.1's booleans and numbers never arise.
        tree = yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.YAMLError as error:
        raise _syntax_error(error, text, source) from error
    errors: list[UserError] = []
    root = _convert(tree, "", source, errors) if tree is not None else Node(None, f"{source}:1")
    if errors:
        raise UserErrors(errors)
    return root


def _syntax_error(error: yaml.YAMLError, text: str, source: str) -> UserError:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        fix = "Indent with spaces." if "\\t" in str(error.problem) else ""
        return UserError(f"{source}:{error.problem_mark.line + 1}", f"is not valid YAML: {error.problem}", fix)
    line = text.count("\n", 0, getattr(error, "position", 0)) + 1
    return UserError(f"{source}:{line}", f"is not valid YAML: {getattr(error, 'reason', error)}")


def _convert(node: yaml.Node, path: str, source: str, errors: list[UserError], line: int | None = None) -> Node:
    """A YAML node as a Node; `line` is that of the key when there is one."""
    line = node.start_mark.line + 1 if line is None else line
    here = Node(None, f"{source}:{line}")
    if path.count(".") > _DEEPEST:
        raise UserError(here.where(path[:60]), "is nested too deeply", "Does an alias (`*name`) contain itself?")
    if node.tag not in _PLAIN_TAGS:
        errors.append(UserError(here.where(path), f"the YAML tag '{node.tag}' has no meaning here", "Remove it."))
    if isinstance(node, yaml.SequenceNode):
        items = [_convert(item, join(path, index), source, errors) for index, item in enumerate(node.value)]
        return Node(items, here.source)
    if isinstance(node, yaml.ScalarNode):
        return Node(node.value if node.style else scalar(node.value), here.source)
    found: dict[str, Node] = {}
    for key, value in node.value:
        key_line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            errors.append(UserError(f"{source}:{key_line} {path}".rstrip(), "a key must be a single word"))
        elif key.value in found:
            what = f"the key is already set in line {found[key.value].source.rpartition(':')[2]}"
            errors.append(UserError(f"{source}:{key_line} {join(path, key.value)}", what, "Remove one of the two."))
        else:
            found[key.value] = _convert(value, join(path, key.value), source, errors, key_line)
    return Node(found, here.source)


def _parse_override(text: str, layer: int) -> Node:
    """`a.b=value` as the nested mapping that sets it."""
    path, equals, value = text.partition("=")
    keys = path.strip().split(".")
    if not equals or not all(keys):
        raise UserError(f"{OPTION} {text}", "is not of the form key.path=value", "Example: -o train.steps=100")
    try:
        node = _layered(parse_node(value, OPTION), layer, OPTION)
    except UserError as error:
        raise UserError(f"{OPTION} {path}", f"the value cannot be read ({error})") from error
    for key in reversed(keys):
        node = Node({key: node}, OPTION, layer)
    return node


def _layered(node: Node, layer: int, source: str | None = None) -> Node:
    """The same tree, marked as belonging to `layer` (and to `source` when given)."""
    value = node.value
    if isinstance(value, dict):
        value = {key: _layered(child, layer, source) for key, child in value.items()}
    elif isinstance(value, list):
        value = [_layered(child, layer, source) for child in value]
    return Node(value, source or node.source, layer)
