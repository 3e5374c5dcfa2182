"""From credited groups to micro-batch losses: the prompt forwarded once per group, dead groups skipped."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from polypath.core import registry
from polypath.core.errors import UserError
from polypath.core.recipe import Call
from polypath.core.record import Batch, Group, Rollout
from polypath.credit import Credit
from polypath.engines.protocol import Row, Scores
from polypath.engines.scoring import plan_microbatches
from polypath.engines.transformers import TransformersPolicy
from polypath.losses.policy import denominator, policy_stats
from polypath.losses.terms import entropy_bonus, kl_k3
from polypath.train.config import TrainConfig
from polypath.train.learner import Learner
from polypath.train.processes import Processes


@dataclass
class Trained:
    """The rows that this rank trains on, flat, beside their group structure."""

    rows: list[Row] = field(default_factory=list)
    advantages: list[Tensor] = field(default_factory=list)  # one (T,) per row
    masks: list[Tensor] = field(default_factory=list)  # (T,): 0 where a token was put there and not drawn
    groups: list[list[int]] = field(default_factory=list)
    sampled: list[Tensor] = field(default_factory=list)  # log-probabilities of the sampler, NaN where unknown
    written: list[Tensor] = field(default_factory=list)  # the same by whoever wrote the row, NaN where unknown
    foreign: list[bool] = field(default_factory=list)  # whether another policy wrote the row
    clips: list[float] = field(default_factory=list)  # the row's own clip range, NaN where credit sets none
    kl_weights: list[float] = field(default_factory=list)  # share of the KL term that the row has
    old: list[Tensor] | None = None  # log-probabilities before the first of several updates
    reference: list[Tensor] | None = None  # log-probabilities of the starting policy

    def add(
        self,
        group: Group,
        advantages: np.ndarray,
        keep: np.ndarray,
        bare_weight: float = 0.0,
        fields: Mapping[str, Any] | None = None,
    ) -> None:
        """Append the kept rollouts of one group; `fields` are the group's in `Credit.fields`.

        Those with the loss context "both" are appended again under the bare prompt, with `bare_weight` times their
        positive advantages: what a hint helped to find is to be found without it. Negative ones would have no floor.
        """
        members = []
        clips = per_row(fields, "clip", len(group.rollouts), math.nan)
        weights = per_row(fields, "kl_weight", len(group.rollouts), 1.0)
        for i, (rollout, advantage, kept) in enumerate(zip(group, advantages, keep, strict=True)):
            if not kept or not rollout.ids:
                continue
            values = np.broadcast_to(advantage, len(rollout.ids)) if np.ndim(advantage) == 0 else advantage
            own = torch.tensor(values[: len(rollout.ids)], dtype=torch.float32)
            positive = bare_weight * own.clamp(min=0.0)
            contexts = [(loss_prompt(rollout), own, sampled_logp(rollout))]
            if rollout.loss_context == "both" and bool(positive.any()):
                contexts.append((bare_prompt(rollout), positive, torch.full((len(rollout.ids),), torch.nan)))
            for prompt, credit, sampled in contexts:
                members.append(len(self.rows))
                self.rows.append(Row(prompt, tuple(rollout.ids)))
                self.advantages.append(credit)
                self.masks.append(drawn_mask(rollout))
                self.sampled.append(sampled)
                self.written.append(written_logp(rollout))
                self.foreign.append(bool(rollout.source))
                self.clips.append(float(clips[i]))
                self.kl_weights.append(float(weights[i]))
        if members:
            self.groups.append(members)

    def microbatches(self, max_tokens: int) -> list[list[int]]:
        """Row indices of whole groups within the token budget."""
        plan = plan_microbatches([[self.rows[i] for i in group] for group in self.groups], max_tokens)
        return [[i for g in part for i in self.groups[g]] for part in plan]


class Objective:
    """The loss of a recipe with its KL and entropy terms, applied to credited batches."""

    def __init__(
        self,
        policy: TransformersPolicy,
        loss: Call,
        config: TrainConfig,
        temperature: float,
        *,
        reference: TransformersPolicy | None = None,
    ) -> None:
        """`reference` is the starting policy that `config.kl` pulls to; None means the base under the adapter."""
        self.policy, self.config, self.temperature, self.reference = policy, config, temperature, reference
        self.loss = loss.bind()
        self.correction = None if config.correction is None else config.correction.bind()
        defaults = {name: knob.get("default") for name, knob in registry.entry("loss", loss.name).knobs.items()}
        knobs = {**defaults, **loss.knobs}
        self.reads = frozenset(registry.entry("loss", loss.name).data)
        self.clips = {"low", "high"} <= set(defaults)  # whether the loss has a range that credit may set by row
        self.aggregate, self.constant_length = knobs["aggregate"], knobs.get("constant_length")
        self.need = frozenset({"logp", "entropy"}) if config.entropy else frozenset({"logp"})

    def update(self, learner: Learner, batch: Batch, credit: Credit, processes: Processes) -> dict[str, float]:
        """`updates_per_batch` optimiser steps on the batch. Returns the metrics of the last one, and the dead groups.

        A dead group (no advantage differs from 0) is skipped: it has no gradient. With KL or entropy terms skipping
        it is a choice, `skip_dead_groups`, because there those terms would still pull on it.
        """
        live = [bool(np.any(a)) for a in credit.advantages]
        chosen = [i for i in range(len(live)) if live[i] or not self.config.skip_dead_groups]
        counted = range(len(live)) if self.config.denominator == "all" else chosen
        lengths = [
            int(drawn_mask(rollout).sum())
            for i in counted
            for rollout, kept in zip(batch.groups[i], credit.keep[i], strict=True)
            if kept and rollout.ids
        ]
        trained = Trained()
        for i in processes.share(chosen):
            trained.add(
                batch.groups[i], credit.advantages[i], credit.keep[i], self.config.bare_weight, credit.fields[i]
            )
        metrics: dict[str, float] = {"dead_groups": float(len(live) - sum(live)), "groups": float(len(live))}
        if not chosen:
            return metrics
        total = denominator(self.aggregate, torch.tensor(lengths), constant_length=self.constant_length)
        self._score_before(trained)
        for update in range(self.config.updates_per_batch):
            step = self._step(learner, trained, total, update)
        tokens = max(step.pop("tokens", 0.0), 1.0)
        for name in ("clipped_low", "clipped_high", "kl", "entropy", "sampler_mismatch"):
            if name in step:
                step[name] /= tokens
        return {**metrics, "trained_tokens": tokens, **step}

    def _score_before(self, trained: Trained) -> None:
        """What must be known before the weights move: old and reference log-probabilities, without gradients."""
        if self.config.updates_per_batch > 1:
            trained.old = self.policy.score(trained.rows, temperature=self.temperature).logp
        if self.config.kl > 0:
            adapter_off = nullcontext() if self.reference else self.policy.model.disable_adapter()
            with adapter_off:
                reference = self.reference or self.policy
                trained.reference = reference.score(trained.rows, temperature=self.temperature).logp

    def _step(self, learner: Learner, trained: Trained, total: float, update: int) -> dict[str, float]:
        def loss(indices: list[int], scores: Scores) -> tuple[Tensor, dict[str, float]]:
            return self._loss(trained, indices, scores, total, update)

        plan = trained.microbatches(self.config.tokens_per_microbatch)
        return learner.update(trained.rows, plan, loss, need=self.need, temperature=self.temperature)

    def _loss(
        self, trained: Trained, indices: list[int], scores: Scores, total: float, update: int
    ) -> tuple[Tensor, dict[str, float]]:
        """The micro-batch's share of the step's loss, and sums for the metrics."""
        logp = pad_sequence(scores.logp, batch_first=True)
        mask = _padded(trained.masks, indices, logp)
        advantages = _padded(trained.advantages, indices, logp)
        old = logp.detach() if trained.old is None else _padded(trained.old, indices, logp)
        sampled = _padded(trained.sampled, indices, logp)
        if self.correction is not None:
            # Where the sampler's log-probabilities are those of another policy or prompt, the weight is 1
            advantages = advantages * self.correction(old, torch.where(sampled.isnan(), old, sampled), mask)
        value = self._surrogate(trained, indices, (logp, old, advantages, mask), update)
        metrics = policy_stats(logp, old, mask)
        gap = (old - sampled).abs() * mask
        metrics["sampler_mismatch"] = float(torch.nan_to_num(gap).sum())
        if trained.reference is not None:
            reference = _padded(trained.reference, indices, logp)
            pulled = mask * _column(trained.kl_weights, indices, mask)
            value = value + kl_k3(logp, reference, pulled, beta=self.config.kl, aggregate=self.aggregate)
            metrics["kl"] = policy_stats(reference, logp, mask)["kl"]
        if scores.entropy is not None:
            entropy = pad_sequence(scores.entropy, batch_first=True)
            value = value + entropy_bonus(entropy, mask, coefficient=self.config.entropy, aggregate=self.aggregate)
            metrics["entropy"] = float(entropy.detach().sum())
        return value / total, metrics

    def _surrogate(
        self, trained: Trained, indices: list[int], tensors: tuple[Tensor, Tensor, Tensor, Tensor], update: int
    ) -> Tensor:
        """The recipe's loss, told of what it reads beyond log-probabilities and advantages.

        A loss that reads `foreign` compares what another policy wrote with that policy, where the record knows it.
        """
        logp, old, advantages, mask = tensors
        extra: dict[str, Any] = {}
        if "foreign" in self.reads:
            foreign = _column(trained.foreign, indices, mask).bool()
            written = _padded(trained.written, indices, logp)
            old = torch.where(foreign & ~written.isnan(), written, old)
            extra["foreign"] = foreign[:, 0]
        if "update" in self.reads:
            extra["update"] = update
        clips = _column(trained.clips, indices, logp)
        if self.clips and not clips.isnan().any():
            extra |= {"low": clips, "high": clips}
        value: Tensor = self.loss(logp, old, advantages, mask, **extra)
        return value


def per_row(fields: Mapping[str, Any] | None, name: str, size: int, default: float) -> np.ndarray:
    """A number per rollout of a group (G,) that credit may have made, `default` where it has not."""
    values = np.full(size, default)
    if fields is not None and name in fields:
        values[fields["rows"]] = fields[name]
    return values


def drawn_mask(rollout: Rollout) -> Tensor:
    """1 for every token that was drawn, 0 for one that was put there (T,): that one has no gradient."""
    if rollout.forced_mask is None:
        return torch.ones(len(rollout.ids))
    return 1.0 - torch.tensor(rollout.forced_mask, dtype=torch.float32)


def sampled_logp(rollout: Rollout) -> Tensor:
    """Log-probabilities of the ids when they were drawn (T,); NaN where another source or context makes them other."""
    elsewhere = rollout.source or rollout.loss_context == "base"
    return torch.full((len(rollout.ids),), torch.nan) if elsewhere else written_logp(rollout)


def written_logp(rollout: Rollout) -> Tensor:
    """Log-probabilities of the ids under whichever policy drew them (T,); NaN where they are not in the record."""
    if rollout.logp_sampling is None:
        return torch.full((len(rollout.ids),), torch.nan)
    return torch.tensor(rollout.logp_sampling, dtype=torch.float32)


def loss_prompt(rollout: Rollout) -> tuple[int, ...]:
    """The prompt that the loss is taken under: the one that was shown, or the bare one."""
    return bare_prompt(rollout) if rollout.loss_context == "base" else tuple(rollout.prompt_ids)


def bare_prompt(rollout: Rollout) -> tuple[int, ...]:
    """The prompt without its context. Raises UserError when its tokens are not in the record."""
    if "base_prompt_ids" not in rollout.extra:
        where = f"rollout {rollout.group_id}/{rollout.index}"
        raise UserError(
            where, "its loss is under the bare prompt, whose tokens are missing", "Use a plan that keeps them."
        )
    return tuple(rollout.extra["base_prompt_ids"])


def _padded(tensors: Sequence[Tensor], indices: Sequence[int], like: Tensor) -> Tensor:
    return pad_sequence([tensors[i].to(like.device) for i in indices], batch_first=True)


def _column(values: Sequence[float], indices: Sequence[int], like: Tensor) -> Tensor:
    """A number per row as a column (N, 1)."""
    return torch.tensor([values[i] for i in indices], dtype=like.dtype, device=like.device)[:, None]
