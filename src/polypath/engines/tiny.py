"""Small models from scratch: a word-level vocabulary and a GPT-2 that learns on one CPU core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polypath.core.errors import UserError
from polypath.engines.transformers import TransformersPolicy

PAD, EOS, UNK = "<pad>", "<eos>", "<unk>"


def word_tokenizer(vocabulary: Sequence[str]) -> Any:
    """A tokenizer whose tokens are the words of `vocabulary`, split and joined at blanks.

    `<pad>`, `<eos>` and `<unk>` are put in front unless the vocabulary holds them. Raises UserError on repeated words.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = [special for special in (PAD, EOS, UNK) if special not in vocabulary] + list(vocabulary)
    repeated = sorted({word for word in words if words.count(word) > 1})
    if repeated:
        raise UserError("vocabulary", f"these words occur twice: {', '.join(repeated)}", "Give every word once.")
    backend = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token=UNK))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token=PAD, eos_token=EOS, unk_token=UNK)


def build_gpt2(
    vocabulary: Sequence[str],
    *,
    n_embd: int = 96,
    n_layer: int = 3,
    n_head: int = 4,
    n_inner: int = 192,
    n_positions: int = 64,
    seed: int,
) -> TransformersPolicy:
    """A GPT-2 with random weights over a word-level vocabulary: gelu, no dropout, tied head, float32.

    With the defaults and 58 tokens in all it has 236,256 parameters.
    """
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    tokenizer = word_tokenizer(vocabulary)
    tokenizer.model_max_length = n_positions
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=n_positions,
        n_embd=n_embd,
        n_layer=n_layer,
        n_head=n_head,
        n_inner=n_inner,
        activation_function="gelu",
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=tokenizer.eos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = GPT2LMHeadModel(config)
    return TransformersPolicy(model, tokenizer)
