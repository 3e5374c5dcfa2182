"""What credit asks of the policy itself at every token of a batch: entropy, confidence, curiosity. One forward more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from polypath.core.record import Batch
from polypath.credit import Memory, fields_of
from polypath.credit.curiosity import forward_error
from polypath.engines.protocol import Row
from polypath.engines.scoring import LOGITS_AT_ONCE
from polypath.engines.transformers import TransformersPolicy

SCORED = frozenset({"entropy", "confidence", "curiosity"})
LIKELIEST = 5  # tokens whose mean probability is the confidence


def with_scores(
    policy: TransformersPolicy, batch: Batch, wanted: frozenset[str], *, temperature: float, memory: Memory
) -> Batch | list[dict[str, Any]]:
    """The batch, or its groups' fields with those of `SCORED` that are wanted, a value per token.

    Entropy in nats; confidence is the mean probability of the five likeliest tokens; curiosity the error of a forward
    model of the policy's states, which is kept in `memory` and learns from the batch.
    """
    asked = wanted & SCORED
    if not asked:
        return batch
    rows = [Row(tuple(r.prompt_ids), tuple(r.ids)) for group in batch.groups for r in group if r.ids]
    need = {"logp"} | ({"entropy"} & asked) | ({"hidden"} if asked - {"entropy"} else set())
    with torch.no_grad():
        scores = policy.score(rows, need=frozenset(need), temperature=temperature)
        hidden = scores.hidden or []
        found = {"entropy": [value.tolist() for value in scores.entropy or ()]}
        if "confidence" in asked:
            found["confidence"] = [_confidence(policy, states, temperature).tolist() for states in hidden]
        if "curiosity" in asked and rows:
            found["curiosity"] = _curiosity(policy, rows, hidden, memory)
    fields = [fields_of(group, wanted) for group in batch.groups]
    for name in asked:
        rest = iter(found[name])
        for own, group in zip(fields, batch.groups, strict=True):
            own[name] = [next(rest) if r.ids else [] for r in group]
    return fields


def _confidence(policy: TransformersPolicy, states: Tensor, temperature: float) -> Tensor:
    """Mean probability of the likeliest tokens after each state (T, d) -> (T,), the head in pieces."""
    pieces = states.split(max(1, LOGITS_AT_ONCE // policy.vocab_size))
    most = min(LIKELIEST, policy.vocab_size)
    return torch.cat([(policy.logits(p) / temperature).softmax(-1).topk(most).values.mean(-1) for p in pieces])


def _curiosity(
    policy: TransformersPolicy, rows: Sequence[Row], hidden: Sequence[Tensor], memory: Memory
) -> list[list[float]]:
    embed = policy.model.get_input_embeddings()
    taken = [embed(torch.tensor(row.ids, device=states.device)) for row, states in zip(rows, hidden, strict=True)]
    states, tokens = (pad_sequence(list(part), batch_first=True).float().cpu().numpy() for part in (hidden, taken))
    mask = np.arange(states.shape[1]) < np.array([len(row.ids) for row in rows])[:, None]
    error = forward_error(states, tokens, mask, memory)
    return [values[: len(row.ids)].tolist() for values, row in zip(error, rows, strict=True)]
