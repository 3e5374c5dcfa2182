"""Every mistake in a recipe gives one line with the file, the line, the key and a way out."""

from pathlib import Path

import pytest
from recipe_schema import Recipe

from polypath.core.errors import UserError, UserErrors
from polypath.core.recipe import load_document, resolve

BASE = """\
seed: 3
name: trial
chat: true
task:
  apple:
    weight: 2.5
    colour: green
    seeds: null
    layers: [1, 2]
policy:
  model: tiny
  lr: 1e-5
  dims: [4, 5]
  window: [3, 0.25]
  dropout: 0.1
  dtype: float32
  steps: 20
alpha: {linear: {start: 1, end: 0, steps: 5}}
stages:
  - fruit: apple
  - cut:
      slices: {count: 3}
either: apple
weights: {a: 1, b: 2.5}
mixture: [apple, {pear: {length: 2}}]
"""

MUTATIONS = [
    # unknown keys
    ("seed: 3", "sead: 3", "r.yaml:1 sead: unknown key 'sead'. Did you mean seed?"),
    ("  lr: 1e-5", "  lrr: 1e-5", "r.yaml:12 policy.lrr: unknown key 'lrr'. Did you mean lr?"),
    ("name: trial", "zzzzz: trial", "r.yaml:2 zzzzz: unknown key 'zzzzz'. Choose from: alpha, chat, either, extra,"),
    ("    weight: 2.5", "    wieght: 2.5",
     "r.yaml:6 task.apple.wieght: no parameter of fruit 'apple' named 'wieght'. Did you mean weight?"),
    ("slices: {count: 3}", "slices: {cuont: 3}",
     "r.yaml:22 stages.1.cut.slices.cuont: no parameter of cut 'slices' named 'cuont'. Did you mean count?"),
    ("steps: 5}}", "stepz: 5, steps: 5}}",
     "r.yaml:18 alpha.linear.stepz: no parameter of schedule 'linear' named 'stepz'. Did you mean steps?"),
    # unknown names
    ("  apple:\n", "  aple:\n", "r.yaml:5 task.aple: there is no fruit named 'aple'. Did you mean apple?"),
    ("either: apple", "either: appel", "r.yaml:23 either: there is no fruit named 'appel'. Did you mean apple?"),
    ("- fruit: apple", "- fruit: peer", "r.yaml:20 stages.0.fruit: there is no fruit named 'peer'. Did you mean pear?"),
    ("- fruit: apple", "- friut: apple", "r.yaml:20 stages.0.friut: there is no stage 'friut'. Did you mean fruit?"),
    ("{linear:", "{lineer:", "r.yaml:18 alpha.lineer: there is no schedule named 'lineer'. Did you mean linear?"),
    ("[apple, {pear", "[apples, {pear", "r.yaml:25 mixture.0: there is no fruit named 'apples'. Did you mean apple?"),
    # wrong types
    ("seed: 3", "seed: abc", "r.yaml:1 seed: expects a whole number, got 'abc'."),
    ("seed: 3", "seed: 1.5", "r.yaml:1 seed: expects a whole number, got 1.5."),
    ("seed: 3", "seed: true", "r.yaml:1 seed: expects a whole number, got true."),
    ("chat: true", "chat: no", "r.yaml:3 chat: expects true or false, got 'no'."),
    ("chat: true", "chat: 1", "r.yaml:3 chat: expects true or false, got 1."),
    ("lr: 1e-5", "lr: fast", "r.yaml:12 policy.lr: expects a number, got 'fast'."),
    ("lr: 1e-5", "lr: '1e-5'", "r.yaml:12 policy.lr: expects a number, got '1e-5'."),
    ("lr: 1e-5", "lr: [1]", "r.yaml:12 policy.lr: expects a number, got a list of 1."),
    ("model: tiny", "model: 7", "r.yaml:11 policy.model: expects text, got 7. Put it in quotes: '7'."),
    ("model: tiny", "model:", "r.yaml:11 policy.model: expects text, got nothing."),
    ("name: trial", "name: 7", "r.yaml:2 name: expects text, got 7. Put it in quotes: '7'."),
    ("dims: [4, 5]", "dims: 4", "r.yaml:13 policy.dims: expects a list, got 4. Write [4]."),
    ("dims: [4, 5]", "dims: [4, x]", "r.yaml:13 policy.dims.1: expects a whole number, got 'x'."),
    ("[3, 0.25]", "[3]", "r.yaml:14 policy.window: expects a list of 2, got a list of 1."),
    ("{a: 1, b: 2.5}", "[1, 2]", "r.yaml:24 weights: expects a mapping, got a list of 2."),
    ("b: 2.5}", "b: x}", "r.yaml:24 weights.b: expects a number, got 'x'."),
    ("either: apple", "either: 3",
     "r.yaml:23 either: expects the name of a fruit or a list of stages or nothing, got 3."),
    ("either: apple", "either: [{fruit: x}]", "r.yaml:23 either.0.fruit: there is no fruit named 'x'."),
    ("    weight: 2.5", "    weight: heavy", "r.yaml:6 task.apple.weight: expects a number, got 'heavy'."),
    ("    seeds: null", "    seeds: 1.5", "r.yaml:8 task.apple.seeds: expects a whole number, got 1.5."),
    ("layers: [1, 2]", "layers: [1, two]", "r.yaml:9 task.apple.layers.1: expects a whole number, got 'two'."),
    ("start: 1,", "start: x,", "r.yaml:18 alpha.linear.start: expects a number, got 'x'."),
    ("- fruit: apple", "- apple", "r.yaml:20 stages.0: expects one stage such as {kind: name}, got 'apple'."),
    # wrong choices and ranges
    ("colour: green", "colour: gren", "r.yaml:7 task.apple.colour: 'gren' is not a choice. Did you mean green?"),
    ("dtype: float32", "dtype: float16", "r.yaml:16 policy.dtype: 'float16' is not a choice. Did you mean bfloat16?"),
    ("dropout: 0.1", "dropout: 1.5", "r.yaml:15 policy.dropout: must be between 0 and 1, got 1.5."),
    ("dropout: 0.1", "dropout: .nan", "r.yaml:15 policy.dropout: expects a number, got nan."),
    ("steps: 20", "steps: 0", "r.yaml:17 policy.steps: must be at least 1, got 0."),
    ("    weight: 2.5", "    share: -1", "r.yaml:6 task.apple.share: must be between 0 and 1, got -1."),
    # what is missing
    ("  model: tiny\n", "", "r.yaml:10 policy.model: required key is missing. Expected: text."),
    ("{length: 2}", "{}", "r.yaml:25 mixture.1.pear: fruit 'pear' needs the parameter 'length' (int)."),
    ("end: 0, ", "", "r.yaml:18 alpha.linear: schedule 'linear' needs the parameter 'end' (float)."),
    # structure
    ("seed: 3", "seed: 3\nseed: 4", "r.yaml:2 seed: the key is already set in line 1. Remove one of the two."),
    ("  lr: 1e-5", "  model: big", "r.yaml:12 policy.model: the key is already set in line 11."),
    ("seed: 3", "seed: [3", "r.yaml:2: is not valid YAML: "),
    ("  lr: 1e-5", "\tlr: 1e-5", "r.yaml:12: is not valid YAML: "),
    ("seed: 3", "seed: !!python/name:os.system 3", "r.yaml:1 seed: the YAML tag 'tag:yaml.org,2002:python/name:os"),
    ("  lr: 1e-5\n", "  lr: 2\n", None),
    ("dtype: float32", "dtype: bfloat16\n  lr: 2", "r.yaml:17 policy.lr: the key is already set in line 12."),
]  # fmt: skip


def errors_of(text: str, path: Path, *overrides: str) -> list[str]:
    path.write_text(text, encoding="utf-8")
    try:
        resolve(load_document("r.yaml", overrides), Recipe)
    except UserErrors as errors:
        return str(errors).splitlines()
    except UserError as error:
        return [str(error)]
    return []


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "r.yaml"


def test_the_base_recipe_is_right(recipe: Path) -> None:
    assert errors_of(BASE, recipe) == []


@pytest.mark.parametrize(("old", "new", "line"), MUTATIONS)
def test_one_mutation_gives_one_line(recipe: Path, old: str, new: str, line: str | None) -> None:
    assert BASE.count(old) == 1
    found = errors_of(BASE.replace(old, new), recipe)
    assert len(found) == (line is not None)
    assert line is None or found[0].startswith(line)


def test_all_mistakes_come_at_once_in_file_order(recipe: Path) -> None:
    text = BASE.replace("seed: 3", "seed: x").replace("weight: 2.5", "wait: 1").replace("lr: 1e-5", "lr: fast")
    assert [line.split(" ")[0] for line in errors_of(text, recipe)] == ["r.yaml:1", "r.yaml:6", "r.yaml:12"]


def test_a_check_between_fields_names_the_section(recipe: Path) -> None:
    text = BASE.replace("lr: 1e-5", "lr: 2").replace("dtype: float32", "dtype: bfloat16")
    assert errors_of(text, recipe) == ["r.yaml:10 policy: bfloat16 needs lr <= 1."]


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("policy.lrr=1", "-o policy.lrr: unknown key 'lrr'. Did you mean lr?"),
        ("task.apple={weight: x}", "-o task.apple.weight: expects a number, got 'x'."),
        ("stages.1.cut.slices.count=x", "-o stages.1.cut.slices.count: expects a whole number, got 'x'."),
        ("stages.7=x", "-o stages.7: the list has no entry '7'. Use an index from 0 to 2 (which appends)."),
        ("stages.first=x", "-o stages.first: the list has no entry 'first'."),
        ("seed", "-o seed: is not of the form key.path=value."),
        ("=3", "-o =3: is not of the form key.path=value."),
        ("seed=[1", "-o seed: the value cannot be read"),
        ("seed.deep=1", "-o seed: expects a whole number, got a mapping."),
    ],
)
def test_an_override_is_named_by_its_option(recipe: Path, override: str, line: str) -> None:
    found = errors_of(BASE, recipe, override)
    assert len(found) == 1
    assert found[0].startswith(line)


def test_errors_name_the_file_that_holds_the_mistake(recipe: Path) -> None:
    (recipe.parent / "base.yaml").write_text(BASE.replace("lr: 1e-5", "lrr: 1e-5"), encoding="utf-8")
    found = errors_of("extends: base.yaml\npolicy:\n  steps: 0\n", recipe)
    assert sorted(found) == [
        "base.yaml:12 policy.lrr: unknown key 'lrr'. Did you mean lr?",
        "r.yaml:3 policy.steps: must be at least 1, got 0.",
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "r.yaml:1 task: required key is missing. Expected: the name of a fruit."),
        ("- 1\n", "r.yaml:1: a recipe is a mapping of keys to values."),
        ("extends: r.yaml\n", "r.yaml: extends itself. Remove one `extends`."),
        ("extends: [a]\n", "r.yaml:1 extends: expects the name of one file."),
        ("extends: gone.yaml\n", "r.yaml:1 extends: there is no file or packaged recipe 'gone.yaml'."),
        ("a: &a [*a]\n", "r.yaml:1 a.0.0.0"),
        ("? [a]\n: 1\n", "r.yaml:1: a key must be a single word."),
        ("a: \x07\n", "r.yaml:1: is not valid YAML: special characters are not allowed."),
    ],
)
def test_files_that_are_not_recipes(recipe: Path, text: str, line: str) -> None:
    assert errors_of(text, recipe)[0].startswith(line)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot read"):
        load_document(tmp_path / "gone.yaml")
    with pytest.raises(UserError, match="no file or packaged recipe 'nonesuch'"):
        load_document("nonesuch")
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9\n")
    with pytest.raises(UserError, match="cannot be read as UTF-8"):
        load_document(tmp_path / "latin.yaml")
