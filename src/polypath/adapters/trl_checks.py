"""What of a credit method TRL can express, checked before anything loads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polypath.core import registry
from polypath.core.errors import UserError, UserErrors
from polypath.core.recipe_types import Call
from polypath.credit import Pipeline
from polypath.credit.inputs import FIELDS, HOW

BROKEN = "1.15.0"
AVAILABLE = frozenset({"rewards", "correct", "texts", "prompts", "lengths", "mask", "logp", "entropy"})
LOSS_TYPES = {"token_mean": ("dapo", "bnpo"), "sequence_mean": ("grpo",), "constant": ("dr_grpo",)}
Accepted = dict[str, tuple[Any, ...]]  # a setting of GRPOConfig -> the values that mean the same as the method's loss


def check_version(version: str) -> None:
    """Raises UserError for the one release whose GRPO cannot run here."""
    import torch

    if version == BROKEN and not torch.cuda.is_available():
        what = f"TRL {BROKEN} cannot train on a CPU (its fused head needs Triton, which a CPU has not)"
        raise UserError("DiverseGRPOTrainer", what, f'Run: pip install "trl>=1.0,!={BROKEN}"')


def check_fields(pipeline: Pipeline, *, labels: bool, answers: bool) -> frozenset[str]:
    """The input fields that the method reads. Raises UserError for one that cannot be had inside TRL."""
    have = AVAILABLE | set(pipeline.providers) | ({"labels"} if labels else set()) | ({"answers"} if answers else set())
    fixes = HOW | {
        "labels": "Pass canonical=..., or start with the partition same_text.",
        "answers": "Pass a task as canonical=..., or use another partition.",
    }
    produced: set[str] = set()
    needed: set[str] = set()
    for stage in pipeline.stages:
        for field in stage.required:
            if field in FIELDS and field not in produced:
                needed.add(field)
                if field not in have:
                    raise UserError(f"{pipeline.name} {stage.where}", f"TRL gives no '{field}'", fixes.get(field, ""))
        produced.update(stage.returns)
    return frozenset(needed)


def check_settings(loss: Call | None, args: Any) -> None:
    """Hold a GRPOConfig to the method's loss and to what credit by whole groups needs.

    Raises UserErrors naming every setting to change.
    """
    errors = []
    rows, size = args.per_device_train_batch_size * args.steps_per_generation, args.num_generations
    if rows % size:
        what = f"{rows} rows per process do not hold whole groups of {size}, so a group would straddle processes"
        fix = "Make per_device_train_batch_size * steps_per_generation a multiple of num_generations."
        errors.append(UserError("args.per_device_train_batch_size", what, fix))
    if getattr(args, "multi_objective_aggregation", "sum_then_normalize") != "sum_then_normalize":
        what = "has no effect: credit works on the weighted sum of the rewards"
        errors.append(UserError("args.multi_objective_aggregation", what, 'Leave it at "sum_then_normalize".'))
    for name, accepted in ({} if loss is None else accepted_settings(loss)).items():
        value = getattr(args, name, None)
        if name == "epsilon_high" and value is None:
            value = args.epsilon
        if value not in accepted:
            what = f"is {value!r}, but the method's loss ({loss.name if loss else ''}) asks for {accepted[0]!r}"
            fix = f'Set {name}={accepted[0]!r} in GRPOConfig, or pass loss="config" to keep its loss.'
            errors.append(UserError(f"args.{name}", what, fix))
    if errors:
        raise UserErrors(errors)


def accepted_settings(loss: Call) -> Accepted:
    """The GRPOConfig settings that mean the method's loss. Raises UserError for a loss that TRL has not.

    TRL's bnpo is the token mean of each micro-batch, which is that of the batch without gradient accumulation.
    """
    if loss.name not in TRANSLATE:
        raise UserError("credit", f"TRL has no loss '{loss.name}'", 'Pass loss="config" to train with its own.')
    knobs = {name: about.get("default") for name, about in registry.entry("loss", loss.name).knobs.items()}
    knobs |= loss.knobs
    moving = [name for name, value in knobs.items() if isinstance(value, Call)]
    if moving:
        raise UserError("credit", f"TRL cannot change {loss.name}.{moving[0]} over the steps", "Give a number.")
    return TRANSLATE[loss.name](knobs)


def _policy_clip(knobs: Mapping[str, Any]) -> Accepted:
    accepted: Accepted = {
        "loss_type": LOSS_TYPES[knobs["aggregate"]],
        "importance_sampling_level": (knobs["level"],),
        "epsilon": (knobs["low"],),
        "epsilon_high": (knobs["high"],),
        "delta": (knobs["dual_clip"],),  # for a positive advantage the upper clip is tighter anyway
    }
    length = knobs["constant_length"] if knobs["aggregate"] == "constant" else None
    if length == 1:  # the sum over a sequence's tokens, averaged over sequences
        return accepted | {"loss_type": ("luspo",)}
    return accepted | ({} if length is None else {"max_completion_length": (length,)})


def _cispo(knobs: Mapping[str, Any]) -> Accepted:
    if knobs["low"] is not None or knobs["aggregate"] != "token_mean":
        fix = 'Drop its lower bound and use the token mean, or pass loss="config".'
        raise UserError("credit", "TRL's cispo has only an upper bound and the token mean", fix)
    return {"loss_type": ("cispo",), "epsilon_high": (1.0 + knobs["high"],)}  # TRL's bound is the ratio itself


TRANSLATE = {"policy_clip": _policy_clip, "cispo": _cispo}


def check_whole_groups(rows: Sequence[Mapping[str, Any]], size: int, mode: str) -> None:
    """Raises UserError unless the rows of this process are whole groups of `size` rows with one prompt each."""
    where = f"per_device_{mode}_batch_size"
    if len(rows) % size:
        fix = "Make the rows per process a multiple of the number of generations."
        raise UserError(where, f"{len(rows)} rows are not whole groups of {size}", fix)
    for i, row in enumerate(rows):
        if row.get("prompt") != rows[i - i % size].get("prompt"):
            what = f"row {i} has another prompt than its group of {size}, and TRL knows groups by position only"
            fix = "For groups of varying size or resampled groups, train with polypath's own loop."
            raise UserError("rows", what, fix)
