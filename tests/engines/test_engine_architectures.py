"""Other architectures: what is not plain causal attention goes dense, and all paths give the same numbers."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from polypath.core.errors import UserError
from polypath.engines.protocol import Row, SamplingParams
from polypath.engines.sampling import Limits
from polypath.engines.tiny import word_tokenizer
from polypath.engines.transformers import TransformersPolicy

SHAPE = {
    "vocab_size": 40,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,
    "eos_token_id": 1,
    "pad_token_id": 0,
}
CASES = {  # model type: (settings, attention, full attention?)
    "qwen3": ({}, "sdpa", True),
    "llama": ({}, "eager", True),  # a mask that is added, not a boolean one
    "cohere": ({"logit_scale": 0.5}, "sdpa", True),
    "granite": ({"logits_scaling": 3.0}, "sdpa", True),
    "gemma2": ({"sliding_window": 6, "final_logit_softcapping": 3.0}, "eager", False),
    "gpt_neo": ({"attention_types": [[["global", "local"], 1]], "num_layers": 2, "window_size": 4}, "eager", False),
    "bloom": ({"n_head": 4, "n_layer": 2}, "eager", False),
    "lfm2": ({"layer_types": ["conv", "full_attention"], "conv_L_cache": 3}, "sdpa", False),
}


def build(kind: str, settings: dict, attention: str) -> TransformersPolicy:
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **SHAPE, **settings)
    model = AutoModelForCausalLM.from_config(config, attn_implementation=attention).float()
    policy = TransformersPolicy(model, word_tokenizer([f"w{i}" for i in range(37)]), limits=Limits(min_shared=1))
    policy.packing, policy.stop_ids = "packed", ()
    return policy


@pytest.mark.parametrize("kind", CASES)
def test_samples_scores_and_a_plain_forward_agree(kind):
    settings, attention, full = CASES[kind]
    policy = build(kind, settings, attention)
    assert policy.full_attention == full
    prefixes = [(5, 6, 7, 8, 9), (5, 6, 7), (5, 6, 7, 8, 9), (12, 5, 6, 6, 7, 3, 2, 9, 11, 5)]
    samples = policy.sample(prefixes, SamplingParams(max_new_tokens=10), range(4))
    rows = [Row(p, tuple(s.ids)) for p, s in zip(prefixes, samples, strict=True)]
    for row, sample, logp in zip(rows, samples, policy.score(rows).logp, strict=True):
        assert torch.allclose(logp, torch.tensor(sample.logp), atol=1e-4)
        with torch.no_grad():
            logits = policy.model(torch.tensor([row.prompt_ids + row.ids])).logits[0, len(row.prompt_ids) - 1 : -1]
        plain = logits.float().log_softmax(-1).gather(-1, torch.tensor(row.ids)[:, None])[:, 0]
        assert torch.allclose(logp, plain, atol=1e-4)


def test_an_attention_that_the_model_lacks_names_the_fix(tmp_path):
    build("bloom", *CASES["bloom"][:2]).save(str(tmp_path))
    with pytest.raises(UserError, match="eager"):
        TransformersPolicy.load(str(tmp_path), attention="sdpa")


def test_a_model_without_a_cache_is_refused_for_sampling():
    with pytest.raises(UserError, match="rwkv"):
        build("rwkv", {}, "eager").sample([(5, 6)], SamplingParams(max_new_tokens=2), [0])
