"""The policy protocol: tokens in, tokens and log-probabilities out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class SamplingParams:
    """How to sample. `temperature=0` is greedy; `top_k=0` and `top_p=1` are off."""

    max_new_tokens: int = 64
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    stop_ids: tuple[int, ...] = ()  # beside the tokenizer's end-of-sequence ids


@dataclass
class Sample:
    """One sampled continuation. `ids` includes the stop token when one was drawn (`finished`)."""

    ids: list[int]
    logp: list[float]  # under the sampling distribution, one per id
    finished: bool


@dataclass
class TokenLedger:
    """Tokens that an engine has processed: drawn, prefilled, and reused from a shared prefix."""

    generated: int = 0
    prefilled: int = 0
    reused: int = 0


@dataclass(frozen=True)
class Row:
    """One sequence to score: `ids` are predicted from `prompt_ids`. Rows with equal `prompt_ids` share its forward."""

    prompt_ids: tuple[int, ...]
    ids: tuple[int, ...]


@dataclass
class Scores:
    """Per-row tensors of length `len(row.ids)`: log-probabilities, and on request entropies and hidden states."""

    logp: list[torch.Tensor]
    entropy: list[torch.Tensor] | None = None
    hidden: list[torch.Tensor] | None = None  # (T, d): the last layer's state that predicts each id


class Policy(Protocol):
    """A language model that can be sampled, scored, trained and saved."""

    tokenizer: Any
    ledger: TokenLedger

    def sample(self, prefixes: Sequence[Sequence[int]], params: SamplingParams, seeds: Sequence[int]) -> list[Sample]:
        """One sample per prefix; prefix i draws from its own generator seeded by seeds[i], so a draw does not depend
        on what else is in the batch (up to floating-point ties). Equal and nested prefixes are prefilled once.
        """
        ...

    def score(
        self,
        rows: Sequence[Row],
        *,
        need: frozenset[str] = frozenset({"logp"}),
        temperature: float = 1.0,
        grad: bool = False,
    ) -> Scores:
        """Log-probabilities (and "entropy", "hidden") of each row's ids; differentiable when `grad`."""
        ...

    def embed(self, texts: Sequence[str]) -> Any:
        """Unit-norm float32 embeddings, shape (n, d)."""
        ...

    def save(self, path: str) -> None:
        """Write the model (or its adapter) and the tokenizer to a directory."""
        ...
