"""One optimiser over a policy: micro-batches by tokens, gradients summed over processes, one clipped step."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import torch

from polypath.engines.protocol import Row, Scores
from polypath.engines.transformers import TransformersPolicy
from polypath.train.config import OptimConfig
from polypath.train.processes import Processes

MicroBatchLoss = Callable[[list[int], Scores], tuple[torch.Tensor, dict[str, float]]]


class Learner:
    """Owns the optimiser and the learning-rate schedule of a policy's trainable parameters."""

    def __init__(self, policy: TransformersPolicy, optim: OptimConfig, steps: int, processes: Processes) -> None:
        self.policy, self.optim, self.steps, self.processes = policy, optim, steps, processes
        self.parameters = list(policy.parameters())
        self.optimizer = torch.optim.AdamW(
            self.parameters,
            lr=optim.lr,
            betas=optim.betas,
            eps=optim.eps,
            weight_decay=optim.weight_decay,
            fused=True,  # one pass without temporaries: half a gigabyte and a second a step for 135 M weights
        )
        self.updates = 0

    def learning_rate(self) -> float:
        """The rate of the next update: a linear warm-up, then the schedule down to a tenth (cosine) or 0 (linear)."""
        config = self.optim
        if self.updates < config.warmup_steps:
            return config.lr * (self.updates + 1) / config.warmup_steps
        done = (self.updates - config.warmup_steps) / max(1, self.steps - config.warmup_steps)
        shape = {
            "constant": lambda x: 1.0,
            "linear": lambda x: 1.0 - x,
            "cosine": lambda x: 0.5 + 0.5 * math.cos(math.pi * x),
        }
        return config.lr * shape[config.schedule](min(1.0, done))

    def update(
        self,
        rows: Sequence[Row],
        microbatches: Sequence[list[int]],
        loss: MicroBatchLoss,
        *,
        need: frozenset[str],
        temperature: float = 1.0,
    ) -> dict[str, float]:
        """One optimiser step on the sum of `loss(indices, scores)` over all micro-batches of all processes.

        `loss` must already be divided by its global denominator. Returns summed metrics, `loss`, `grad_norm` and `lr`.
        A step whose gradient is not finite is skipped and counted in `skipped_update`.
        """
        self.optimizer.zero_grad(set_to_none=True)
        metrics: dict[str, float] = {"loss": 0.0}
        for indices in microbatches:
            scores = self.policy.score([rows[i] for i in indices], need=need, temperature=temperature, grad=True)
            value, extra = loss(indices, scores)
            value.backward()
            for name, number in {"loss": value.item(), **extra}.items():
                metrics[name] = metrics.get(name, 0.0) + number
        metrics = self.processes.sum_metrics(metrics)
        self.processes.sum_gradients(self.parameters)
        return {**metrics, **self._step()}

    def _step(self) -> dict[str, float]:
        rate = self.learning_rate()
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        limit = self.optim.grad_norm or math.inf
        norm = torch.nn.utils.clip_grad_norm_([p for p in self.parameters if p.grad is not None], limit)
        finite = bool(torch.isfinite(norm))
        if finite:
            self.optimizer.step()
            self.policy.version += 1
        self.updates += 1
        return {"grad_norm": float(norm), "lr": rate, "skipped_update": float(not finite)}

    def state_dict(self) -> dict[str, Any]:
        """Optimiser state and update count, for a checkpoint."""
        return {"optimizer": self.optimizer.state_dict(), "updates": self.updates, "optim": asdict(self.optim)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.optimizer.load_state_dict(state["optimizer"])
        self.updates = state["updates"]
