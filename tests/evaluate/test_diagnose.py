"""Every diagnosis on a made-up run that has exactly that pathology; a healthy run has none, and all is checked."""

import json
import re

import numpy as np
import pytest

from polypath.core.document import packaged
from polypath.core.errors import UserError
from polypath.core.files import JsonlWriter
from polypath.core.record import Rollout
from polypath.core.store import RolloutWriter
from polypath.credit.methods import methods
from polypath.evaluate.diagnose import diagnose
from polypath.evaluate.pathologies import PATHOLOGIES
from polypath.evaluate.trace import Trace, ends, similarity

STEPS = 100
HEALTHY = {  # metric -> its course over t from 0 to 1
    "reward": lambda t: 0.3 + 0.3 * t,
    "correct": lambda t: 0.3 + 0.3 * t,
    "length": lambda t: 20.0 + 1.0 * t,
    "length_drift": lambda t: 0.05 * t,
    "truncated": lambda t: 0.01,
    "invalid": lambda t: 0.03,
    "failed": lambda t: 0.0,
    "discarded": lambda t: 0.1,
    "foreign": lambda t: 0.0,
    "sampled_entropy": lambda t: 1.0 - 0.3 * t,
    "frac_all_correct": lambda t: 0.05 + 0.2 * t,
    "frac_all_wrong": lambda t: 0.3 - 0.2 * t,
    "frac_tied": lambda t: 0.35,
    "frac_signal_from_diversity": lambda t: 0.3,
    "frac_moved_by_diversity": lambda t: 0.6,
    "frac_diversity_varies": lambda t: 0.9,
    "diversity_gate_open": lambda t: 0.4,
    "distinct_per_correct_set": lambda t: 2.0 + 0.3 * t,
    "top_answer_mass": lambda t: 0.4 + 0.2 * t,
    "corr_credit_length": lambda t: 0.05,
    "std_inflated_groups": lambda t: 0.0,
    "diversity_to_wrong": lambda t: 0.0,
    "between_context_share": lambda t: 0.2,
    "correct_in_context": lambda t: 0.4 + 0.3 * t,
    "correct_bare": lambda t: 0.3 + 0.3 * t,
    "sampler_mismatch": lambda t: 1e-4,
    "skipped_update": lambda t: 0.0,
    "groups": lambda t: 16.0,
}
SICK = {
    "all_wrong": {"frac_all_wrong": lambda t: 0.5},
    "all_right": {"frac_all_correct": lambda t: 0.2 + 0.4 * t},
    "solutions_lost": {"distinct_per_correct_set": lambda t: 2.3 - t},
    "sharpening": {},
    "confidently_wrong": {"top_answer_mass": lambda t: 0.2 + 0.7 * t},
    "texts_converge": {},
    "entropy_collapse": {"sampled_entropy": lambda t: 1.0 - 0.95 * t},
    "entropy_explosion": {"sampled_entropy": lambda t: 0.5 + 1.5 * t},
    "contexts_decide": {"between_context_share": lambda t: 0.85},
    "contexts_ignored": {"between_context_share": lambda t: -0.01},
    "context_dependence": {"correct_in_context": lambda t: 0.4 + 0.55 * t, "correct_bare": lambda t: 0.3 + 0.1 * t},
    "truncated": {"truncated": lambda t: 0.2 * t},
    "malformed": {"invalid": lambda t: 0.2 * t},
    "length_drift": {"length_drift": lambda t: -0.5 * t},
    "length_paid": {"corr_credit_length": lambda t: -0.6},
    "spread_inflated": {"std_inflated_groups": lambda t: 4.0},
    "diversity_pays_wrong": {"diversity_to_wrong": lambda t: 0.2},
    "diversity_dominates": {
        "frac_signal_from_diversity": lambda t: 0.9,
        "correct": lambda t: 0.5 - 0.1 * t,
        "top_answer_mass": lambda t: 0.4,
    },
    "diversity_silent": {
        "frac_signal_from_diversity": lambda t: 0.0,
        "frac_moved_by_diversity": lambda t: 0.0,
        "diversity_gate_open": lambda t: 0.0,
    },
    "off_policy": {"foreign": lambda t: 0.6},
    "sampler_mismatch": {"sampler_mismatch": lambda t: 0.2},
    "discarded": {"discarded": lambda t: 0.8},
    "unverified": {"failed": lambda t: 0.04},
    "skipped_updates": {"skipped_update": lambda t: 0.2},
}
WORDS = [f"w{i}" for i in range(40)]


def write_evaluation(path, step, right):
    """Problem i has right[i] correct of 4 samples."""
    with RolloutWriter(path / f"step-{step:06d}.jsonl") as writer:
        for i, count in enumerate(right):
            writer.write(Rollout(f"p{i}", f"p{i}", j, "", correct=j < count, canonical=str(j)) for j in range(4))


def write_run(path, changed=(), *, steps=STEPS, noise=0.01, converge=False, last=(2,) * 12):
    rng = np.random.default_rng(0)
    courses = {**HEALTHY, **dict(changed)}
    path.mkdir(parents=True, exist_ok=True)
    rows = []
    for step in range(steps):
        t = step / max(steps - 1, 1)
        if step in (0, steps - 1):
            rows.append({"step": step, "eval/pass@1": 0.3})
        values = {name: course(t) for name, course in courses.items()}
        rows.append({"step": step} | {n: v + noise * rng.normal() * (v != 0) for n, v in values.items()})
    texts = [WORDS[:2] if converge and step >= steps / 2 else WORDS for step in range(steps)]
    rollouts = [
        Rollout("p", f"{step}/p", i, " ".join(rng.choice(texts[step], 6)), step=step, rewards={"task": 1.0})
        for step in range(steps)
        for i in range(4)
    ]
    with JsonlWriter(path / "metrics.jsonl") as metrics, RolloutWriter(path / "rollouts.jsonl") as writer:
        metrics.write(rows)
        writer.write(rollouts)
    (path / "evaluation").mkdir(exist_ok=True)
    for step, right in ((0, (1,) * 12), (steps, last)):
        write_evaluation(path / "evaluation", step, right)
    return path


# From one right of four in each problem (pass@1 .25, pass@4 1) to all or nothing: .5 and .5, standard error .151
SHARP = (4,) * 6 + (0,) * 6


def names(path):
    return [found.name for found in diagnose(Trace.read(path)).diagnoses]


def test_a_healthy_run_has_no_diagnosis_and_all_is_checked(tmp_path):
    findings = diagnose(Trace.read(write_run(tmp_path)))
    assert findings.diagnoses == [] and findings.unknown == []
    assert findings.healthy == [each.name for each in PATHOLOGIES] and findings.steps == STEPS


@pytest.mark.parametrize("name", [each.name for each in PATHOLOGIES])
def test_a_run_with_exactly_one_pathology(name, tmp_path):
    options = {"texts_converge": {"converge": True}, "sharpening": {"last": SHARP}}.get(name, {})
    path = write_run(tmp_path, SICK[name].items(), **options)
    (found,) = diagnose(Trace.read(path)).diagnoses
    assert found.name == name and found.remedies and re.search(r"\d", found.evidence)


def test_evidence_holds_the_numbers_and_the_steps(tmp_path):
    (found,) = diagnose(Trace.read(write_run(tmp_path, SICK["all_wrong"].items(), noise=0.0))).diagnoses
    assert found.evidence == "frac_all_wrong is 0.5 in steps 80-99 (healthy: at most 0.4)"
    (found,) = diagnose(Trace.read(write_run(tmp_path / "b", last=SHARP))).diagnoses
    told = "pass@1 went from 0.25 to 0.5; pass@4 went from 1 to 0.5 on the same 12 problems (standard error 0.151)"
    assert found.evidence == told


def test_a_silent_signal_is_told_with_the_place_where_it_is_lost(tmp_path):
    (found,) = diagnose(Trace.read(write_run(tmp_path, SICK["diversity_silent"].items(), noise=0.0))).diagnoses
    assert found.evidence == (
        "diversity makes up 0 of the credit in steps 80-99 (healthy: at least 0.005); "
        "it moves credit in 0 of the groups; the signal differs between rollouts in 0.9 of the groups; "
        "its gate is open for 0 of the rollouts"
    )


def test_a_method_without_diversity_is_not_silent(tmp_path):
    """GRPO reports 0 of its credit from diversity, and has none that could be moved."""
    without = dict.fromkeys(
        ("frac_moved_by_diversity", "frac_diversity_varies", "diversity_gate_open"), lambda t: np.nan
    )
    path = write_run(tmp_path, {"frac_signal_from_diversity": lambda t: 0.0, **without}.items())
    findings = diagnose(Trace.read(path))
    assert findings.diagnoses == [] and findings.unknown == ["diversity_silent"]


def test_one_problem_lost_is_within_the_noise(tmp_path):
    assert names(write_run(tmp_path, last=(0,) + (3,) * 11)) == []


def test_a_change_within_the_noise_is_none(tmp_path):
    """The drop of .6 is 30 % of the start; with a noise of 3 the means of 20 steps have an error of .67 each."""
    course = {"distinct_per_correct_set": lambda t: 2.0 - 0.6 * (t > 0.5)}
    assert names(write_run(tmp_path / "clear", course.items())) == ["solutions_lost"]
    rng = np.random.default_rng(1)
    wild = {"distinct_per_correct_set": lambda t: 2.0 - 0.6 * (t > 0.5) + 3.0 * rng.normal()}
    assert names(write_run(tmp_path / "wild", wild.items())) == []


def test_a_run_of_one_step_shows_no_change_and_missing_metrics_are_unknown(tmp_path):
    path = write_run(tmp_path, steps=1)
    findings = diagnose(Trace.read(path))
    assert {"entropy_collapse", "texts_converge", "truncated"} <= set(findings.unknown) and not findings.diagnoses
    (path / "metrics.jsonl").write_text('{"step": 0, "reward": 0.5, "frac_all_wrong": null}\n')
    (path / "rollouts.jsonl").unlink()
    (path / "evaluation" / "step-000000.jsonl").unlink()
    findings = diagnose(Trace.read(path))
    assert len(findings.unknown) == len(PATHOLOGIES) and not findings.healthy


def test_only_runs_of_reinforcement_learning_are_explained(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 0, "loss": 0.5}\n')
    with pytest.raises(UserError, match="no metrics of a reinforcement-learning run"):
        Trace.read(tmp_path)


def test_the_two_ends_of_a_long_file_are_read_in_whole_groups(tmp_path):
    path = write_run(tmp_path) / "rollouts.jsonl"
    early, late = ends(path, size=5000)
    assert all(len(group) == 4 for group in early + late)
    assert early[0][0].step == 0 and late[-1][0].step == STEPS - 1 and early[-1][0].step < late[0][0].step
    with path.open("a") as file:
        file.write('{"prompt_id": "p", "gro')  # killed while it wrote
    assert ends(path, size=5000)[1][-1][0].step == STEPS - 1
    whole = ends(path)
    assert len(whole[0]) == 20 and whole[1][-1][0].step == STEPS - 1  # a fifth of the groups


def test_similarity_by_hand():
    """Word pairs ab, bc and ab, bd share one of three; single words are compared as words, empty texts left out."""

    def group(*texts):
        return [Rollout("p", "g", i, text) for i, text in enumerate(texts)]

    assert similarity([group("a b c", "a b d")]) == (pytest.approx(1 / 3), 0.0, 1)
    mean, error, n = similarity([group("a", "a", ""), group("a", "b"), group("x")])
    assert (mean, n) == (0.5, 2) and error == pytest.approx(0.5)
    assert np.isnan(similarity([group("", "a")])[0])


def test_remedies_name_methods_and_plans_that_exist():
    text = "\n".join(remedy for each in PATHOLOGIES for remedy in each.remedies)
    assert {"rarity", "dapo"} < set(re.findall(r"credit: (\w+)", text)) <= set(methods())
    assert set(re.findall(r"rollout\.plan: (\w+)", text)) <= set(packaged("plans"))
    assert len({each.name for each in PATHOLOGIES}) == len(PATHOLOGIES) == len(SICK)


def test_the_command_prints_findings_as_text_and_as_json(tmp_path, capsys):
    from polypath.cli.explain import command

    write_run(tmp_path / "study" / "a", SICK["all_wrong"].items())
    write_run(tmp_path / "study" / "b")
    command([tmp_path / "study"])
    shown = capsys.readouterr().out
    assert (
        f"1 of {len(PATHOLOGIES)} checks found something" in shown
        and "all_wrong (Generate)" in shown
        and "- larger groups" in shown
    )
    command([tmp_path / "study" / "a"], as_json=True)
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert run["diagnoses"][0]["name"] == "all_wrong" and run["steps"] == STEPS
    with pytest.raises(UserError, match="holds no run"):
        command([tmp_path / "nowhere"])
