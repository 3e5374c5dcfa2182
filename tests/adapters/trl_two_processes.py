"""Run by test_trl_processes under `accelerate launch`: train two steps, and report what each rank saw."""

import json
import sys
from pathlib import Path

import datasets
import trl
from accelerate.utils import gather_object
from trl_table import PROMPTS, WORDS, G, tiny_llama

from polypath.adapters.trl import DiverseGRPOTrainer
from polypath.engines.tiny import word_tokenizer

# Rank 1 gets shorter completions, so that the ranks pad to different widths.
LENGTHS = {PROMPTS[0]: [6, 5, 4, 3], PROMPTS[1]: [3, 2, 2, 1]}


def rollouts(prompts, trainer):
    ids = [[10 + i % G] * LENGTHS[prompt][i % G] for i, prompt in enumerate(prompts)]
    return {
        "prompt_ids": [trainer.processing_class(prompt)["input_ids"] for prompt in prompts],
        "completion_ids": ids,
        "logprobs": None,
    }


def reward(prompts, completion_ids, **_):
    return [len(ids) + 10.0 * PROMPTS.index(prompt) for prompt, ids in zip(prompts, completion_ids, strict=True)]


def main(folder: str) -> None:
    config = trl.GRPOConfig(
        output_dir=folder,
        use_cpu=True,
        bf16=False,
        num_generations=G,
        per_device_train_batch_size=G,
        max_completion_length=8,
        max_steps=1,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        learning_rate=1e-2,
    )
    trainer = DiverseGRPOTrainer(
        tiny_llama(),
        reward,
        config,
        train_dataset=datasets.Dataset.from_list([{"prompt": prompt} for prompt in PROMPTS]),
        processing_class=word_tokenizer(WORDS),
        rollout_func=rollouts,
        canonical=lambda texts, row: texts,
        credit=[{"normalise": "centre"}, {"token_credit": "broadcast"}],
    )
    score = trainer._generate_and_score_completions
    seen = []

    def scored(inputs):
        out = score(inputs)
        seen.append({"prompt": inputs[0]["prompt"], "advantages": out["advantages"].tolist()})
        return out

    trainer._generate_and_score_completions = scored
    trainer.train()
    weight = float(sum(p.detach().double().sum() for p in trainer.model.parameters()))
    everybody = gather_object([{"rank": trainer.accelerator.process_index, "weight": weight, "steps": seen}])
    if trainer.accelerator.is_main_process:
        logged = list(trainer._logs["advantages"])
        Path(folder, "seen.json").write_text(json.dumps({"ranks": everybody, "logged": logged}))


if __name__ == "__main__":
    main(sys.argv[1])
