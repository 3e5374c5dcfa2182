"""The policy: saved and loaded again it is the same, LoRA trains its adapter only, choices are printed."""

import pytest
import torch

from polypath.core import registry
from polypath.core.errors import UserError
from polypath.engines.chat import decode, encode_prompt
from polypath.engines.protocol import SamplingParams
from polypath.engines.tiny import build_gpt2, word_tokenizer
from polypath.engines.transformers import LoraSpec, TransformersPolicy


def same_scores(one, two, rows):
    pairs = zip(one.score(rows).logp, two.score(rows).logp, strict=True)
    return all(torch.allclose(a, b, atol=1e-6) for a, b in pairs)


def test_a_saved_policy_loads_the_same(policy, rows, tmp_path):
    policy.version = 7
    policy.save(str(tmp_path / "saved"))
    assert (tmp_path / "saved" / "model.safetensors").is_file()
    loaded = TransformersPolicy.load(str(tmp_path / "saved"), threads=torch.get_num_threads())
    assert loaded.version == 7 and loaded.stop_ids == policy.stop_ids
    assert same_scores(policy, loaded, rows)
    assert encode_prompt(loaded.tokenizer, "w3 w5", False) == encode_prompt(policy.tokenizer, "w3 w5", False)


@pytest.mark.parametrize("stored", [torch.bfloat16, torch.float16])
def test_a_half_precision_checkpoint_is_float32_on_a_cpu(stored, make_policy, tmp_path):
    policy = make_policy["gpt2"]()
    policy.model.to(stored)
    policy.save(str(tmp_path))
    loaded = TransformersPolicy.load(str(tmp_path), device="cpu", threads=torch.get_num_threads())
    assert loaded.dtype == torch.float32 and "float32 on cpu" in loaded.describe()
    assert f"checkpoint stored in {str(stored).removeprefix('torch.')}" in loaded.describe()


def test_lora_trains_the_adapter_alone_and_saves_a_reference(policy, rows, tmp_path):
    policy.save(str(tmp_path / "base"))
    threads = torch.get_num_threads()
    tuned = TransformersPolicy.load(str(tmp_path / "base"), lora=LoraSpec(r=2, seed=3), threads=threads)
    assert same_scores(policy, tuned, rows)  # an adapter starts at zero
    names = [name for name, p in tuned.model.named_parameters() if p.requires_grad]
    assert names and all("lora_" in name for name in names)
    torch.cat(tuned.score(rows, grad=True).logp).sum().backward()
    torch.optim.SGD(tuned.parameters(), lr=0.05).step()
    assert not same_scores(policy, tuned, rows)
    tuned.save(str(tmp_path / "adapter"))
    assert not (tmp_path / "adapter" / "model.safetensors").exists()
    loaded = TransformersPolicy.load(str(tmp_path / "adapter"), threads=threads)
    assert same_scores(tuned, loaded, rows) and any(True for _ in loaded.parameters())
    assert (
        loaded.sample([(5, 6)], SamplingParams(4), [0])[0].ids == tuned.sample([(5, 6)], SamplingParams(4), [0])[0].ids
    )


def test_lora_options_are_checked(make_policy, tmp_path):
    make_policy["gpt2"]().save(str(tmp_path))
    with pytest.raises(UserError, match="Did you mean alpha"):
        TransformersPolicy.load(str(tmp_path), lora={"alfa": 3})


def test_the_registered_engine_loads(make_policy, rows, tmp_path):
    policy = make_policy["gpt2"]()
    policy.save(str(tmp_path))
    loaded = registry.get("engine", "transformers")(str(tmp_path), threads=torch.get_num_threads())
    assert same_scores(policy, loaded, rows)


def test_a_directory_without_a_model_is_the_users_error(tmp_path):
    with pytest.raises(UserError, match="model"):
        TransformersPolicy.load(str(tmp_path))


def test_text_embeddings_are_mean_states(policy):
    texts = ["w3 w4 w5", "w9", "", "w3 w4 w5 w6 w7 w8"]
    vectors = policy.embed(texts)
    assert torch.allclose(vectors.norm(dim=-1), torch.ones(4), atol=1e-6)
    with torch.no_grad():
        ids = torch.tensor([policy.tokenizer(texts[0])["input_ids"]])
        states = policy.model(ids, output_hidden_states=True).hidden_states[-1][0]
    assert torch.allclose(vectors[0], torch.nn.functional.normalize(states.mean(0), dim=-1), atol=1e-5)


def test_the_laboratory_model_has_its_parameters():
    # 3 (96*288+288 + 96*96+96 + 96*192+192 + 192*96+96 + 4*96) + 2*96 + (58 + 64) 96 = 236,256.
    assert build_gpt2([f"t{i}" for i in range(55)], seed=0).num_parameters == 236_256
    assert build_gpt2([f"t{i}" for i in range(36)], seed=0).num_parameters == 234_432


def test_the_seed_alone_decides_the_weights():
    def weights(seed):
        return build_gpt2(["a", "b"], n_embd=8, n_head=2, n_layer=1, n_inner=8, seed=seed).model.lm_head.weight

    torch.manual_seed(0)
    first = weights(5)
    assert torch.equal(first, weights(5)) and not torch.equal(first, weights(6))


def test_words_survive_the_tokenizer():
    tokenizer = word_tokenizer(["1", "+", "7", "=", ">", "24"])
    ids = encode_prompt(tokenizer, "1 + 7 = 24 nonsense >", False)
    assert ids == [3, 4, 5, 6, 8, 2, 7]
    assert decode(tokenizer, [*ids[:5], tokenizer.eos_token_id, tokenizer.pad_token_id]) == "1 + 7 = 24"
    with pytest.raises(UserError, match="twice: a"):
        word_tokenizer(["a", "b", "a"])


def test_the_chat_template_is_applied_once():
    tokenizer = word_tokenizer(["user", "system", "assistant", "hi", "be", "brief"])
    with pytest.raises(UserError, match="no chat template"):
        encode_prompt(tokenizer, "hi", True)
    turns = "{% for m in messages %}{{ m.role }} {{ m.content }} {% endfor %}"
    tokenizer.chat_template = turns + "{% if add_generation_prompt %}assistant{% endif %}"
    assert decode(tokenizer, encode_prompt(tokenizer, "hi", True)) == "user hi assistant"
    assert decode(tokenizer, encode_prompt(tokenizer, "hi", True, "be brief")) == "system be brief user hi assistant"
    with pytest.raises(UserError, match="system"):
        encode_prompt(tokenizer, "hi", False, "be brief")


def test_an_unreachable_hub_is_the_users_error(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match="nobody/nothing"):
        TransformersPolicy.load("nobody/nothing")
