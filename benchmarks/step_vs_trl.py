"""A training step of ours against one of stock TRL GRPO: the same recipe, model, group sizes and completion lengths.

Every measurement is a fresh process, so that peak memory is its own; the sides alternate, and ratios are taken within
a round, so that a busy machine slows both. Completions have a fixed length on both sides (nothing stops them), rewards
alternate, and dead groups are not skipped: the work is alike.

Run: python benchmarks/step_vs_trl.py [--tiny] [--rounds 3] [--steps 3] [--groups 2] [--new 8] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

PROMPT = "Name a colour. Answer with one word."
SIZE, LR = 8, 1e-5
# "trl" is TRL as it comes, which recomputes activations in the backward pass; "trl-keep" keeps them, as we do.
SIDES = ("ours", "trl", "trl-keep")
MEASURES = {"wall_s": "wall s/step", "cpu_s": "CPU s/step", "peak_gib": "peak GiB", "idle_gib": "GiB before"}


@dataclass
class Clock:
    """Wall and CPU seconds of each step; the first, which warms up, is left out."""

    marks: list[tuple[float, float]] = field(default_factory=list)
    idle: float = 0.0  # peak memory before the first step

    def mark(self) -> None:
        self.marks.append((time.perf_counter(), time.process_time()))

    def per_step(self) -> tuple[float, float]:
        steps = list(zip(self.marks[1:], self.marks[2:], strict=False))
        wall, cpu = zip(*((b[0] - a[0], b[1] - a[1]) for a, b in steps), strict=True)
        return statistics.median(wall), statistics.median(cpu)


def peak_gib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # kilobytes on Linux


def load(tiny: bool):
    """Model, tokenizer and whether prompts are conversations."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

    from polypath.engines.aliases import resolve_model
    from polypath.engines.tiny import word_tokenizer

    torch.manual_seed(0)
    if tiny:
        words = sorted({*PROMPT.split(), *(f"w{i}" for i in range(50))})
        tokenizer = word_tokenizer(words)
        size = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
        ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
        return LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **size, **ends)), tokenizer, False
    path = resolve_model("smollm2")
    return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32), AutoTokenizer.from_pretrained(path), True


def lora_config():
    from peft import LoraConfig

    return LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM")


class Alternating:
    """One prompt, and rewards 1, 0, 1, 0, ... in the order of sampling, so that every group has a gradient."""

    name = "alternating"

    def __init__(self, chat: bool) -> None:
        self.chat, self.asked = chat, 0

    def prompts(self, split, *, n, seed=0):
        from polypath.tasks.protocol import Prompt

        return [Prompt("p", PROMPT)]

    def verify(self, prompt, text):
        from polypath.tasks.protocol import Score

        self.asked += 1
        return Score(float(self.asked % 2), bool(self.asked % 2), text, canonical=text)


def ours(options: argparse.Namespace, folder: Path, clock: Clock) -> None:
    from polypath.core.recipe_types import Call
    from polypath.core.rundir import RunDir
    from polypath.engines.transformers import TransformersPolicy
    from polypath.train.config import ModelConfig, OptimConfig, Recipe, RolloutConfig, TrainConfig
    from polypath.train.execute import build_session
    from polypath.train.processes import Processes
    from polypath.train.rl import train_step

    model, tokenizer, chat = load(options.tiny)
    if options.mode == "lora":
        from peft import get_peft_model

        model = get_peft_model(model, lora_config())
    policy = TransformersPolicy(model, tokenizer, name="bench")
    policy.stop_ids = ()  # nothing ends a completion
    recipe = Recipe(
        task=Call("task", "colours"),
        model=ModelConfig("smollm2"),
        rollout=RolloutConfig(group_size=SIZE, max_new_tokens=options.new),
        credit=Call("credit", "grpo"),
        train=TrainConfig(steps=options.steps + 1, prompts_per_step=options.groups, skip_dead_groups=False),
        optim=OptimConfig(lr=LR),
    )
    session = build_session(recipe, Alternating(chat), policy, RunDir(folder), Processes())
    clock.idle = peak_gib()
    clock.mark()
    for step in range(options.steps + 1):
        metrics = train_step(session, step)
        if metrics["generated_tokens"] != options.groups * SIZE * options.new or not metrics["grad_norm"] > 0:
            raise SystemExit(f"not the work that was meant: {metrics}")
        clock.mark()


def trl(options: argparse.Namespace, folder: Path, clock: Clock, keep: bool = False) -> None:
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    class Marks(TrainerCallback):
        def on_train_begin(self, *args, **_):
            clock.mark()

        def on_step_end(self, *args, **_):
            clock.mark()

    model, tokenizer, chat = load(options.tiny)
    config = GRPOConfig(
        output_dir=str(folder),
        use_cpu=True,
        bf16=False,
        learning_rate=LR,
        lr_scheduler_type="constant",
        beta=0.0,
        loss_type="grpo",
        num_generations=SIZE,
        per_device_train_batch_size=options.groups * SIZE,
        max_completion_length=options.new,
        generation_kwargs={"min_new_tokens": options.new},
        max_steps=options.steps + 1,
        logging_steps=1,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        **({"gradient_checkpointing": False} if keep else {}),
    )
    prompt = [{"role": "user", "content": PROMPT}] if chat else PROMPT
    trainer = GRPOTrainer(
        model,
        lambda prompts, **_: [float(i % 2) for i in range(len(prompts))],
        config,
        train_dataset=Dataset.from_list([{"prompt": prompt}] * 8),
        processing_class=tokenizer,
        peft_config=lora_config() if options.mode == "lora" else None,
        callbacks=[Marks()],
    )
    clock.idle = peak_gib()
    trainer.train()
    for row in trainer.state.log_history:
        if "grad_norm" in row and not (row["grad_norm"] > 0 and row["completions/mean_length"] == options.new):
            raise SystemExit(f"not the work that was meant: {row}")


def work(options: argparse.Namespace) -> None:
    """One process: train, and print what a step costs."""
    clock = Clock()
    side = {"ours": ours, "trl": trl, "trl-keep": lambda *given: trl(*given, keep=True)}[options.work]
    with tempfile.TemporaryDirectory() as folder:
        side(options, Path(folder), clock)
    wall, cpu = clock.per_step()
    print(json.dumps({"wall_s": wall, "cpu_s": cpu, "peak_gib": peak_gib(), "idle_gib": clock.idle}))


def measure(side: str, mode: str, options: argparse.Namespace) -> dict[str, float]:
    command = [sys.executable, __file__, "--work", side, "--mode", mode, "--steps", str(options.steps)]
    command += ["--groups", str(options.groups), "--new", str(options.new)]
    command += ["--tiny"] if options.tiny else []
    quiet = {"OMP_WAIT_POLICY": "PASSIVE", "HF_HUB_DISABLE_TELEMETRY": "1", "TRL_EXPERIMENTAL_SILENCE": "1"}
    environment = {**os.environ, **quiet, "OMP_NUM_THREADS": str(options.threads), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"{side} {mode} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def summary(rounds: list[dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Medians of each side, and ours / theirs as the median of the rounds' ratios."""
    found = {side: {m: statistics.median(r[side][m] for r in rounds) for m in MEASURES} for side in SIDES}
    for side in SIDES[1:]:
        found[f"ours / {side}"] = {m: statistics.median(r["ours"][m] / r[side][m] for r in rounds) for m in MEASURES}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="a tiny random model instead of SmolLM2-135M")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3, help="measured steps a process, after one to warm up")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--groups", type=int, default=2, help="prompts a step")
    parser.add_argument("--new", type=int, default=8, help="new tokens of every completion")
    parser.add_argument("--modes", nargs="+", default=["full", "lora"], choices=["full", "lora"])
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--work", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--mode", default="full", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options)
        return
    results = {}
    for mode in options.modes:
        rounds = []
        for number in range(options.rounds):
            order = SIDES if number % 2 == 0 else SIDES[::-1]
            rounds.append({side: measure(side, mode, options) for side in order})
            print(f"{mode} round {number + 1}: {json.dumps(rounds[-1])}", file=sys.stderr)
        results[mode] = {"rounds": rounds, "summary": summary(rounds)}
        print(f"\n{mode}: {options.groups} groups of {SIZE}, {options.new} new tokens, {options.threads} thread(s)")
        print(f"{'':18}" + "".join(f"{label:>14}" for label in MEASURES.values()))
        for name, row in results[mode]["summary"].items():
            print(f"{name:18}" + "".join(f"{row[m]:14.2f}" for m in MEASURES))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
