"""Checkpoints: model, optimiser, credit memory and step, written whole or not at all."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import torch

from polypath.core.errors import UserError
from polypath.credit import Memory
from polypath.engines.transformers import TransformersPolicy
from polypath.train.learner import Learner


def save_checkpoint(folder: Path, step: int, policy: TransformersPolicy, learner: Learner, memory: Memory) -> Path:
    """Write `folder/step-<step>`, then drop the older ones. A kill at any point leaves a complete checkpoint."""
    final = folder / f"step-{step:06d}"
    partial = folder / f".{final.name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        policy.save(str(partial / "model"))
        state = {"step": step, "learner": learner.state_dict(), "memory": memory.state_dict()}
        torch.save(state, partial / "state.pt")
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise UserError(str(folder), f"cannot write a checkpoint: {error}", "Free some space and run again.") from error
    older = list(checkpoints(folder))
    shutil.rmtree(final, ignore_errors=True)
    os.replace(partial, final)
    for path in older:
        if path != final:
            shutil.rmtree(path)
    return final


def checkpoints(folder: Path) -> list[Path]:
    """Complete checkpoints, oldest first."""
    return sorted(path for path in folder.glob("step-*") if (path / "state.pt").exists())


def load_state(checkpoint: Path) -> dict[str, Any]:
    """The step, learner and memory of a checkpoint."""
    state: dict[str, Any] = torch.load(checkpoint / "state.pt", map_location="cpu", weights_only=True)
    return state
