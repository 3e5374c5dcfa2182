"""Formulations that must give the same weights: micro-batches, packing, skipped groups, repeated runs."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import pytest
import torch
from safetensors.torch import load_file

from polypath.cli.train import summarise
from polypath.core.record import Rollout
from polypath.core.rundir import RunDir
from polypath.core.store import read_rollouts
from polypath.engines.protocol import Row
from polypath.engines.transformers import TransformersPolicy
from polypath.train.rl import sampled_entropy
from polypath.train.run import RunRequest, load_recipe, run


def trained(recipe: Path, output: Path, *overrides: str) -> dict[str, torch.Tensor]:
    run(RunRequest(load_recipe(str(recipe), overrides), output), summarise=summarise, show_progress=False)
    return load_file(output / "model" / "model.safetensors")


def distance(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> float:
    return max(float((a[name] - b[name]).abs().max()) for name in a)


def test_a_run_can_be_repeated_to_the_bit_and_moves_the_weights(recipe: Path, start: Path, tmp_path: Path) -> None:
    first, second = (trained(recipe, tmp_path / name, "train.steps=3") for name in "ab")
    assert distance(first, second) == 0.0
    assert distance(first, load_file(start / "model.safetensors")) > 1e-4
    files = [(tmp_path / name / "rollouts.jsonl").read_bytes() for name in "ab"]
    assert files[0] == files[1] and len(files[0].splitlines()) == 3 * 4 * 8


@pytest.mark.parametrize(
    "override",
    ["train.tokens_per_microbatch=40", "model.packing=dense", "train.skip_dead_groups=false"],
)
def test_the_same_steps_in_another_form(override: str, recipe: Path, tmp_path: Path) -> None:
    """Equal losses, gradients, samples and weights. A large `eps` keeps Adam from turning the rounding of a gradient
    that is 0 (a bias of the keys) into a step of full length."""
    shared = ("train.steps=4", "model.packing=packed", "optim.eps=0.001", "optim.lr=0.002")
    weights = [trained(recipe, tmp_path / "plain", *shared), trained(recipe, tmp_path / "other", *shared, override)]
    assert distance(*weights) < 1e-5
    plain, other = (RunDir(tmp_path / name) for name in ("plain", "other"))
    assert len(plain.read_metrics()) == 4
    for a, b in zip(plain.read_metrics(), other.read_metrics(), strict=True):
        assert a["loss"] == pytest.approx(b["loss"], abs=1e-5)
        assert a["grad_norm"] == pytest.approx(b["grad_norm"], rel=1e-3)
    texts = [[row.text for row in read_rollouts(run.rollouts)] for run in (plain, other)]
    assert texts[0] == texts[1]


def drift(model: Path, start: Path, rollouts: Path) -> float:
    """Estimated KL from the start to the model in nats per answer, on the answers that the start drew first."""
    rows = [Row(tuple(r.prompt_ids), tuple(r.ids)) for r in read_rollouts(rollouts) if r.step == 0]
    sums = [
        [float(logp.sum()) for logp in TransformersPolicy.load(str(path)).score(rows).logp] for path in (start, model)
    ]
    return fmean(a - b for a, b in zip(*sums, strict=True))


def test_kl_pulls_towards_the_start(recipe: Path, start: Path, tmp_path: Path) -> None:
    """What is pulled is the distribution; the weights may move as far as they like (Adam divides by the gradient)."""
    shared = ("optim.lr=0.003", "train.steps=20")
    trained(recipe, tmp_path / "free", *shared)
    trained(recipe, tmp_path / "held", *shared, "train.kl=3.0")
    free, held = (
        drift(tmp_path / name / "model", start, tmp_path / name / "rollouts.jsonl") for name in ("free", "held")
    )
    assert 0 < held < 0.75 * free
    measured = [row["kl"] for row in RunDir(tmp_path / "held").read_metrics() if "kl" in row]
    assert measured[0] == pytest.approx(0.0, abs=1e-6) and max(measured) > 1e-4


def test_several_updates_use_the_old_log_probabilities(recipe: Path, tmp_path: Path) -> None:
    trained(recipe, tmp_path / "run", "train.updates_per_batch=3", "optim.lr=0.01", "train.steps=4")
    rows = RunDir(tmp_path / "run").read_metrics()
    # with one update the ratio is 1 and nothing is clipped; at this rate the third one moves beyond the clip range
    assert max(row.get("clipped_high", 0.0) + row.get("clipped_low", 0.0) for row in rows) > 0.0


def test_metrics_say_where_the_signal_came_from(recipe: Path, tmp_path: Path) -> None:
    trained(recipe, tmp_path / "run", "train.steps=2")
    for row in RunDir(tmp_path / "run").read_metrics():
        assert row["groups"] == 4 and row["rollouts"] == 32
        assert 0.0 <= row["reward"] <= 1.0 and row["generated_tokens"] > 0
        assert {"frac_all_correct", "frac_all_wrong", "frac_tied", "frac_signal_from_diversity"} <= row.keys()


def test_dr_grpo_takes_its_length_from_the_rollout(recipe: Path, tmp_path: Path) -> None:
    trained(recipe, tmp_path / "run", "credit=dr_grpo", "train.steps=1")
    assert RunDir(tmp_path / "run").read_metrics()[0]["loss"] == pytest.approx(0.0, abs=1.0)


def test_metrics_of_the_rollouts_themselves(recipe: Path, tmp_path: Path) -> None:
    trained(recipe, tmp_path / "run", "train.steps=3")
    run_dir = RunDir(tmp_path / "run")
    rows, rollouts = run_dir.read_metrics(), read_rollouts(run_dir.rollouts)
    for step, row in enumerate(rows):
        mine = [r for r in rollouts if r.step == step]
        logp = [p for r in mine for p in r.logp_sampling or ()]
        assert row["sampled_entropy"] == pytest.approx(-sum(logp) / len(logp))
        assert (row["foreign"], row["discarded"]) == (0.0, 0.0)
        assert row["invalid"] == sum(r.canonical is None and r.answer is None for r in mine) / len(mine)
        assert row.get("sampler_mismatch", 0.0) < 1e-4  # the trainer scores what the sampler drew alike
    lengths = [row["length"] for row in rows]
    assert rows[0]["length_drift"] == 0.0
    assert rows[2]["length_drift"] == pytest.approx(lengths[2] / fmean(lengths) - 1, abs=1e-6)


def test_entropy_leaves_out_what_was_not_drawn() -> None:
    rows = [
        Rollout("p", "g", 0, "", ids=[1, 2, 3], logp_sampling=[0.0, -1.0, -3.0], forced_mask=[1, 0, 0]),
        Rollout("p", "g", 1, "", ids=[1], logp_sampling=[-9.0], source={"name": "teacher"}),
        Rollout("p", "g", 2, "", ids=[1]),
    ]
    assert sampled_entropy(rows) == 2.0
    assert sampled_entropy(rows[1:]) != sampled_entropy(rows[1:])  # undefined
