"""What a decision costs: the packed label tree against one pass a label, a bare prefill, a rationale, eight questions.

Run: OMP_NUM_THREADS=1 python benchmarks/decide.py [--quick] [--only PART] [--keep FILE]
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from peers import amount, line, run

from polypath.decide.readout import ask, branch_rows, label_tree
from polypath.decide.types import Choice, options
from polypath.engines.protocol import Row, SamplingParams
from polypath.engines.transformers import TransformersPolicy
from polypath.engines.tree import build_trie, score_tree

STATE = " ".join(f"Line {i}: the customer writes that the invoice of the order is wrong." for i in range(12))
TOPICS = ("billing", "shipping", "returns", "login", "payment", "refund", "security", "privacy", "upgrade", "outage")
LONG = " ".join(f"Line {i}: the customer writes that the invoice of the order is wrong." for i in range(48))
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


@torch.no_grad()
def rationale(policy: TransformersPolicy, prompt: tuple[int, ...], words: int) -> None:
    """`words` tokens of reasoning, then the labels' first token: what a reasoner does before it answers."""
    params = SamplingParams(max_new_tokens=words)
    (drawn,) = policy.sample([prompt], params, [0])
    for seed in range(1, 9):  # a text that ended early is drawn again, so that all have the full length
        if len(drawn.ids) == words:
            break
        (drawn,) = policy.sample([prompt], params, [seed])


def fastest(sides: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """CPU seconds of each side, the least of some rounds; sides take turns, so that a busy machine slows all."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            times[name].append(cpu_seconds(side))
    return {name: min(found) for name, found in times.items()}


def packed(quick: bool) -> None:
    """K = 20 labels of several tokens about a state of some 250 tokens, in float32."""
    policy = TransformersPolicy.load("smollm2")
    question = Choice(options(LABELS), "Which queue?")
    rows = branch_rows(policy.tokenizer, policy.stop_ids[0], STATE, label_tree(question))
    worst = max(np.abs(a - b).max() for a, b in zip(score_tree(policy, rows), naive(policy, rows), strict=True))
    least = fastest(
        {
            "prefill": lambda: prefill(policy, rows[0].prompt_ids),
            "tree": lambda: score_tree(policy, rows),
            "naive": lambda: naive(policy, rows),
            "rationale": lambda: rationale(policy, rows[0].prompt_ids, 64),
        },
        1 if quick else 5,
    )
    size = f"{len(rows[0].prompt_ids)} prompt tokens, {len(build_trie(rows).ids)} in the tree"
    line("packed label tree, K = 20", "one pass a label", least["naive"], least["tree"], f"error {worst:.1e}", 10)
    amount("packed label tree, K = 20, largest error", "of a log-probability", float(worst), 1e-4)
    amount("packed label tree, K = 20", "x a bare prefill", least["tree"] / least["prefill"], 1.3, size)
    line("one decision, K = 20", "a rationale of 64 tokens", least["rationale"], least["tree"], size, 8)


def shared(quick: bool) -> None:
    """Eight questions about one state against one, in one forward each."""
    policy = TransformersPolicy.load("smollm2")
    eight = {f"q{i}": Choice(options(LABELS[i : i + 3]), f"Which queue, part {i}?") for i in range(8)}
    least = fastest(
        {"one": lambda: ask(policy, LONG, {"q0": eight["q0"]}), "eight": lambda: ask(policy, LONG, eight)},
        1 if quick else 5,
    )
    tokens = len(policy.tokenizer(LONG)["input_ids"])
    amount(
        "8 questions about one state", "x one question", least["eight"] / least["one"], 1.5, f"{tokens} state tokens"
    )
    few = fastest(
        {"one": lambda: ask(policy, STATE, {"q0": eight["q0"]}), "eight": lambda: ask(policy, STATE, eight)},
        1 if quick else 5,
    )
    tokens = len(policy.tokenizer(STATE)["input_ids"])
    amount("8 questions about one state", "x one question", few["eight"] / few["one"], 1.5, f"{tokens} state tokens")
    alone = {key: {key: question} for key, question in eight.items()}
    apart = fastest({"apart": lambda: [ask(policy, STATE, own) for own in alone.values()]}, 1 if quick else 3)
    line("8 questions about one state", "8 requests apart", apart["apart"], few["eight"], f"{tokens} state tokens", "-")


if __name__ == "__main__":
    run(__doc__, {"packed": packed, "shared": shared})
