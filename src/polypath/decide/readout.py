"""Readouts: how one forward pass of a causal language model answers typed questions.

A readout turns a question into branches, each a text that the model reads after the state and the labels that it
might go on with. All labels of all branches of all questions about a state are scored in one forward (`engines.tree`),
and no branch sees another, so adding or reordering questions changes nothing.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from polypath.core.errors import UserError
from polypath.core.registry import get, register
from polypath.decide.answers import Answer, make_answer
from polypath.decide.types import Choice, MultiLabel, Option, Pair, Question, Rank, Score, YesNo
from polypath.engines.protocol import Row

if TYPE_CHECKING:
    from polypath.engines.transformers import TransformersPolicy

Readout = Callable[[Question], "list[Branch]"]
PERMUTED = (Choice, MultiLabel, Rank)  # types whose options have no order of their own
MARK = "\x00"  # where the question goes in a rendered prompt; no text of a user's holds it


@dataclass(frozen=True)
class Branch:
    """A text read after the state, and the labels scored after it; with `closed`, each ends with the end of turn."""

    text: str
    labels: tuple[str, ...]
    closed: bool


@register("readout", "label_tree", returns="branches")
def label_tree(question: Question) -> list[Branch]:
    """The exact log-probability of every label's whole text, whatever its length in tokens."""
    if isinstance(question, MultiLabel):
        return each_alone(question, ("yes", "no"), closed=True)
    labels = tuple(option.label for option in question.options)
    return [Branch(f"{ask_text(question)}\n{listing(question.options, '-')}\nAnswer with one of them.", labels, True)]


@register("readout", "letter", returns="branches")
def letter(question: Question) -> list[Branch]:
    """The probability of each option's letter. Raises UserError for more than 26 options."""
    if isinstance(question, MultiLabel):
        return each_alone(question, ("Yes", "No"), closed=False)
    letters = tuple(string.ascii_uppercase[: len(question.options)])
    if len(letters) < len(question.options):
        what = f"{len(question.options)} options, but there are 26 letters"
        raise UserError("readout letter", what, "Use label_tree.")
    lines = "\n".join(f"{name}) {describe(o)}" for name, o in zip(letters, question.options, strict=True))
    return [Branch(f"{ask_text(question)}\n{lines}\nAnswer with the letter.", letters, False)]


@register("readout", "yes_no", returns="branches")
def yes_no(question: Question) -> list[Branch]:
    """The log-odds of Yes against No: of the question itself, or of each option asked alone."""
    if isinstance(question, YesNo):
        criteria = "".join(f"\n{o.label}: {o.description}" for o in question.options if o.description)
        return [Branch(f"{ask_text(question)}{criteria}\nAnswer Yes or No.", ("Yes", "No"), False)]
    return each_alone(question, ("Yes", "No"), closed=False)


def each_alone(question: Question, labels: tuple[str, ...], *, closed: bool) -> list[Branch]:
    """One branch an option, which asks whether that option holds."""
    return [
        Branch(
            f"{ask_text(question)}\nIs this right: {describe(o)}? Answer {labels[0]} or {labels[1]}.", labels, closed
        )
        for o in question.options
    ]


def ask_text(question: Question) -> str:
    """The instructions, or what the type itself asks."""
    if question.instructions:
        return f"Question: {question.instructions}"
    if isinstance(question, Pair):
        return "Question: Which is better?"
    if isinstance(question, Score):
        return "Question: Which level fits? The first is the lowest."
    return "Question: Which of these fits best?" if len(question.options) > 1 else "Question: Does this fit?"


def describe(option: Option) -> str:
    """Label and description."""
    return f"{option.label}: {option.description}" if option.description else option.label


def listing(found: Sequence[Option], bullet: str) -> str:
    """One option a line."""
    return "\n".join(f"{bullet} {describe(option)}" for option in found)


def ask(
    policy: TransformersPolicy,
    state: str,
    questions: Mapping[str, Question],
    *,
    readout: str = "label_tree",
    canonical: bool = True,
    length: str = "sum",
    temperature: Callable[[Question], float] = lambda _: 1.0,
) -> dict[str, Answer]:
    """Answers to all questions about one state, from one forward pass.

    `canonical` shows options in the order of their text, so that the answer depends on the set alone; `length` is the
    score of a label: its log-probability ("sum") or that per token ("mean"). Raises UserError for labels that the
    tokenizer cannot tell apart or write.
    """
    if length not in ("sum", "mean"):
        raise UserError("length", f"'{length}' is no score of a label", "Choose sum or mean.")
    make = get("readout", readout, where="readout")
    orders = {
        key: canonical_order(question) if canonical else list(range(len(question.options)))
        for key, question in questions.items()
    }
    branches = {key: make(reorder(question, orders[key])) for key, question in questions.items()}
    rows = [row for own in branches.values() for row in branch_rows(policy.tokenizer, policy.stop_ids[0], state, own)]
    longest = max((len(row.prompt_ids) + len(row.ids) for row in rows), default=0)
    if longest > policy.max_positions + 1:
        what = f"with a question it has {longest} tokens, and the model reads {policy.max_positions}"
        raise UserError("state", what, "Shorten the state, or the options' descriptions.")
    scores = iter(score_rows_in_tree(policy, rows))
    answers = {}
    for key, question in questions.items():
        logits, mass = read_branches(
            [[next(scores) for _ in b.labels] for b in branches[key]], length, len(question.options)
        )
        back = np.empty(len(logits))
        back[orders[key]] = logits
        answers[key] = make_answer(question, back, temperature=temperature(question), label_mass=mass)
    return answers


def score_rows_in_tree(policy: TransformersPolicy, rows: Sequence[Row]) -> list[np.ndarray]:
    """Log-probabilities of each row's ids. Raises UserError where the model gives NaN."""
    from polypath.engines.tree import score_tree

    found = score_tree(policy, rows)
    if any(np.isnan(logp).any() for logp in found):
        raise UserError("model", "its logits are NaN for this state", "Load it in float32, or use another model.")
    return found


def read_branches(scores: Sequence[Sequence[np.ndarray]], length: str, count: int) -> tuple[np.ndarray, float]:
    """Scores (count,) and label mass from the token log-probabilities of each branch's labels.

    One branch gives a score a label; several, one an option, give the log-odds of their first label over the second.
    """
    per_branch = [np.array([own.sum() if length == "sum" else own.mean() for own in branch]) for branch in scores]
    mass = float(np.mean([np.exp([own.sum() for own in branch]).sum() for branch in scores]))
    if len(per_branch) == 1 and len(per_branch[0]) == count:
        return per_branch[0], mass
    return np.array([own[0] - own[1] for own in per_branch]), mass


def canonical_order(question: Question) -> list[int]:
    """Indices of the options in the order of their text, or as they are where the order has a meaning."""
    if not isinstance(question, PERMUTED):
        return list(range(len(question.options)))
    found = question.options
    return sorted(range(len(found)), key=lambda i: (found[i].label, found[i].description, str(type(found[i].value))))


def reorder(question: Question, order: Sequence[int]) -> Question:
    """The same question with its options in another order; types whose order has a meaning stay as they are."""
    if not isinstance(question, PERMUTED):
        return question
    return type(question)(tuple(question.options[i] for i in order), question.instructions)


def branch_rows(tokenizer: Any, end: int, state: str, branches: Sequence[Branch]) -> list[Row]:
    """One row for each label of each branch: the state's tokens, the branch's, then the label's.

    State, question and label are encoded apart, so that all share their tokens whatever stands beside them. Raises
    UserError for labels with equal tokens, and for those that the tokenizer cannot write.
    """
    head, tail, lead = frame(tokenizer, state)
    prefix = encode(tokenizer, head)
    if getattr(tokenizer, "chat_template", None) is None and tokenizer.bos_token_id is not None:
        prefix = (int(tokenizer.bos_token_id), *prefix)
    rows = []
    for branch in branches:
        prompt = (*prefix, *encode(tokenizer, branch.text + tail))
        seen: dict[tuple[int, ...], str] = {}
        for label in branch.labels:
            ids = encode(tokenizer, lead + label)
            written = "".join(tokenizer.decode(list(ids)).split())
            if not ids or written != "".join(label.split()):
                raise UserError(
                    f"label '{label}'", f"the model's tokenizer writes '{written}'", "Choose another label."
                )
            if ids in seen:
                raise UserError(f"label '{label}'", f"has the tokens of '{seen[ids]}'", "Choose another label.")
            seen[ids] = label
            rows.append(Row(prompt, (*ids, end) if branch.closed else ids))
    return rows


def frame(tokenizer: Any, state: str) -> tuple[str, str, str]:
    """What the model reads before a branch, after it, and in front of a label."""
    if MARK in state:
        raise UserError("state", "holds a NUL character", "Remove it.")
    text = f"{state}\n\n"
    if getattr(tokenizer, "chat_template", None) is None:
        return text, "\nAnswer:", " "
    turns = [{"role": "user", "content": text + MARK}]
    rendered = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    head, _, tail = rendered.partition(MARK)
    return head, tail, ""


def encode(tokenizer: Any, text: str) -> tuple[int, ...]:
    """Token ids, without special tokens of the tokenizer's own."""
    return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])
