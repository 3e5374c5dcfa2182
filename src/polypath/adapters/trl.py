"""TRL's GRPOTrainer with any credit method in place of its group normalisation; all else stays TRL's.

trainer = DiverseGRPOTrainer(model, reward_funcs, args, train_dataset=rows, credit="rarity", canonical=task)
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from polypath import credit as credits
from polypath.adapters.trl_checks import check_fields, check_settings, check_version, check_whole_groups
from polypath.adapters.trl_groups import Canonical, group_fields, stack_advantages, text_of, total_rewards
from polypath.core.errors import missing_extra
from polypath.credit.inputs import Provider
from polypath.tasks.protocol import Task

MEMORY = "polypath_memory.json"
Base: Any = object  # GRPOTrainer joins when the trainer is first asked for, so that nothing imports TRL before


def __getattr__(name: str) -> Any:
    if name != "DiverseGRPOTrainer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _trainer()


@cache
def _trainer() -> type:
    try:
        import trl
    except ImportError as error:
        raise missing_extra("DiverseGRPOTrainer", "trl", "train") from error
    check_version(trl.__version__)
    return type("DiverseGRPOTrainer", (CreditedGroups, trl.GRPOTrainer), {"__doc__": CreditedGroups.__doc__})


class CreditedGroups(Base):
    """GRPOTrainer whose advantages come from a credit method; its own arguments come first and mean what they meant.

    Args:
        credit: a method's name, `{name: knobs}`, a method file or a list of stages (see `polypath.credit.build`).
        canonical: says which solutions are the same: `canonical(texts, row)` gives one label per completion of a group
            (None stands alone); or a task, which verifies them with the row's columns `prompt`, `id` and `data`.
        correct_threshold: a completion is correct when its reward is at least this. Without it the task decides, else
            rewards that are all 0/1 or -1/1 do.
        providers: fields computed from texts, as in `{"embeddings": embed}`.
        loss: "method" holds `args` to the loss that the method declares; "config" takes that of `args` as it is.

    Credit works on the weighted sum of the rewards. A rollout without any reward, or dropped by the method, gets
    advantage 0 but still counts in TRL's denominators. `scale_rewards` has no effect.
    Raises UserError for what TRL cannot express.
    """

    def __init__(
        self,
        model: Any,
        reward_funcs: Any = None,
        args: Any = None,
        *more: Any,
        credit: Any,
        canonical: Canonical | Task | None = None,
        correct_threshold: float | None = None,
        providers: Mapping[str, Provider] | None = None,
        loss: Literal["method", "config"] = "method",
        **options: Any,
    ) -> None:
        self.pipeline = credits.build(credit, providers=providers)
        self.canonical, self.correct_threshold, self.memory = canonical, correct_threshold, credits.Memory()
        self.needed = check_fields(self.pipeline, labels=canonical is not None, answers=isinstance(canonical, Task))
        declared = self.pipeline.loss if loss == "method" else None
        if args is not None:
            check_settings(declared, args)  # before a model loads
        super().__init__(model, reward_funcs, args, *more, **options)
        check_settings(declared, self.args)

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> Any:
        rewards = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        self._seen = rewards, inputs, completions, completion_ids_list
        return rewards

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        out: dict[str, Any] = super()._generate_and_score_completions(inputs)
        training = self.model.training
        memory = self.memory if training else self.memory.copy()
        credit = self.pipeline(self._groups(out, training), step=self.state.global_step, memory=memory)
        advantages = stack_advantages(credit.advantages)
        mine = advantages[self.accelerator.process_index * len(inputs) :][: len(inputs)]
        if mine.ndim == 2:  # another process may have longer completions
            mine = mine[:, : out["completion_ids"].shape[1]]
        out["advantages"] = out["advantages"].new_tensor(mine)
        logged = self._logs["advantages"]  # where super() has put its own
        for _ in range(min(len(advantages), len(logged))):
            logged.pop()
        logged.extend(advantages.reshape(len(advantages), -1).mean(-1).tolist())
        for name, value in credit.metrics.items():
            if not math.isnan(value):
                self._metrics["train" if training else "eval"][f"credit/{name}"].append(value)
        return out

    def _groups(self, out: Mapping[str, Any], training: bool) -> list[dict[str, Any]]:
        """The groups of the global batch in TRL's order, where every `num_generations` consecutive rows are one."""
        from accelerate.utils import gather_object

        rewards, rows, completions, ids = self._seen
        size = self.num_generations if training else self.num_generations_eval
        check_whole_groups(rows, size, "train" if training else "eval")
        texts = [text_of(completion) for completion in completions]
        own = [slice(start, start + size) for start in range(0, len(rows), size)]
        groups = gather_object([group_fields(texts[s], ids[s], rows[s.start], self.canonical) for s in own])
        totals = total_rewards(rewards.double().cpu().numpy(), self.reward_weights.double().cpu().numpy())
        tokens = self._token_fields(out)
        for place, group in enumerate(groups):
            part = slice(place * size, (place + 1) * size)
            group.update({name: values[part] for name, values in {"rewards": totals, **tokens}.items()})
            if self.correct_threshold is not None:
                group["correct"] = totals[part] >= self.correct_threshold
        return groups

    def _token_fields(self, out: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """What the method reads of mask, logp and entropy, each (N, T) over all processes."""
        import torch

        local = {"mask": out["completion_mask"] * out.get("tool_mask", 1)}
        if self.needed & {"logp", "entropy"}:  # one more forward pass, as TRL scores only when it trains
            ids, mask = (torch.cat([out[f"prompt_{k}"], out[f"completion_{k}"]], dim=1) for k in ("ids", "mask"))
            size = out["completion_ids"].shape[1], self.args.per_device_train_batch_size
            with torch.no_grad():
                scores = self._get_per_token_logps_and_entropies(self.model, ids, mask, *size, compute_entropy=True)
            local["logp"], local["entropy"] = scores[:2]
        padded = {n: self.accelerator.pad_across_processes(local[n], dim=1) for n in sorted(local.keys() & self.needed)}
        return {name: self.accelerator.gather(rows).double().cpu().numpy() for name, rows in padded.items()}

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        if self.args.should_save:
            path = Path(self._get_output_dir(trial=trial), f"checkpoint-{self.state.global_step}", MEMORY)
            path.write_text(json.dumps(self.memory.state_dict()), encoding="utf-8")

    def _load_optimizer_and_scheduler(self, checkpoint: Any) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None and (saved := Path(checkpoint, MEMORY)).is_file():
            self.memory.load_state_dict(json.loads(saved.read_text(encoding="utf-8")))
