"""Resolving, overriding, extending and writing recipes."""

import itertools
import subprocess
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recipe_schema import Policy, Recipe, apple

from polypath.core.document import parse_value, scalar
from polypath.core.errors import UserError
from polypath.core.recipe import Call, Document, Kind, digest, dump, load_document, resolve, to_plain
from polypath.core.schedules import bind_at

NAMES = itertools.count()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recipes")


def load(folder: Path, text: str, *overrides: str) -> Document:
    path = folder / f"{next(NAMES)}.yaml"
    path.write_text(text, encoding="utf-8")
    return load_document(path, overrides)


def recipe(folder: Path, text: str, *overrides: str) -> Recipe:
    return resolve(load(folder, text, *overrides), Recipe)


def test_every_form_binds_to_its_type(folder: Path) -> None:
    bound = recipe(
        folder,
        """
        task: {apple: {weight: 2, seeds: 3, odd: {any: thing}}}
        policy: {model: "no", lr: 1e-5, dims: [], steps: 1e3}
        name: on
        alpha: {cosine: {start: 1, end: 0, steps: 10}}
        stages: [{fruit: apple}, {cut: {slices: {count: 3}}}]
        either: [{cut: slices}]
        weights: {no: 1, 7: 2}
        """,
    )
    assert bound == Recipe(
        task=Call("fruit", "apple", {"weight": 2.0, "seeds": 3, "odd": {"any": "thing"}}),
        policy=Policy("no", lr=1e-5, dims=(), steps=1000),
        name="on",
        alpha=Call("schedule", "cosine", {"start": 1.0, "end": 0.0, "steps": 10}),
        stages=[Call("fruit", "apple"), Call("cut", "slices", {"count": 3})],
        either=[Call("cut", "slices")],
        weights={"no": 1.0, "7": 2.0},
    )
    assert type(bound.policy.steps) is int
    assert type(bound.weights["no"]) is float


def test_a_numeric_knob_may_be_a_schedule(folder: Path) -> None:
    text = "task: {apple: {weight: {linear: {start: 0, end: 8, steps: 4}}}}\npolicy: {model: a}"
    task = recipe(folder, text).task
    # a quarter of the way from 0 to 8 is 2, and past the end it is 8
    assert [bind_at(task, step)(7) for step in (1, 99)] == [(7, 2.0), (7, 8.0)]


def test_a_call_binds_the_function_itself() -> None:
    bound = Call("fruit", "apple", {"weight": 3.0}).bind()
    assert bound.func is apple
    assert bound(1) == (1, 3.0)


def test_a_call_remembers_its_place_but_is_equal_without_it(folder: Path) -> None:
    task = recipe(folder, "task: apple\npolicy: {model: a}").task
    assert task.where.endswith(".yaml:1 task")
    assert task == Call("fruit", "apple")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-5", 1e-5), ("1E5", 1e5), ("+3", 3), ("-1_000", -1000), (".5", 0.5), ("5.", 5.0), (".inf", float("inf")),
        ("-.inf", float("-inf")), ("true", True), ("False", False), ("no", "no"), ("on", "on"), ("yes", "yes"),
        ("~", None), ("null", None), ("010", 10), ("1:30", "1:30"), ("0x10", "0x10"), ("2026-01-01", "2026-01-01"),
        ("e5", "e5"), ("1e", "1e"), ("_1", "_1"), (".", "."), ("١", "١"),
    ],
)  # fmt: skip
def test_scalars_mean_what_they_look_like(folder: Path, text: str, value: Any) -> None:
    assert repr(scalar(text)) == repr(value)
    assert repr(load(folder, f"a: {text}").plain()["a"]) == repr(value)


def test_a_value_alone_is_read_as_in_a_recipe() -> None:
    assert parse_value("[1e-5, no, {a: 'no'}]", "-o x") == [1e-5, "no", {"a": "no"}]
    with pytest.raises(UserError, match="-o x:1: is not valid YAML"):
        parse_value("[1", "-o x")


def test_overrides_reach_lists_calls_and_sections_that_are_not_there(folder: Path) -> None:
    text = "task: {apple: {weight: 2}}\npolicy: {model: a}\nstages: [{fruit: apple}, {cut: slices}]"
    bound = recipe(
        folder,
        text,
        "task.pear.length=4",  # names another function, which replaces apple and its knobs
        "stages.1.cut.slices.count=9",
        "stages.2.fruit=apple",
        "stages.0.cut=slices",
        "extra.model=b=c",
        "alpha.linear={start: 1, end: 2, steps: 3}",
    )
    assert bound.task == Call("fruit", "pear", {"length": 4})
    assert bound.stages == [Call("cut", "slices"), Call("cut", "slices", {"count": 9}), Call("fruit", "apple")]
    assert bound.extra == Policy("b=c")
    assert bound.alpha == Call("schedule", "linear", {"start": 1.0, "end": 2.0, "steps": 3})


def test_extends_merges_deeply_and_a_later_name_replaces_an_earlier_one(folder: Path) -> None:
    base = load(folder, "task: {apple: {weight: 2}}\npolicy: {model: a, steps: 3, dims: [1, 2, 3]}\nweights: {a: 1}")
    text = f"extends: {base.name}\ntask: {{pear: {{length: 1}}}}\npolicy: {{steps: 4, dims: [9]}}\nweights: {{b: 2}}"
    middle = load(folder, text)
    bound = recipe(folder, f"extends: {Path(middle.name).name}\npolicy: {{model: z}}")
    assert bound.task == Call("fruit", "pear", {"length": 1})
    assert bound.policy == Policy("z", steps=4, dims=(9,))
    assert bound.weights == {"a": 1.0, "b": 2.0}


def test_a_bare_name_finds_the_packaged_file() -> None:
    assert load_document("grpo", folder="methods").plain()["summary"]


def test_a_method_may_be_a_file_of_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass
    class Credit:
        credit: Annotated[Call, Kind("credit")]

    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("knobs: {alpha: 0.5, gate: correct}\ncredit: []\n")
    text = "credit: {mine.yaml: {alpha: 1, gate: {above: {threshold: 2}}}}"
    knobs = {"alpha": 1.0, "gate": {"above": {"threshold": 2}}}
    assert resolve(load(tmp_path, text), Credit).credit == Call("credit", "mine.yaml", knobs)
    with pytest.raises(UserError, match=r"no parameter of credit 'mine.yaml' named 'alfa'. Did you mean alpha"):
        resolve(load(tmp_path, "credit: {mine.yaml: {alfa: 1}}"), Credit)
    with pytest.raises(UserError, match=r"there is no credit named 'yours.yaml'"):
        resolve(load(tmp_path, "credit: yours.yaml"), Credit)


POLICIES = st.builds(
    Policy,
    model=st.text(),
    lr=st.floats(0, 1),
    dims=st.lists(st.integers()).map(tuple),
    window=st.tuples(st.integers(), st.floats(allow_nan=False)),
    dropout=st.floats(0, 1),
    dtype=st.sampled_from(["float32", "bfloat16"]),
    steps=st.integers(1),
)
NUMBERS = st.floats(allow_nan=False)
SCHEDULES = st.builds(
    Call,
    st.just("schedule"),
    st.just("linear"),
    st.fixed_dictionaries({"start": NUMBERS, "end": NUMBERS, "steps": st.integers()}),
)
CUTS = st.builds(Call, st.just("cut"), st.just("slices"), st.fixed_dictionaries({}, optional={"count": st.integers()}))
FRUITS = st.builds(
    Call,
    st.just("fruit"),
    st.just("apple"),
    st.fixed_dictionaries(
        {}, optional={"weight": NUMBERS | SCHEDULES, "odd": st.text(), "grafts": st.lists(CUTS, max_size=2)}
    ),
)
STAGES = st.lists(FRUITS | CUTS, max_size=3)
ODD_TEXTS = [
    "no", "1e-5", "null", "true", "2026-01-01", "1_0", "~", "0x1", "=", "<<", "", " lead", "trail ", "a\n b\n", "a: b",
    "# no", "\x85", "a\u2028 b", "\ufeff", "\x00", "\t", "é😀", "- a", "'", '"', "%", "long " * 60,
]  # fmt: skip
RECIPES = st.builds(
    Recipe,
    task=FRUITS,
    policy=POLICIES,
    seed=st.integers(),
    name=st.none() | st.text() | st.sampled_from(ODD_TEXTS),
    chat=st.booleans(),
    alpha=NUMBERS | SCHEDULES,
    stages=STAGES,
    either=st.none() | FRUITS | STAGES,
    weights=st.dictionaries(st.text(), NUMBERS, max_size=3),
    mixture=st.lists(FRUITS, max_size=2),
    extra=st.none() | POLICIES,
)


@settings(max_examples=30, deadline=None)
@given(RECIPES)
def test_a_dumped_recipe_resolves_to_an_equal_one(folder: Path, instance: Recipe) -> None:
    again = recipe(folder, dump(instance))
    assert again == instance
    assert to_plain(again) == to_plain(instance)
    assert digest(again) == digest(instance)


@dataclass
class Knobs:
    a: int = 0
    b: int = 0
    c: int = 0
    d: int = 0


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_odd_texts_stay_texts(folder: Path, text: str) -> None:
    instance = Recipe(Call("fruit", "apple"), Policy(text), weights={text: 1.0})
    assert recipe(folder, dump(instance)) == instance


SETTINGS = st.dictionaries(st.sampled_from("abcd"), st.integers(1, 9))


@settings(max_examples=40, deadline=None)
@given(base=SETTINGS, text=SETTINGS, first=SETTINGS, second=SETTINGS)
def test_precedence(folder: Path, base: dict, text: dict, first: dict, second: dict) -> None:
    base_file = load(folder, "".join(f"{key}: {value}\n" for key, value in base.items())).name
    lines = [f"extends: {base_file}", *(f"{key}: {value}" for key, value in text.items())]
    overrides = [f"{key}={value}" for given in (first, second) for key, value in given.items()]
    bound = resolve(load(folder, "\n".join(lines), *overrides), Knobs)
    for field in fields(Knobs):
        setting = [given[field.name] for given in (second, first, text, base) if field.name in given]
        assert getattr(bound, field.name) == (setting[0] if setting else field.default)


def test_the_digest_sees_values_and_not_how_they_are_written(folder: Path) -> None:
    one = recipe(folder, "policy: {model: a, lr: 1e-4}\ntask: apple")
    same = recipe(folder, "task: {apple: {}}\npolicy:\n  lr: 0.0001\n  model: 'a'\nseed: 0")
    other = recipe(folder, "policy: {model: a, lr: 1e-4}\ntask: apple", "seed=1")
    assert digest(one) == digest(same) != digest(other)


def test_checking_a_recipe_imports_nothing_heavy(folder: Path) -> None:
    """A whole recipe with a credit method and a loss is checked, and its functions' modules stay unimported."""
    program = """
import sys
from dataclasses import dataclass
from typing import Annotated
import polypath, polypath.core.store, polypath.core.importers, polypath.core.rundir, polypath.core.progress
from polypath.core.recipe import Call, Kind, load_document, resolve
@dataclass
class Recipe:
    credit: Annotated[Call, Kind("signal")]
assert resolve(load_document(sys.argv[1]), Recipe).credit.knobs == {"alpha": 1.0}
heavy = {"torch", "numpy", "scipy", "pandas", "pyarrow", "transformers", "matplotlib", "polypath.credit", "rich"}
print(sorted(heavy & set(sys.modules)))
"""
    path = folder / "light.yaml"
    path.write_text("credit: {rarity: {alpha: 1}}\n")
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
