"""Log-probabilities of many continuations in one forward, each token that rows share computed once.

All rows are laid out as one trie of tokens: a token sees its ancestors only, and its position is its depth. Rows thus
cannot see one another, at any number of levels (a state, its questions, their labels), and equal beginnings merge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from polypath.core.errors import UserError
from polypath.engines.protocol import Row
from polypath.engines.scoring import LOGITS_AT_ONCE

if TYPE_CHECKING:
    from polypath.engines.transformers import TransformersPolicy


@dataclass(frozen=True)
class Trie:
    """Tokens (N,), their depths (N,), who sees whom (N, N), and the node that predicts each id, per row."""

    ids: np.ndarray
    positions: np.ndarray
    visible: np.ndarray
    sources: list[list[int]]


def build_trie(rows: Sequence[Row]) -> Trie:
    """The trie of all rows' tokens but their last, which is predicted and never read.

    >>> build_trie([Row((7, 8), (1, 2)), Row((7, 8), (1, 3)), Row((7, 9), (4,))]).ids.tolist()
    [7, 8, 1, 9]
    """
    children: dict[tuple[int, int], int] = {}
    ids: list[int] = []
    parents: list[int] = []
    sources = []
    for row in rows:
        path, at = [], -1
        for token in (*row.prompt_ids, *row.ids)[:-1]:
            node = children.setdefault((at, token), len(ids))
            if node == len(ids):
                ids.append(token)
                parents.append(at)
            path.append(node)
            at = node
        sources.append(path[len(row.prompt_ids) - 1 :])
    visible = np.eye(len(ids), dtype=bool)
    positions = np.zeros(len(ids), dtype=np.int64)
    for node, parent in enumerate(parents):
        if parent >= 0:
            visible[node] |= visible[parent]
            positions[node] = positions[parent] + 1
    return Trie(np.array(ids, dtype=np.int64), positions, visible, sources)


def score_tree(policy: TransformersPolicy, rows: Sequence[Row]) -> list[np.ndarray]:
    """Log-probabilities (float64) of each row's ids, in as few forwards as `policy.max_tokens` allows, mostly one.

    A model whose layers are not all full attention is scored row by row in the dense form instead. Raises UserError
    for a row without prompt or ids, or beyond the context.
    """
    for i, row in enumerate(rows):
        size = len(row.prompt_ids) + len(row.ids)
        if not row.prompt_ids or not row.ids or size > policy.max_positions + 1:
            what = f"row {i} has {len(row.prompt_ids)} + {len(row.ids)} tokens for a context of {policy.max_positions}"
            raise UserError("score", what, "Give every row a prompt and ids, and shorten what is too long.")
    if not policy.full_attention:
        return [logp.double().cpu().numpy() for logp in policy.score(rows).logp]
    found: list[np.ndarray] = []
    for part in _parts(rows, policy.max_tokens):
        found += _score_part(policy, part)
    return found


def _parts(rows: Sequence[Row], most: int) -> list[list[Row]]:
    """Consecutive rows whose tries hold at most `most` tokens (never less than a row)."""
    parts: list[list[Row]] = []
    children: dict[tuple[int, int], int] = {}
    for row in rows:
        tokens = (*row.prompt_ids, *row.ids)[:-1]
        at, known = -1, 0
        while known < len(tokens) and (at, tokens[known]) in children:
            at, known = children[at, tokens[known]], known + 1
        if not parts or len(children) + len(tokens) - known > most:
            parts.append([])
            children, at, known = {}, -1, 0
        for token in tokens[known:]:
            at = children.setdefault((at, token), len(children))
        parts[-1].append(row)
    return parts


@torch.no_grad()
def _score_part(policy: TransformersPolicy, rows: Sequence[Row]) -> list[np.ndarray]:
    trie = build_trie(rows)
    device = policy.device
    chain = bool((trie.positions == np.arange(len(trie.ids))).all())  # one path: an ordinary causal sequence
    mask = None if chain else torch.from_numpy(trie.visible).to(device)[None, None]
    ids, positions = (torch.from_numpy(a).to(device)[None] for a in (trie.ids, trie.positions))
    hidden = policy.hidden(ids, positions, mask)[0]
    nodes, inverse = np.unique(np.concatenate(trie.sources), return_inverse=True)  # the head runs once a node
    targets = np.array([token for row in rows for token in row.ids])
    logp = np.empty(len(targets))
    size = max(1, LOGITS_AT_ONCE // policy.vocab_size)
    for start in range(0, len(nodes), size):
        logits = policy.logits(hidden[torch.from_numpy(nodes[start : start + size]).to(device)])
        norm = logits.logsumexp(-1)
        here = np.flatnonzero((inverse >= start) & (inverse < start + size))
        at = torch.from_numpy(inverse[here] - start).to(device)
        chosen = logits[at, torch.from_numpy(targets[here]).to(device)] - norm[at]
        logp[here] = chosen.double().cpu().numpy()
    return np.split(logp, np.cumsum([len(row.ids) for row in rows])[:-1])
