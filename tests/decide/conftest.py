"""A tiny Llama that reads any text byte by byte, for what needs a real model and no knowledge."""

import pytest


@pytest.fixture(scope="session")
def byte_model(tmp_path_factory):
    """Directory of a random 2-layer Llama with a byte-level tokenizer."""
    torch = pytest.importorskip("torch")
    import tokenizers
    import transformers

    path = tmp_path_factory.mktemp("byte-model")
    symbols = {symbol: i for i, symbol in enumerate(sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()))}
    raw = tokenizers.Tokenizer(tokenizers.models.BPE(symbols, []))
    raw.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = tokenizers.decoders.ByteLevel()
    raw.add_special_tokens(["<s>", "</s>"])
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token="<s>", eos_token="</s>", pad_token="</s>"
    )
    fast.save_pretrained(path)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(fast),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=16384,
        bos_token_id=fast.bos_token_id,
        eos_token_id=fast.eos_token_id,
        pad_token_id=fast.pad_token_id,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(path)
    return str(path)
