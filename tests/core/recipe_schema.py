"""A schema that uses every feature of the resolver, shared by the recipe tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from polypath.core.recipe import Call, Kind, Kinds, Range, Scheduled
from polypath.core.registry import register


@register("fruit", "apple")
def apple(
    x: int,
    *,
    weight: float = 1.0,
    colour: Literal["red", "green"] = "red",
    seeds: int | None = None,
    layers: list[int] | None = None,
    share: Annotated[float, Range(0, 1)] = 0.5,
    odd: SomeTypeNobodyKnows = None,  # noqa: F821
    grafts: list[Annotated[Call, Kind("cut")]] = (),  # type: ignore[assignment]
) -> tuple[int, float]:
    """A fruit with many knobs."""
    return x, weight


@register("fruit", "pear")
def pear(x: int, *, length: int) -> int:
    """A fruit with a knob that must be given."""
    return x * length


@register("cut", "slices")
def slices(x: int, *, count: int = 2) -> int:
    """A second kind."""
    return x * count


@dataclass
class Policy:
    model: str
    lr: float = 1e-4
    dims: tuple[int, ...] = (1, 2)
    window: tuple[int, float] = (1, 0.5)
    dropout: Annotated[float, Range(0, 1)] = 0.0
    dtype: Literal["float32", "bfloat16"] = "float32"
    steps: Annotated[int, Range(1, None)] = 10

    def __post_init__(self) -> None:
        if self.dtype == "bfloat16" and self.lr > 1:
            raise ValueError("bfloat16 needs lr <= 1")


@dataclass
class Recipe:
    task: Annotated[Call, Kind("fruit")]
    policy: Policy
    seed: int = 0
    name: str | None = None
    chat: bool = False
    alpha: Scheduled = 0.5
    stages: Annotated[list[Call], Kinds("fruit", "cut")] = field(default_factory=list)
    either: Annotated[Call, Kind("fruit")] | Annotated[list[Call], Kinds("fruit", "cut")] | None = None
    weights: dict[str, float] = field(default_factory=dict)
    mixture: list[Annotated[Call, Kind("fruit")]] = field(default_factory=list)
    extra: Policy | None = None
