"""The limits that keep the code readable, checked on the syntax tree of every source file."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

from polypath.core import registry

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "polypath"
FILES = sorted(SOURCE.rglob("*.py"))
MAX_FILE, MAX_FUNCTION, MAX_DEPTH, MAX_METHOD_FILE = 300, 60, 2, 30
# The program's error boundary, and those to code of other people: verifiers, scorers, generated programs, simulators.
BROAD_EXCEPT = {"cli/main.py"} | {
    f"tasks/{name}.py" for name in ("verify", "verifiers", "reasoning_gym", "sandbox_child", "environments/child")
}
DISPATCH = {"core/registry.py"}  # the only place that may branch on a registered name
SEEDED = {"Random", "default_rng", "Generator", "Philox", "PCG64", "SeedSequence"}

Finding = tuple[int, str]  # line, what


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def functions(module: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(module) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def long_functions(module: ast.Module) -> Iterator[Finding]:
    for function in functions(module):
        body = function.body[1:] if ast.get_docstring(function) is not None else function.body
        length = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
        if length > MAX_FUNCTION:
            yield function.lineno, f"{function.name} has a body of {length} lines (limit {MAX_FUNCTION})"


def asserts(module: ast.Module) -> Iterator[Finding]:
    yield from ((node.lineno, "assert") for node in ast.walk(module) if isinstance(node, ast.Assert))


def swallowed_keywords(module: ast.Module) -> Iterator[Finding]:
    """A `**kwargs` of which only single keys are looked up, so that a misspelt one passes unseen.

    `**_` is what a foreign interface hands over unused.
    """
    for function in functions(module):
        if function.args.kwarg is None or function.args.kwarg.arg.startswith("_"):
            continue
        name = function.args.kwarg.arg
        picked = {
            id(node.value) for node in ast.walk(function) if isinstance(node, ast.Attribute | ast.Subscript)
        }  # kwargs.get("a"), kwargs["a"]
        whole = any(isinstance(n, ast.Name) and n.id == name and id(n) not in picked for n in ast.walk(function))
        if not whole:
            yield function.lineno, f"{function.name} swallows **{name}"


def side_effects(module: ast.Module) -> Iterator[Finding]:
    """Statements at module level other than imports, definitions, plain assignments and registration."""
    allowed = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    for node in module.body:
        if isinstance(node, allowed) or _is_guard(node) or _is_docstring_or_register(node):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names = all(isinstance(leaf, ast.Name | ast.Tuple) for leaf in targets)
        if not (isinstance(node, ast.Assign | ast.AnnAssign) and names):
            yield node.lineno, f"side effect at module level: {ast.unparse(node).splitlines()[0]}"


def _is_guard(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "__name__ == '__main__'")


def _is_docstring_or_register(node: ast.stmt) -> bool:
    if not isinstance(node, ast.Expr):
        return False
    if isinstance(node.value, ast.Constant):
        return True
    call = node.value
    while isinstance(call, ast.Call):
        call = call.func
    return isinstance(call, ast.Name) and call.id == "register"


def broad_excepts(module: ast.Module) -> Iterator[Finding]:
    for node in ast.walk(module):
        if isinstance(node, ast.ExceptHandler):
            caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            names = {ast.unparse(kind) if kind else "everything" for kind in caught}
            if names & {"everything", "Exception", "BaseException"}:
                yield node.lineno, f"except {', '.join(sorted(names))}"


def branches_on_names(module: ast.Module) -> Iterator[Finding]:
    """`if name == "..."`: a method known by name outside the registry."""
    for node in ast.walk(module):
        if not isinstance(node, ast.Compare) or not isinstance(node.left, ast.Name):
            continue
        registered = any(isinstance(right, ast.Constant) and right.value in known_names() for right in node.comparators)
        if node.left.id in ("name", "kind", "method") and registered and isinstance(node.ops[0], ast.Eq | ast.NotEq):
            yield node.lineno, ast.unparse(node)


@cache
def known_names() -> frozenset[str]:
    """Everything registered, and every paper's method."""
    methods = (path.stem for path in (SOURCE / "methods").glob("*.yaml"))
    return frozenset({entry.name for entry in registry.entries()} | set(methods))


def unseeded_randomness(module: ast.Module) -> Iterator[Finding]:
    imported = {alias.name for node in ast.walk(module) if isinstance(node, ast.Import) for alias in node.names}
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr not in SEEDED:
            owner = ast.unparse(node.func.value)
            if owner in ("np.random", "numpy.random") or (owner == "random" and owner in imported):
                yield node.lineno, ast.unparse(node.func)


RULES: list[tuple[Callable[[ast.Module], Iterator[Finding]], set[str]]] = [
    (long_functions, set()),
    (asserts, set()),
    (swallowed_keywords, set()),
    (side_effects, set()),
    (broad_excepts, BROAD_EXCEPT),
    (branches_on_names, DISPATCH),
    (unseeded_randomness, set()),
]


@pytest.mark.parametrize(("rule", "allowed"), RULES, ids=[rule.__name__ for rule, _ in RULES])
def test_no_source_file_breaks_the_rule(rule, allowed):
    broken = [
        f"{path.relative_to(ROOT)}:{line} {what}"
        for path in FILES
        if path.relative_to(SOURCE).as_posix() not in allowed
        for line, what in rule(tree(path))
    ]
    assert not broken, "\n".join(broken)


BAD = {
    long_functions: "def f():\n" + "    x = 1\n" * 61,
    asserts: "def f(x):\n    assert x\n",
    swallowed_keywords: "def f(**kwargs):\n    return kwargs.get('a')\n",
    side_effects: "import os\nos.environ['A'] = '1'\n",
    broad_excepts: "try:\n    pass\nexcept (OSError, Exception):\n    pass\n",
    branches_on_names: "def f(name):\n    return name == 'grpo'\n",
    unseeded_randomness: "import random\nx = random.random()\n",
}
GOOD = {
    long_functions: "def f():\n    '''doc\n\n\n\n    '''\n" + "    x = 1\n" * 60,
    asserts: "def f(x):\n    return x\n",
    swallowed_keywords: "def f(**kwargs):\n    return g(**kwargs)\n",
    side_effects: "'''doc'''\nimport os\nX: int = 1\nregister('a', 'b')(f)\nif __name__ == '__main__':\n    main()\n",
    broad_excepts: "try:\n    pass\nexcept (OSError, ValueError):\n    pass\n",
    branches_on_names: "def f(name, other):\n    return name == other\n",
    unseeded_randomness: "import random\nx = random.Random(3).random()\n",
}


@pytest.mark.parametrize("rule", list(BAD), ids=lambda rule: rule.__name__)
def test_each_rule_finds_its_fault_and_spares_the_good(rule):
    assert len(list(rule(ast.parse(BAD[rule])))) == 1
    assert not list(rule(ast.parse(GOOD[rule])))


def test_files_are_short():
    sizes = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert not {str(path.relative_to(ROOT)): size for path, size in sizes.items() if size > MAX_FILE}


def test_inheritance_is_shallow():
    """At most two classes of ours in a line; protocols describe and are not counted."""
    bases = {
        node.name: [ast.unparse(base).rpartition(".")[2].partition("[")[0] for base in node.bases]
        for path in FILES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ClassDef)
    }

    def depth(name: str) -> int:
        if "Protocol" in bases[name]:
            return 0
        return 1 + max((depth(base) for base in bases[name] if base in bases and base != name), default=0)

    assert not {name: depth(name) for name in bases if depth(name) > MAX_DEPTH}


def test_the_static_index_is_fresh():
    from polypath.core import index

    assert index.PATH.read_text(encoding="utf-8") == index.build(), "stale: run make index"


@pytest.mark.parametrize("path", sorted((SOURCE / "methods").glob("*.yaml")), ids=lambda path: path.stem)
def test_a_method_is_a_short_file_with_a_paper_and_derived_examples(path):
    text = path.read_text(encoding="utf-8")
    method = yaml.safe_load(text)
    assert len(text.partition("\nexamples:")[0].splitlines()) <= MAX_METHOD_FILE
    assert method["summary"].strip()
    assert method["paper"]["confidence"] in ("exact", "partial", "reconstructed")
    assert method["examples"]
    for example in method["examples"]:
        assert {"given", "advantages", "derivation"} <= example.keys()
