"""A made study: a start, a collapsed arm and one that is less collapsed, each with three seeds."""

from __future__ import annotations

import random

import pytest

from polypath.core.files import JsonlWriter
from polypath.core.record import Rollout
from polypath.core.store import RolloutWriter

HOSTILE = '</script><script>document.title="owned"</script><img src="http://example.invalid/x.png" onerror="alert(1)">'
ARMS = {"start": (0.25, 0.1), "grpo": (0.32, 4.0), "rarity 1": (0.28, 1.5)}  # pass@1, how peaked the solutions are


def make_study(root, *, prompts=12, samples=32, seeds=3, steps=40):
    """Write runs as the trainer does: evaluation, curves and training rollouts. One text is hostile HTML."""
    for arm, (p_correct, peak) in ARMS.items():
        for seed in range(seeds):
            rng = random.Random(f"{arm}{seed}")
            run = root / arm / f"seed-{seed}"
            (run / "evaluation").mkdir(parents=True)
            with RolloutWriter(run / "evaluation" / "final.jsonl") as writer:
                writer.write(r for p in range(prompts) for r in answers(rng, p, samples, p_correct, peak))
            rows = []
            for step in range(steps):
                accuracy = 0.25 + (p_correct - 0.25) * step / steps + rng.gauss(0, 0.02)
                if arm != "start":  # the start is evaluated, and not trained
                    rows.append({"step": step, "correct": accuracy, "generated_tokens": 3584, "length": 14.0})
                if step % 10 == 0:
                    collapse = 3.5 - 0.5 * peak * step / steps
                    rows.append({"step": step, "eval/pass@1": accuracy, "eval/distinct": collapse})
            with JsonlWriter(run / "metrics.jsonl") as writer:
                writer.write(rows)
            with RolloutWriter(run / "rollouts.jsonl") as writer:
                for step in (0, steps - 1):
                    group = answers(rng, 100 + step, 8, p_correct, peak)
                    for rollout in group:
                        rollout.step, rollout.group_id = step, f"{step}/0"
                        rollout.advantage = 1.0 if rollout.correct else -0.4
                    writer.write(group)
    return root


def answers(rng, p, n, p_correct, peak):
    """`n` answers to problem p, whose four solutions have shares that fall like exp(-peak rank)."""
    weights = [2.718281828 ** (-peak * k) for k in range(4)]
    rows = []
    for i in range(n):
        ok = rng.random() < p_correct
        form = f"{p} + {rng.choices(range(4), weights)[0]}" if ok else f"{p} - {rng.randrange(9)}"
        text = HOSTILE if i == n - 1 and p % 4 == 3 else f"{form} = {p * 7}"
        rows.append(
            Rollout(
                f"problem-{p}",
                f"0/{p}",
                i,
                text,
                prompt=f"{p} 1 2 3 {p * 7} >",
                correct=ok,
                canonical=form,
                rewards={"task": float(ok)},
                tokens={"generated": 14},
                extra={"n_solutions": 4},
            )
        )
    return rows


@pytest.fixture(scope="session")
def study(tmp_path_factory):
    return make_study(tmp_path_factory.mktemp("study"))
