"""Model names: aliases that need no hub, models shipped with the package, local paths and hub ids."""

from __future__ import annotations

from pathlib import Path


def resolve_model(name: str) -> Path | str:
    """Where the model is."""
    return Path(name) if Path(name).exists() else name
