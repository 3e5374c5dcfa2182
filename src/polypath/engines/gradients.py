"""What a small proxy model would learn from each example: sketches of its gradients, for G-Vendi and log-volume."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from polypath.diversity.features.gradients import sketch, unit_sketches
from polypath.diversity.features.signature import Features
from polypath.engines.chat import encode_prompt
from polypath.engines.protocol import Row
from polypath.engines.transformers import TransformersPolicy

TOKENS = 64  # whose probabilities over the vocabulary are held at once


def gradient_sketches(
    policy: TransformersPolicy, prompts: Sequence[str], texts: Sequence[str], *, dims: int = 1024, seed: int = 0
) -> Features:
    """Unit sketches (n, dims) of the gradient of each text's loss, given its prompt, in the proxy's output head.

    No backward pass: the head's gradient follows from the last states and the probabilities. Prompts go through the
    chat template where the proxy has one. A pair is cut at the proxy's context; a text without tokens is a row of
    zeros. Compare sets only with the same proxy, dims and seed (the signature says them). Source: [2.60], [2.116].
    """
    rows = [_row(policy, prompt, text) for prompt, text in zip(prompts, texts, strict=True)]
    sums = np.zeros((len(rows), dims))
    with torch.no_grad():
        states = policy.score(rows, need=frozenset({"hidden"})).hidden or []
        for i, (row, hidden) in enumerate(zip(rows, states, strict=True)):
            for start in range(0, len(row.ids), TOKENS):
                part = hidden[start : start + TOKENS]
                probabilities = policy.logits(part).softmax(dim=-1).double().cpu().numpy()
                targets = list(row.ids[start : start + TOKENS])
                sums[i] += sketch(part.double().cpu().numpy(), probabilities, targets, dims=dims, seed=seed)
    return unit_sketches(sums, seed=seed, proxy=policy.name)


def _row(policy: TransformersPolicy, prompt: str, text: str) -> Row:
    chat = bool(getattr(policy.tokenizer, "chat_template", None))
    before = encode_prompt(policy.tokenizer, prompt, chat) or [policy.stop_ids[0]]
    ids = list(policy.tokenizer(text, add_special_tokens=False)["input_ids"])
    before = before[-max(1, policy.max_positions // 2) :]
    return Row(tuple(before), tuple(ids[: policy.max_positions - len(before)]))
