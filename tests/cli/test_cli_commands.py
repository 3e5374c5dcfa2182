"""Each command on small input: what it prints, its JSON, and the user errors it gives."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest
from typer.testing import CliRunner

from polypath.cli import catalogue, check, doctor, extras, show, train
from polypath.cli.main import app
from polypath.core.document import packaged
from polypath.core.errors import UserError

GROUP = {"rewards": [1, 1, 1, 0], "labels": [0, 0, 1, 0]}
RECIPE = """\
task: countdown
model: {name: nowhere}
credit: grpo
rollout: {group_size: 4, max_new_tokens: 10}
train: {steps: 5, prompts_per_step: 3}
evaluate: {prompts: 2, samples: 4, ks: [1, 4]}
arms: {grpo: {}, rarity: {credit: {rarity: {alpha: 1}}}}
seeds: [0, 1]
"""


@pytest.fixture
def run():
    runner = CliRunner()
    return lambda *args, **kwargs: runner.invoke(app, [str(arg) for arg in args], **kwargs)


def data(result):
    """The one JSON object of a run that worked."""
    assert result.exit_code == 0, result.stderr
    assert result.stdout.count("\n") == 1
    return json.loads(result.stdout, parse_constant=pytest.fail)


def rollouts(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def answers(prompts=3, samples=4, right=2):
    """Per prompt `samples` rollouts, the first `right` of them correct, each with its own solution."""
    return [
        {"prompt_id": f"p{p}", "group_id": f"p{p}", "index": i, "text": f"text {i}", "correct": i < right,
         "canonical": f"c{i}", "rewards": {"task": float(i < right)}}
        for p in range(prompts)
        for i in range(samples)
    ]  # fmt: skip


# credit


def test_credit_prints_the_worked_example(run, tmp_path):
    """m = 2, 2, 1: weights .5, .5, 1 scaled by 3/2 to .75, .75, 1.5; mean .75, spread of (1, 1, 1, 0) is .433013."""
    path = tmp_path / "grüppe.json"
    path.write_text(json.dumps(GROUP), encoding="utf-8")
    result = data(run("credit", "rarity", path, "-o", "alpha=1", "--json"))
    assert result["advantages"] == pytest.approx([0, 0, 0.75 / 0.433013, -0.75 / 0.433013], abs=1e-4)
    assert set(result) >= {"advantages", "metrics"}


def test_credit_reads_standard_input_and_prints_a_table(run):
    result = run("credit", "dr_grpo", "-", input=json.dumps(GROUP))
    assert result.exit_code == 0
    assert [line.split()[-1] for line in result.stdout.splitlines()] == ["advantage", "0.25", "0.25", "0.25", "-0.75"]


@pytest.mark.parametrize("rewards", [[1], [None, None], [0, 0, 0]], ids=["group of one", "undefined", "tied"])
def test_credit_of_a_group_without_signal_is_zero(run, rewards):
    result = data(run("credit", "grpo", "-", "--json", input=json.dumps({"rewards": rewards})))
    assert result["advantages"] == [0.0] * len(rewards)


BAD_GROUPS = {
    "": "standard input: is empty.",
    "[1, 2]": "standard input: holds a list, not an object.",
    '{"rewards": [1, 0}': "standard input:1: is not JSON",
    '{"rewards": []}': "the group is empty",
    '{"reward": [1, 0]}': "group.reward: unknown field. Did you mean rewards?",
    '{"rewards": [1, 0], "labels": [0]}': "labels",
    '{"rewards": ["high", 0]}': "group.rewards[0]: 'high' is not a number.",
}


@pytest.mark.parametrize(("text", "message"), BAD_GROUPS.items(), ids=list(BAD_GROUPS.values()))
def test_credit_says_what_is_wrong_with_a_group(run, text, message):
    result = run("credit", "rarity", "-", input=text)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["rarety", "-"], "Did you mean rarity?"),
        (["rarity", "-", "-o", "alhpa=1"], "Did you mean alpha?"),
        (["rarity", "-", "-o", "alpha"], "-o: 'alpha' is not name=value."),
        (["rarity", "missing.json"], "missing.json: cannot be read (No such file or directory)."),
    ],
)
def test_credit_suggests(run, options, message):
    result = run("credit", *options, input=json.dumps(GROUP))
    assert result.exit_code == 2
    assert message in result.stderr


# list, show, init


def test_list_filters_by_kind_text_and_trait(run):
    items = data(run("list", "credit", "--filter", "RARITY", "--json"))["items"]
    assert {"rarity"} <= {item["name"] for item in items} <= {"rarity", "remembered_rarity"}
    traits = data(run("list", "--trait", "zero_mean", "--json"))["items"]
    assert traits
    assert all("zero_mean" in item["traits"] for item in traits)


def test_list_names_everything_that_is_packaged(run):
    items = {(item["kind"], item["name"]) for item in data(run("list", "--json"))["items"]}
    assert {("recipe", name) for name in packaged("recipes")} <= items
    assert {("credit", name) for name in packaged("methods")} <= items


def test_list_suggests_a_kind(run):
    result = run("list", "lss")
    assert (result.exit_code, result.stderr) == (2, "KIND: there is no kind 'lss'. Did you mean loss?\n")


@pytest.mark.parametrize("item", catalogue.catalogue(), ids=lambda item: f"{item.kind}/{item.name}")
def test_show_describes_everything(item, capsys):
    show.command(f"{item.kind}/{item.name}", as_json=False)
    text = capsys.readouterr().out
    assert item.summary.split("\n")[0][:40] in " ".join(text.split()) or item.summary[:40] in text
    for knob in item.entry.knobs if item.entry else ():
        assert knob in text


def test_show_prefers_the_method_and_names_the_others(run):
    result = run("show", "rarity")
    assert result.stdout.startswith("credit/rarity\n")
    assert "polypath show signal/rarity" in result.stderr


def test_the_line_that_show_offers_works(run):
    text = run("show", "rarity").stdout
    group = re.search(r"Try it: echo '(.*)' \| polypath credit rarity -", text)[1]
    expected = json.loads(re.search(r"gives (\[.*\])", text)[1])
    result = data(run("credit", "rarity", "-", "--json", input=group))
    assert result["advantages"] == pytest.approx(expected, abs=1e-4)


def test_show_suggests(run):
    result = run("show", "rarty")
    assert (result.exit_code, result.stderr) == (2, "NAME: there is nothing named 'rarty'. Did you mean rarity?\n")


def test_docstrings_are_read_without_an_import():
    assert show.docstring("polypath.core.seeds:derive").startswith("A 63-bit seed")
    assert show.docstring("polypath.core.rundir:RunDir.close").startswith("Release the lock")
    assert show.docstring("polypath.core.seeds:absent") == ""


def test_init_copies_and_never_overwrites(run, tmp_path):
    name = next(iter(packaged("recipes")), None)
    if name is None:
        pytest.fail("there is no packaged recipe")
    target = tmp_path / "mine.yaml"
    assert run("init", name, "--output", target).exit_code == 0
    assert target.read_bytes() == packaged("recipes")[name].read_bytes()
    target.write_text("mine")
    again = run("init", name, "--output", target)
    assert again.exit_code == 2
    assert "exists already" in again.stderr
    assert target.read_text() == "mine"


def test_init_wants_an_existing_folder_and_name(run, tmp_path):
    assert "there is no recipe named 'qickstart'" in run("init", "qickstart").stderr
    name = next(iter(packaged("recipes")))
    assert "mkdir -p" in run("init", name, "--output", tmp_path / "new" / "mine.yaml").stderr


# check and train


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "Rezept ü.yaml"
    path.write_text(RECIPE, encoding="utf-8")
    return path


def test_check_gives_the_cost(run, recipe):
    facts = data(run("check", recipe, "--json"))
    assert facts["runs"] == 4  # 2 arms x 2 seeds
    assert facts["rollouts_per_step"] == 12  # 3 prompts x 4
    assert facts["max_tokens_per_run"] == 600  # 5 steps x 12 rollouts x 10 tokens
    assert facts["evaluation_rollouts"] == 8
    assert facts["missing_extras"] == []


def test_an_override_changes_the_cost(run, recipe):
    assert data(run("check", recipe, "-o", "train.steps=7", "--json"))["steps"] == 7


def test_check_prints_every_mistake_with_its_line(run, recipe):
    text = RECIPE.replace("countdown", "countdow").replace("steps: 5", "stepps: 5").replace("grpo\n", "grop\n")
    recipe.write_text(text, encoding="utf-8")
    result = run("check", recipe)
    assert result.exit_code == 2
    lines = result.stderr.splitlines()
    assert f"{recipe}:1 task: there is no task named 'countdow'. Did you mean countdown?" in lines
    assert f"{recipe}:3 credit: there is no credit named 'grop'. Did you mean grpo?" in lines
    assert f"{recipe}:5 train.stepps: unknown key 'stepps'. Did you mean steps?" in lines


def test_check_resolves_every_arm(run, recipe):
    recipe.write_text(RECIPE.replace("alpha: 1", "alhpa: 1"), encoding="utf-8")
    result = run("check", recipe)
    assert result.exit_code == 2
    assert "Did you mean alpha?" in result.stderr


@pytest.mark.parametrize("text", ["", "- a\n", "task: [\n"], ids=["empty", "a list", "not YAML"])
@pytest.mark.parametrize("command", ["check", "train"])
def test_a_file_that_is_no_recipe_is_a_user_error(run, recipe, command, text):
    recipe.write_text(text, encoding="utf-8")
    result = run(command, recipe)
    assert result.exit_code == 2
    assert str(recipe) in result.stderr
    assert "Traceback" not in result.stderr


def test_check_refuses_what_cannot_fit(run, recipe, monkeypatch):
    monkeypatch.setattr("polypath.train.cost.memory_needed", lambda recipe: 100 * 2**30)
    monkeypatch.setattr(check, "free_memory", lambda: 4 * 2**30)
    result = run("check", recipe)
    assert result.exit_code == 2
    assert "needs about 100.0 GiB of memory, and 4.0 GiB are free. Lower train.tokens_per_microbatch" in result.stderr


def test_the_memory_of_a_model_on_disk_is_estimated(tmp_path, recipe):
    """A safetensors header of one 1000 x 8 tensor: 8,000 weights, which count four times as far as AdamW goes."""
    from polypath.train.cost import memory_needed
    from polypath.train.run import load_recipe

    model = tmp_path / "model"
    model.mkdir()
    header = json.dumps({"w": {"dtype": "F32", "shape": [1000, 8], "data_offsets": [0, 32000]}}).encode()
    (model / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    (model / "config.json").write_text('{"vocab_size": 1000, "hidden_size": 8, "num_hidden_layers": 2}')
    loaded = load_recipe(
        str(recipe), [f"model.name={model}", "train.tokens_per_microbatch=1000000", "train.prompts_per_step=100000"]
    )
    # 1e6 tokens: logits 3 x 4 x 1000 bytes each = 11.2 GiB, activations 4 x 34 x 8 x 2 = 2.0 GiB, 0.5 for the runtime
    assert memory_needed(loaded) / 2**30 == pytest.approx(11.18 + 2.03 + 0.5, abs=0.1)


def test_missing_extras_are_found_in_the_source(monkeypatch):
    real = extras.importlib.util.find_spec
    absent = {"pyarrow"}
    monkeypatch.setattr(extras.importlib.util, "find_spec", lambda name: None if name in absent else real(name))
    assert extras.missing_extras(["polypath.core.store:write_parquet"]) == ["measure"]
    assert extras.missing_extras(["polypath.core.seeds:derive"]) == []


def test_train_without_torch_gives_the_pip_line(run, recipe, monkeypatch):
    real = train.importlib.util.find_spec
    monkeypatch.setattr(train.importlib.util, "find_spec", lambda name: None if name == "torch" else real(name))
    result = run("train", recipe)
    assert result.exit_code == 2
    assert 'Run: pip install "polypath[train]"' in result.stderr


def test_train_dry_run_is_the_check(run, recipe):
    facts = data(run("train", recipe, "--dry-run", "--seeds", "3", "--json"))
    assert (facts["seeds"], facts["runs"]) == (3, 6)


def test_train_refuses_an_unknown_arm(run, recipe, tmp_path):
    result = run("train", recipe, "--arms", "grpo,rarety", "--output", tmp_path / "run")
    assert result.exit_code == 2
    assert "'rarety'" in result.stderr
    assert not (tmp_path / "run").exists()


def test_seeds_and_directories_are_chosen_alike_every_time(recipe):
    from polypath.train.run import load_recipe

    loaded = load_recipe(str(recipe))
    assert [train.choose_seeds(loaded, count) for count in (None, 1, 2, 3)] == [[0, 1], [0], [0, 1], [0, 1, 2]]
    plain, changed = train.default_output("a/b.yaml", []), train.default_output("a/b.yaml", ["x=1", "y=2"])
    assert plain.as_posix() == "runs/b"
    assert changed == train.default_output("a/b.yaml", ["y=2", "x=1"]) != plain


def test_a_failed_run_leaves_its_traceback_in_its_log(tmp_path):
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(ValueError, match="bad shape") as caught, train.RunLog(tmp_path):
        raise ValueError("bad shape")
    assert "Traceback in" in caught.value.__notes__[0]
    assert "ValueError: bad shape" in (tmp_path / "run.log").read_text()


def test_an_interrupted_run_says_what_is_kept(tmp_path):
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(KeyboardInterrupt) as caught, train.RunLog(tmp_path):
        raise KeyboardInterrupt
    assert "the same command continues it" in caught.value.__notes__[0]


def test_nothing_is_written_into_a_directory_that_is_no_run(tmp_path):
    with pytest.raises(UserError), train.RunLog(tmp_path):
        raise UserError(str(tmp_path), "holds files but no run", "Choose another.")
    assert list(tmp_path.iterdir()) == []


# measure, compare, report


def test_measure_means_over_prompts(run, tmp_path):
    """2 of 4 correct and each its own solution: pass@1 = 1/2, pass@2 = 1 - 1/6, 2 distinct, every pair differs."""
    path = rollouts(tmp_path / "rollöut 1.jsonl", answers())
    result = data(run("measure", path, "--json"))
    values = {name: mean["value"] for name, mean in result["means"].items()}
    assert result["groups"] == 3
    assert (values["pass@1"], values["pass@2"]) == (pytest.approx(1 / 2), pytest.approx(5 / 6))
    assert (values["distinct"], values["pairwise_difference"]) == (2, 1)


def test_measure_says_how_values_were_made_and_whether_measures_agree(run, tmp_path):
    path = rollouts(tmp_path / "a.jsonl", answers())
    result = data(run("measure", path, "-m", "distinct_2", "-m", "hill:q=0", "--json"))
    assert set(result["signatures"]) == {"distinct_2", "hill:q=0"}
    assert result["signatures"]["hill:q=0"].startswith("hill|q=0.0|")
    assert [(pair["a"], pair["b"]) for pair in result["rank_correlations"]] == [("distinct_2", "hill:q=0")]
    rows = [
        {"prompt": f"p{i}", "text": text, "answer": text}
        for i, group in enumerate(["aab", "abc", "aaa"])
        for text in group
    ]
    printed = run("measure", rollouts(tmp_path / "b.jsonl", rows), "-m", "distinct_n:n=1", "-m", "hill:q=0")
    assert "Rank correlation over the groups: distinct_n:n=1 ~ hill:q=0 +1.00." in printed.stderr + printed.stdout


def test_measure_of_a_foreign_csv(run, tmp_path):
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerows([["frage", "antwort"], ["q", "a b"], ["q", "a c"]])
    path = tmp_path / "rows.csv"
    path.write_text(text.getvalue())
    columns = ["--column", "prompt=frage", "--column", "text=antwort"]
    result = data(run("measure", path, *columns, "-m", "distinct_n:n=1", "--json"))
    assert result["means"]["distinct_n:n=1"]["value"] == pytest.approx(3 / 4)  # a b c of a b a c


def test_measure_subtracts_a_second_file(run, tmp_path):
    first = rollouts(tmp_path / "more.jsonl", answers(right=3))
    second = rollouts(tmp_path / "less.jsonl", answers(right=2))
    differences = data(run("measure", first, second, "--json"))["differences"]
    assert {d["metric"]: d["value"] for d in differences}["pass@1"] == pytest.approx(1 / 4)


def test_measure_of_an_empty_completion(run, tmp_path):
    rows = [{**row, "text": ""} for row in answers()]
    assert data(run("measure", rollouts(tmp_path / "a.jsonl", rows), "--json"))["means"]["characters"]["value"] == 0


@pytest.mark.parametrize("command", ["measure", "compare", "report"])
@pytest.mark.parametrize("content", [None, "", "{}\n", "not json\n"], ids=["missing", "empty", "no text", "no json"])
def test_a_file_without_rollouts_is_a_user_error(run, tmp_path, command, content):
    path = tmp_path / "fïle.jsonl"
    if content is not None:
        path.write_text(content)
    result = run(command, path)
    assert result.exit_code == 2
    assert str(path) in result.stderr
    assert "Traceback" not in result.stderr


def test_measure_suggests_a_measure(run, tmp_path):
    result = run("measure", rollouts(tmp_path / "a.jsonl", answers()), "-m", "self_blue")
    assert result.exit_code == 2
    assert "Did you mean self_bleu?" in result.stderr


def test_compare_pairs_arms(run, tmp_path):
    paths = []
    for arm, right in (("grpo", 1), ("rarity", 3)):
        for seed in (0, 1):
            folder = tmp_path / arm / f"seed-{seed}" / "evaluation"
            folder.mkdir(parents=True)
            rollouts(folder / "final.jsonl", answers(right=right))
        paths.append(tmp_path / arm)
    result = data(run("compare", *paths, "-m", "pass@1", "--json"))
    assert [(d["arm"], d["value"]) for d in result["differences"]] == [("rarity", pytest.approx(1 / 2))]
    assert "rarity - grpo" in run("compare", *paths).stdout
    [split] = data(run("compare", *paths, "--branch-words", 1, "--json"))["branches"]
    assert split["difference"]["value"] == pytest.approx(split["allocation"]["value"] + split["skill"]["value"])
    assert (split["difference"]["value"], split["skill"]["n"]) == (pytest.approx(1 / 2), 2)
    assert "split by the first 1 words" in run("compare", *paths, "--branch-words", 1).stdout


def test_report_writes_a_page(run, tmp_path):
    path = rollouts(tmp_path / "grpo_s0.jsonl", answers())
    target = tmp_path / "Seite ü.html"
    result = data(run("report", path, "--output", target, "--json"))
    assert result["report"] == str(target)
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")


# doctor


def test_doctor_gives_the_pip_line_of_a_missing_extra(run, monkeypatch):
    monkeypatch.setattr(doctor, "version", lambda package: None if package == "pyarrow" else "1.0")
    facts = data(run("doctor", "--json"))
    assert facts["extras"]["measure"] == {
        "installed": False,
        "missing": ["pyarrow"],
        "pip": 'pip install "polypath[measure]"',
    }
    assert 'pip install "polypath[measure]"' in run("doctor").stdout


def test_doctor_knows_a_bad_release(monkeypatch):
    monkeypatch.setattr(doctor, "version", lambda package: {"trl": "1.15.0"}.get(package))
    assert [problem["package"] for problem in doctor.problems()] == ["trl 1.15.0"]
    monkeypatch.setattr(doctor, "version", lambda package: {"trl": "1.16.0"}.get(package))
    assert doctor.problems() == []


def test_a_broken_torch_cannot_take_doctor_down(monkeypatch):
    monkeypatch.setattr(doctor, "PROBE", "raise ImportError('libtorch is broken')")
    assert doctor.probe() == {"error": "ImportError: libtorch is broken"}
    monkeypatch.setattr(doctor, "PROBE", "import time; time.sleep(60)")
    monkeypatch.setattr(doctor, "PROBE_SECONDS", 0.2)
    assert "did not start" in doctor.probe()["error"]


def test_the_extras_are_those_of_the_package():
    assert {"train", "tasks", "measure", "report", "server", "dev"} <= set(extras.extras())
    assert "torch" in extras.extras()["train"]
    assert extras.version("polypath-absent") is None


def test_measure_of_plain_texts_needs_no_labels(run, tmp_path):
    path = tmp_path / "plain.jsonl"
    path.write_text('{"prompt": "p", "completion": "a b"}\n{"prompt": "p", "completion": "a c"}\n')
    means = data(run("measure", path, "--json"))["means"]
    assert {"distinct_n", "self_bleu"} <= means.keys() and "pairwise_difference" not in means


def test_measures_and_metrics_that_are_none(run, tmp_path):
    path = tmp_path / "plain.jsonl"
    path.write_text(
        '{"prompt": "p", "completion": "a b", "correct": true}\n{"prompt": "p", "completion": "a", "correct": false}\n'
    )
    for order in ("0", "-1"):
        result = run("measure", path, "-m", f"distinct_n:n={order}")
        assert result.exit_code == 2 and f"none of order {order}" in result.stderr
    other = tmp_path / "other.jsonl"
    other.write_text(path.read_text())
    result = run("compare", path, other, "-m", "pass@11")
    assert result.exit_code == 2 and "Did you mean pass@1" in result.stderr
