"""What a decision costs: the packed label tree against one pass a label, a bare prefill, and eight questions.

Run: OMP_NUM_THREADS=1 python benchmarks/decide.py [--rounds 3] [--model smollm2]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch

from polypath.decide.readout import ask, branch_rows, label_tree
from polypath.decide.types import Choice, options
from polypath.engines.protocol import Row
from polypath.engines.transformers import TransformersPolicy
from polypath.engines.tree import build_trie, score_tree

STATE = " ".join(f"Line {i}: the customer writes that the invoice of the order is wrong." for i in range(12))
TOPICS = ("billing", "shipping", "returns", "login", "payment", "refund", "security", "privacy", "upgrade", "outage")
LABELS = [f"{topic} {kind}" for topic in TOPICS for kind in ("question", "complaint")]  # K = 20, several tokens each


def cpu_seconds(run: Callable[[], object]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


@torch.no_grad()
def prefill(policy: TransformersPolicy, prompt: tuple[int, ...]) -> None:
    ids = torch.tensor([prompt])
    hidden = policy.hidden(ids, torch.arange(len(prompt))[None], None)
    policy.logits(hidden[:, -1])


@torch.no_grad()
def naive(policy: TransformersPolicy, rows: list[Row]) -> list[np.ndarray]:
    """One whole forward a label, with the head on the label's tokens only."""
    found = []
    for row in rows:
        ids = torch.tensor([[*row.prompt_ids, *row.ids][:-1]])
        hidden = policy.hidden(ids, torch.arange(ids.shape[1])[None], None)[0, len(row.prompt_ids) - 1 :]
        logp = policy.logits(hidden).log_softmax(-1)
        found.append(logp[range(len(row.ids)), list(row.ids)].double().numpy())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", default="smollm2")
    options_ = parser.parse_args()
    policy = TransformersPolicy.load(options_.model)
    question = Choice(options(LABELS), "Which queue?")
    rows = branch_rows(policy.tokenizer, policy.stop_ids[0], STATE, label_tree(question))
    eight = {f"q{i}": Choice(options(LABELS[i : i + 3]), f"Which queue, part {i}?") for i in range(8)}
    sides: dict[str, Callable[[], object]] = {
        "bare prefill": lambda: prefill(policy, rows[0].prompt_ids),
        "packed tree, K = 20": lambda: score_tree(policy, rows),
        "naive, K = 20": lambda: naive(policy, rows),
        "one question, K = 3": lambda: ask(policy, STATE, {"q0": eight["q0"]}),
        "8 questions, K = 3": lambda: ask(policy, STATE, eight),
    }
    worst = max(np.abs(a - b).max() for a, b in zip(score_tree(policy, rows), naive(policy, rows), strict=True))
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(options_.rounds):  # in turn, so that a busy machine slows all
        for name, run in sides.items():
            times[name].append(cpu_seconds(run))
    print(f"{len(rows[0].prompt_ids)} prompt tokens, {len(build_trie(rows).ids)} tokens in the tree")
    least = {name: min(found) for name, found in times.items()}
    for name, found in least.items():
        print(f"{name:22}{found:9.3f} CPU s  {found / least['bare prefill']:6.2f} of a prefill")
    print(f"naive / packed {least['naive, K = 20'] / least['packed tree, K = 20']:.1f}, largest difference {worst:.1e}")
    print(f"8 questions / one {least['8 questions, K = 3'] / least['one question, K = 3']:.2f}")


if __name__ == "__main__":
    main()
