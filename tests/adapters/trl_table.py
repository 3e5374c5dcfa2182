"""A tiny random model, and fixed rollouts for it."""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from polypath.engines.tiny import word_tokenizer  # noqa: E402

WORDS = [f"w{i}" for i in range(37)]
PROMPTS = ["w1 w2 w3", "w4 w5"]
G = 4
# Completions of unequal length in two groups, ended by <eos> (id 1) or cut; equal ids are equal solutions.
COMPLETIONS = [
    [[9, 10, 11, 1], [9, 10, 11, 1], [12, 1], [13, 14, 15, 16, 17]],
    [[20, 1], [21, 22, 23, 1], [20, 1], [24, 25, 1]],
]
REWARDS = [[1.0, 1.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0]]
LABELS = [["a", "a", "b", None], [None, "c", None, None]]


def tiny_llama(seed: int = 2):
    settings = transformers.LlamaConfig(
        vocab_size=40,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        initializer_range=0.3,
        eos_token_id=1,
        pad_token_id=0,
    )
    torch.manual_seed(seed)
    return transformers.LlamaForCausalLM(settings)


def fixed_rollouts(prompts, trainer):
    """Give the completions of each prompt in turn; a step sees every prompt once."""
    left = {prompt: iter(group) for prompt, group in zip(PROMPTS, COMPLETIONS, strict=True)}
    tokenizer = trainer.processing_class
    return {
        "prompt_ids": [tokenizer(prompt)["input_ids"] for prompt in prompts],
        "completion_ids": [list(next(left[prompt])) for prompt in prompts],
        "logprobs": None,
    }


def table_reward(prompts, completion_ids, **_):
    """The reward of each fixed completion."""
    return [
        REWARDS[PROMPTS.index(p)][COMPLETIONS[PROMPTS.index(p)].index(list(ids))]
        for p, ids in zip(prompts, completion_ids, strict=True)
    ]


def table_labels(texts, row):
    return LABELS[PROMPTS.index(row["prompt"])]


def table_groups(with_labels: bool = True):
    """The fixed groups as fields of credit, in the order of PROMPTS."""
    tokenizer = word_tokenizer(WORDS)
    return [
        {
            "rewards": REWARDS[g],
            "texts": [tokenizer.decode(ids, skip_special_tokens=True) for ids in COMPLETIONS[g]],
            "lengths": [len(ids) for ids in COMPLETIONS[g]],
            **({"labels": LABELS[g]} if with_labels else {}),
        }
        for g in range(len(PROMPTS))
    ]
