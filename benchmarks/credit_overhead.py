"""What credit and bookkeeping cost of a training step: the pipeline, the record and the metrics, in CPU seconds.

The parts of `train.rl.train_step` are timed inside one run of SmolLM2 with 2 groups of 8 and 8 new tokens: a short
step, of which the overhead is the largest share that a user will see.

Run: OMP_NUM_THREADS=1 python benchmarks/credit_overhead.py [--tiny] [--steps 4] [--methods grpo rarity ...]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from step_vs_trl import SIZE, Alternating, load

from polypath import credit
from polypath.core.recipe_types import Call
from polypath.core.rundir import RunDir
from polypath.engines.transformers import TransformersPolicy
from polypath.train import rl
from polypath.train.config import ModelConfig, Recipe, RolloutConfig, TrainConfig
from polypath.train.execute import build_session
from polypath.train.processes import Processes

GROUPS, NEW = 2, 8  # the shortest step that a user will see
METHODS = ("grpo", "rarity", "dpwriter_reward")


class Timer:
    """CPU seconds by part."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)

    def watch(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **options: Any) -> Any:
            began = time.process_time()
            result = function(*args, **options)
            self.spent[part] += time.process_time() - began
            return result

        return timed


def one_step(session: rl.Session, step: int, method: str) -> dict[str, float]:
    """CPU seconds of a step's parts, credited by `method`."""
    timer, pipeline = Timer(), credit.build(method)
    session.pipeline = timer.watch("credit", pipeline)
    session.pipeline.wanted = pipeline.wanted
    session.writer.write = timer.watch("record", type(session.writer).write.__get__(session.writer))
    plain = rl.attach, rl.rollout_metrics
    rl.attach, rl.rollout_metrics = timer.watch("record", rl.attach), timer.watch("metrics", rl.rollout_metrics)
    began = time.process_time()
    metrics = rl.train_step(session, step)
    timer.watch("metrics", session.run.append_metrics)(metrics)
    timer.spent["step"] = time.process_time() - began
    rl.attach, rl.rollout_metrics = plain
    return timer.spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="a tiny random model: shows that the script runs")
    parser.add_argument("--steps", type=int, default=4, help="measured steps of each method, in turn")
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    options = parser.parse_args()
    model, tokenizer, chat = load(options.tiny)
    policy = TransformersPolicy(model, tokenizer, name="bench")
    policy.stop_ids = ()
    recipe = Recipe(
        task=Call("task", "colours"),
        model=ModelConfig("smollm2"),
        rollout=RolloutConfig(group_size=SIZE, max_new_tokens=NEW),
        credit=Call("credit", "grpo"),
        train=TrainConfig(steps=100, prompts_per_step=GROUPS, skip_dead_groups=False),
    )
    found: dict[str, list[dict[str, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        run = RunDir.open(Path(folder, "run"), "benchmark", "benchmark")
        with run:
            session = build_session(recipe, Alternating(chat), policy, run, Processes())
            rl.train_step(session, 0)  # warms up: the optimiser makes its state
            for round_ in range(options.steps):
                for i, method in enumerate(options.methods):
                    found[method].append(one_step(session, 1 + round_ * len(options.methods) + i, method))
    print(f"{'':18}{'step s':>10}{'credit ms':>12}{'record ms':>12}{'metrics ms':>12}{'share %':>10}")
    for method, steps in found.items():
        cost = {part: statistics.median(s[part] for s in steps) for part in ("step", "credit", "record", "metrics")}
        share = statistics.median((s["credit"] + s["record"] + s["metrics"]) / s["step"] for s in steps)
        parts = "".join(f"{1000 * cost[part]:12.2f}" for part in ("credit", "record", "metrics"))
        print(f"{method:18}{cost['step']:10.2f}{parts}{100 * share:10.2f}")


if __name__ == "__main__":
    main()
