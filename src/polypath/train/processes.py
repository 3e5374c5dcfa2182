"""Data parallelism by groups over accelerate's processes; a single process is the case of one rank."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, gather_object

T = TypeVar("T")


class Processes:
    """What the loop needs of its peers: a share of the prompts, gathered objects and summed gradients.

    Groups are never split over ranks. Gradients are summed, not averaged, because every loss is already divided by
    the global denominator: so N processes take the same step as one, up to the order of floating-point sums.
    """

    def __init__(self, accelerator: Accelerator | None = None) -> None:
        self.accelerator = accelerator
        self.rank = accelerator.process_index if accelerator else 0
        self.size = accelerator.num_processes if accelerator else 1

    @classmethod
    def detect(cls, device: str) -> Processes:
        """The processes of `accelerate launch`, or a single one."""
        accelerator = Accelerator(cpu=device == "cpu")
        return cls(accelerator if accelerator.num_processes > 1 else None)

    @property
    def is_main(self) -> bool:
        """Whether this process writes the run's files."""
        return self.rank == 0

    def share(self, items: Sequence[T]) -> list[T]:
        """This rank's items, dealt round-robin."""
        return list(items[self.rank :: self.size])

    def gather_dealt(self, items: list[T]) -> list[T]:
        """The inverse of `share`: everybody's items in their original order, on every rank."""
        if self.size == 1:
            return items
        everybody: list[list[T]] = gather_object([items])
        longest = max(len(part) for part in everybody)
        return [part[i] for i in range(longest) for part in everybody if i < len(part)]

    def sum_metrics(self, metrics: dict[str, float]) -> dict[str, float]:
        """Metrics summed over ranks, name by name."""
        if self.size == 1:
            return metrics
        total: dict[str, float] = {}
        for part in gather_object([metrics]):
            for name, number in part.items():
                total[name] = total.get(name, 0.0) + number
        return total

    def sum_gradients(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """All-reduce gradients in place; a parameter without one on this rank takes part with zeros."""
        if self.accelerator is None:
            return
        for parameter in parameters:
            grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            parameter.grad = self.accelerator.reduce(grad, reduction="sum")

    def agree(self, value: T) -> T:
        """The main process's value, on every rank."""
        if self.size == 1:
            return value
        return broadcast_object_list([value])[0]

    def wait(self) -> None:
        """A barrier."""
        if self.accelerator is not None:
            self.accelerator.wait_for_everyone()
