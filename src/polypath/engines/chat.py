"""The one place where a chat template is applied and where token ids become text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polypath.core.errors import UserError

_MARK, _TEXT = "\u00a7answer\u00a7", "\u00a7text\u00a7"  # stand for an answer and for what follows it


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


def encode_turn(tokenizer: Any, text: str, chat: bool, last: int) -> list[int]:
    """Token ids of what comes between two answers of one conversation: the rest of the answer's turn, then `text`.

    `last` is the last token of the answer; where that already ends the turn it is not written twice. Together with the
    prompt and the answers these ids are what the template makes of the whole conversation, and what is scored.
    """
    if not chat:
        end = tokenizer.eos_token_id
        ended = [] if end is None or last == end else [end]
        return [*ended, *tokenizer(text, add_special_tokens=False)["input_ids"]]
    turns = [{"role": "user", "content": "A"}, {"role": "assistant", "content": _MARK}]
    turns.append({"role": "user", "content": _TEXT})
    whole = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    between = whole.rpartition(_MARK)[2].replace(_TEXT, text)
    ids = list(tokenizer(between, add_special_tokens=False)["input_ids"])
    return ids[1:] if ids and ids[0] == last else ids


def decode(tokenizer: Any, ids: Sequence[int]) -> str:
    """Text of token ids, without special tokens; spaces stay as the tokens have them."""
    return str(tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False))
