"""The one place where a chat template is applied and where token ids become text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polypath.core.errors import UserError


def encode_prompt(tokenizer: Any, prompt_text: str, chat: bool, system: str | None = None) -> list[int]:
    """Token ids of a prompt: as a user turn of the chat template, or as plain text.

    Raises UserError when the tokenizer has no chat template, or when a system text is given without `chat`.
    """
    if not chat:
        if system is not None:
            raise UserError("chat", "a system text needs a chat template", "Set chat: true, or drop the system text.")
        return list(tokenizer(prompt_text)["input_ids"])
    if not getattr(tokenizer, "chat_template", None):
        raise UserError("chat", "this model has no chat template", "Set chat: false, or use an instruction model.")
    turns = [{"role": "user", "content": prompt_text}]
    if system is not None:
        turns.insert(0, {"role": "system", "content": system})
    text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])  # the template wrote the special tokens


def decode(tokenizer: Any, ids: Sequence[int]) -> str:
    """Text of token ids, without special tokens; spaces stay as the tokens have them."""
    return str(tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False))
