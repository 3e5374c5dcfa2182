"""Sampling against transformers' own `generate`, in one run: time as a ratio, and tokens prefilled against reused.

Run: OMP_NUM_THREADS=1 python benchmarks/sampling.py [--smollm2] [--rounds 5]
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable

import torch

from polypath.engines.chat import encode_prompt
from polypath.engines.protocol import SamplingParams, TokenLedger
from polypath.engines.tiny import build_gpt2
from polypath.engines.transformers import TransformersPolicy


def cpu_seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def generate(policy: TransformersPolicy, prefixes: list[list[int]], new: int) -> None:
    """The same work by `generate`: sampling at temperature 1, nothing stops, log-probabilities not even asked for."""
    width = max(map(len, prefixes))
    ids = torch.tensor([[0] * (width - len(row)) + row for row in prefixes])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in prefixes])
    settings = {"do_sample": True, "top_k": 0, "min_new_tokens": new, "max_new_tokens": new, "pad_token_id": 0}
    with torch.no_grad():
        policy.model.generate(ids, attention_mask=mask, **settings)


def compare(policy: TransformersPolicy, prefixes: list[list[int]], new: int, rounds: int) -> None:
    policy.stop_ids = ()
    params, seeds = SamplingParams(max_new_tokens=new), list(range(len(prefixes)))
    policy.sample(prefixes, params, seeds)
    generate(policy, prefixes, new)
    policy.ledger = TokenLedger()
    ours, theirs = [], []
    for _ in range(rounds):  # alternating, so that a busy machine slows both
        ours.append(cpu_seconds(lambda: policy.sample(prefixes, params, seeds)))
        theirs.append(cpu_seconds(lambda: generate(policy, prefixes, new)))
    ratio = statistics.median(b / a for a, b in zip(ours, theirs, strict=True))
    ledger = policy.ledger
    print(policy.describe())
    print(f"  {len(prefixes)} rows x {new} tokens, {len({tuple(p) for p in prefixes})} distinct prompts")
    print(f"  CPU seconds: ours {min(ours):.3f} (median {statistics.median(ours):.3f}), generate {min(theirs):.3f}")
    print(f"  generate / ours: {ratio:.2f}")
    print(f"  prefilled {ledger.prefilled // rounds}, reused {ledger.reused // rounds} prompt tokens a round")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smollm2", action="store_true", help="also SmolLM2-135M-Instruct")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rng = random.Random(0)
    tiny = build_gpt2([f"w{i}" for i in range(55)], seed=0)
    prompts = [[rng.randrange(3, 58) for _ in range(6)] for _ in range(16)]
    compare(tiny, [prompt for prompt in prompts for _ in range(16)], 14, options.rounds)
    trunk = [rng.randrange(3, 58) for _ in range(30)]
    branches = [trunk + [rng.randrange(3, 58) for _ in range(n)] for n in (0, 4, 8, 12)]
    compare(tiny, [branch for branch in branches for _ in range(64)], 14, options.rounds)
    if options.smollm2:
        policy = TransformersPolicy.load("smollm2", threads=torch.get_num_threads())
        prompt = encode_prompt(policy.tokenizer, "Name a colour. Answer with one word.", True)
        compare(policy, [prompt] * 8, 32, options.rounds)


if __name__ == "__main__":
    main()
