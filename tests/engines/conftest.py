"""Tiny random models of two architectures, shared by the engine tests."""

import random

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from polypath.engines.protocol import Row  # noqa: E402
from polypath.engines.tiny import build_gpt2, word_tokenizer  # noqa: E402
from polypath.engines.transformers import TransformersPolicy  # noqa: E402

WORDS = [f"w{i}" for i in range(37)]  # with the three special words: a vocabulary of 40


def tiny_gpt2() -> TransformersPolicy:
    policy = build_gpt2(WORDS, n_embd=32, n_layer=2, n_head=2, n_inner=48, seed=1)
    with torch.no_grad():  # an untrained GPT-2 is nearly uniform and blind to its context: sharpen it, so errors show
        for parameter in policy.model.transformer.h.parameters():
            parameter.mul_(10 if parameter.dim() > 1 else 1)
        policy.model.transformer.wte.weight.mul_(10)
        policy.model.transformer.wpe.weight.mul_(10)
    return policy


def tiny_llama(**changes) -> TransformersPolicy:
    settings = {
        "vocab_size": 40,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
        "initializer_range": 0.3,
        "eos_token_id": 1,
        "pad_token_id": 0,
    } | changes
    torch.manual_seed(2)
    kind = transformers.MistralForCausalLM if "sliding_window" in changes else transformers.LlamaForCausalLM
    config = transformers.MistralConfig if "sliding_window" in changes else transformers.LlamaConfig
    return TransformersPolicy(kind(config(**settings)), word_tokenizer(WORDS))


MAKERS = {"gpt2": tiny_gpt2, "llama": tiny_llama, "sliding": lambda: tiny_llama(sliding_window=6)}


@pytest.fixture(params=["gpt2", "llama"])
def policy(request) -> TransformersPolicy:
    return MAKERS[request.param]()


@pytest.fixture(params=list(MAKERS))
def any_policy(request) -> TransformersPolicy:
    return MAKERS[request.param]()


@pytest.fixture
def make_policy():
    return MAKERS


@pytest.fixture
def rows() -> list[Row]:
    """Groups of unequal size and length: a row without ids, one of a single id, equal rows, a lone row."""
    rng = random.Random(0)

    def ids(n: int) -> tuple[int, ...]:
        return tuple(rng.randrange(2, 40) for _ in range(n))

    prompts = [ids(5), ids(9), ids(1)]
    twin = Row(prompts[1], ids(6))
    return [
        *(Row(prompts[0], ids(n)) for n in (4, 1, 7)),
        twin,
        Row(prompts[2], ids(3)),
        Row(prompts[1], ids(2)),
        twin,
        Row(prompts[0], ()),
        Row(prompts[0], ids(12)),
    ]
