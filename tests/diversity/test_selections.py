"""Selections by recipe: the worked example of every paper, stages, groups, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from polypath.core import registry
from polypath.core.document import packaged
from polypath.core.errors import UserError
from polypath.diversity import quality, selections
from polypath.diversity.partitions import adaptive_leader, k_means

RECIPES = packaged("selections")


def as_arrays(given):
    return {name: np.asarray(value, float) if name == "embeddings" else value for name, value in given.items()}


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_gives_its_worked_example(name):
    text = RECIPES[name].read_text(encoding="utf-8")
    assert len(text.partition("\nexamples:")[0].splitlines()) <= 30
    recipe = yaml.safe_load(text)
    assert recipe["paper"]["confidence"] in ("exact", "partial", "reconstructed") and recipe["paper"]["seed"]
    assert recipe["summary"].strip() and recipe["choices"] and recipe["examples"]
    for example in recipe["examples"]:
        built = selections.build({name: example.get("knobs", {})})
        found = selections.run(built, as_arrays(example["given"]), k=example["k"])
        assert found.indices == example["indices"] and example["derivation"]
        assert found.gains == pytest.approx(example["gains"], abs=example.get("tolerance", 1e-9))


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_in_the_index_and_says_what_it_needs(name):
    entry = registry.entry("selection", name)
    assert entry.paper.endswith("]") and entry.summary
    needs = selections.build(name).needs()
    example = yaml.safe_load(RECIPES[name].read_text(encoding="utf-8"))["examples"][0]["given"]
    assert any(needs.values()) and (set(example) & set(needs) or name == "one_problem_many_solutions")


def test_every_system_of_selection_has_its_recipe():
    seeds = {yaml.safe_load(path.read_text(encoding="utf-8"))["paper"]["seed"] for path in RECIPES.values()}
    wanted = "1.117 2.64 2.65 0.55 0.80 2.6 0.91 2.5 2.118 1.22 0.76 1.49 0.72 2.63 0.13 1.96 2.67"
    assert seeds >= set(wanted.split())


def test_solutions_are_chosen_within_problems_and_problems_by_their_routes():
    """Problem b has two routes, a one: b comes first, and with one problem alone."""
    texts = ["Try 1.", "Try 12.", "Let x be 2. Check it.", "Try 123."]
    found = selections.run_groups(selections.build("route_diversity"), {"texts": texts}, list("aabb"), k=2)
    assert [(group.label, group.found.indices) for group in found] == [("b", [3, 2]), ("a", [0, 1])]
    one = selections.build({"route_diversity": {"problems": 1}})
    assert [g.label for g in selections.run_groups(one, {"texts": texts}, list("aabb"), k=2)] == ["b"]


def test_steps_of_texts_are_embedded_in_one_call():
    calls = []

    def embed(texts):
        calls.append(list(texts))
        return np.eye(2)[[len(text) % 2 for text in texts]]

    texts = ["1. ab\n2. abc", "1. ab", ""]
    found = quality.step_embeddings(texts, embed).values
    assert calls == [["ab", "abc", "ab"]] and [len(one) for one in found] == [2, 1, 0]
    assert found[0].tolist() == [[1, 0], [0, 1]]
    picks = selections.run(selections.build("one_problem_many_solutions"), {"texts": texts[:2], "embed": embed}, k=1)
    assert picks.gains == [0.0]  # the shorter one's only step has its like


def test_within_groups_equals_each_group_alone_and_keeps_what_is_included():
    rng = np.random.default_rng(0)
    rows, groups = rng.normal(size=(30, 5)), [i % 3 for i in range(30)]
    recipe = selections.build("dpp")
    for group in selections.run_groups(recipe, {"embeddings": rows}, groups, k=4, chosen=[7, 2]):
        index = [i for i in range(30) if groups[i] == group.label]
        inside = [index.index(i) for i in (2, 7) if i in index]
        alone = selections.run(recipe, {"embeddings": rows[index]}, k=4, chosen=inside)
        assert group.found.indices == [index[i] for i in alone.indices]
    few = selections.run_groups(recipe, {"embeddings": rows}, groups, k=99)
    assert [len(group.found) for group in few] == [10, 10, 10]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("dppp", "Did you mean dpp"),
        ("flowbnk", "Did you mean flowbank"),
        ({"d3": {"lest": 1}}, "Did you mean least"),
        ({"dpp": {"rige": 1}}, "Did you mean ridge"),
        ({"dpp": {"ridge": "wide"}}, "does not fit"),
        ("none.yaml", "is not a file"),
        ({"a": {}, "b": {}}, "Write a name"),
    ],
)
def test_mistakes(spec, message):
    with pytest.raises(UserError, match=message):
        selections.build(spec)


def test_files_of_your_own(tmp_path: Path):
    path = tmp_path / "mine.yaml"
    path.write_text("select:\n- selector: {mmr: {trade_off: 1.0}}\n  from: {quality: score}\n")
    recipe = selections.build(str(path))
    assert recipe.needs() == {"embeddings": True, "score": True}
    assert selections.run(recipe, {"embeddings": np.eye(3), "score": [1, 3, 2]}, k=2).indices == [1, 2]
    for body, message in (
        ("select: [{kernel: lcs}]", "does not end in its one selector"),
        ("select: []", "does not end in its one selector"),
        ("select: [{selector: dpp, from: {rows: x}}]", "takes no 'rows'"),
        ("select: [{stage: dpp}]", "not a kind of stage"),
    ):
        path.write_text(body)
        with pytest.raises(UserError, match=message):
            selections.build(str(path))


def test_what_a_recipe_is_not_given_or_cannot_do():
    with pytest.raises(UserError, match="needs difficulty"):
        selections.run(selections.build("d3"), {"embeddings": np.eye(2)}, k=1)
    with pytest.raises(UserError, match="cannot continue a selection"):
        selections.run(selections.build("quota"), {"labels": "ab", "quality": [1, 2]}, k=1, chosen=[0])
    with pytest.raises(UserError, match="no target"):
        selections.run(selections.build("social_choice"), {"attributes": [["m"]]}, k=1)
    with pytest.raises(UserError, match="one per item"):
        selections.run_groups(selections.build("infinite"), {"columns": np.eye(3)}, [0, 1], k=1)


def test_scores_of_several_columns():
    with pytest.raises(UserError, match="not finite"):
        quality.product([0.5, np.nan])
    with pytest.raises(UserError, match="2 losses and 1 entropies"):
        quality.uncertain_loss([[1, 2]], [[0]], vocabulary=5)
    with pytest.raises(UserError, match="vocabulary"):
        quality.uncertain_loss([[1]], [[0]], vocabulary=1)


def test_clusters_of_rows():
    rows = np.array([[1, 0], [0, 1], [1, 0.1], [0.1, 1], [1, 0]])
    assert k_means(rows, clusters=2).tolist() == adaptive_leader(rows).tolist() == [0, 1, 0, 1, 0]
    assert k_means(np.ones((4, 2)), clusters=3).tolist() == [0, 0, 0, 0]  # copies are one
    tight = np.array([[1, 0], [1, 0.01], [1, 0.0], [1, 0.01], [1, 0.5]])
    assert adaptive_leader(tight).tolist() == [0, 0, 0, 0, 1]  # far from what has joined so far, though above `start`
    with pytest.raises(UserError, match="at least one"):
        k_means(rows, clusters=0)
