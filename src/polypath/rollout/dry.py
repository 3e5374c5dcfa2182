"""A dry run: a plan's shape and cost without a model. Every draw takes its full length, and every answer is wrong."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polypath.engines.protocol import Row, Sample, SamplingParams, Scores, TokenLedger
from polypath.rollout.forest import Forest, Node
from polypath.rollout.plan import Plan, apply
from polypath.rollout.tools import Tools
from polypath.tasks.protocol import Prompt, Score


class DryTokenizer:
    """One token per word; what it decodes are words that name their token."""

    chat_template = "dry"

    def __call__(self, text: str, **_: Any) -> dict[str, list[int]]:
        """Token ids of the words of a text."""
        return {"input_ids": [_token(word) for word in text.split()] or [0]}

    def decode(self, ids: Sequence[int], **_: Any) -> str:
        """A word per token."""
        return " ".join(f"w{token}" for token in ids)

    def apply_chat_template(self, turns: Sequence[dict[str, str]], **_: Any) -> str:
        """The contents of the turns, one after the other."""
        return "\n".join(turn["content"] for turn in turns)


@dataclass
class DryPolicy:
    """Draws as many tokens as it may, keyed by the seed, and never stops."""

    tokenizer: DryTokenizer = field(default_factory=DryTokenizer)
    ledger: TokenLedger = field(default_factory=TokenLedger)

    def sample(self, prefixes: Sequence[Sequence[int]], params: SamplingParams, seeds: Sequence[int]) -> list[Sample]:
        """`max_new_tokens` tokens for each prefix; all of a prefix but what an equal one shares is prefilled."""
        self.ledger.prefilled += sum(len(prefix) for prefix in {tuple(prefix) for prefix in prefixes})
        self.ledger.generated += params.max_new_tokens * len(prefixes)
        tokens = [[(seed + i) % 997 for i in range(params.max_new_tokens)] for seed in seeds]
        return [Sample(ids, [-1.0] * len(ids), False) for ids in tokens]

    def score(self, rows: Sequence[Row], *, need: frozenset[str] = frozenset({"logp"}), **_: Any) -> Scores:
        """Every token as likely as any other, and as uncertain."""
        flat: list[Any] = [np.full(len(row.ids), -1.0) for row in rows]
        return Scores(logp=flat, entropy=[-values for values in flat] if "entropy" in need else None)

    def save(self, path: str) -> None:
        """There is nothing to keep."""

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """A unit vector per text, the same for equal texts."""
        vectors = [np.random.default_rng(_token(text)).normal(size=16) for text in texts]
        return np.array([vector / np.linalg.norm(vector) for vector in vectors]).reshape(len(texts), 16)


@dataclass
class DryTask:
    """A task in which no answer is right."""

    text: str
    name: str = "dry"
    chat: bool = False

    def prompts(self, split: str, *, n: int, seed: int = 0) -> list[Prompt]:
        """The same text under different names."""
        return [Prompt(f"dry-{i}", self.text) for i in range(n)]

    def verify(self, prompt: Prompt, text: str) -> Score:
        """Wrong."""
        return Score(0.0, False, answer=text)


@dataclass(frozen=True)
class DryRun:
    """The tree of one prompt, and the tokens that a prompt can cost at most."""

    roots: list[Node]
    answers: int
    bound: int
    groups: int

    def tree(self, widest: int = 4) -> str:
        """One line per node, the number of tokens of its segment first; long families are cut at `widest`."""
        return "\n".join(line for root in self.roots for line in _lines(root, 0, widest))


def dry_run(plan: Plan, prompt: str = "the prompt") -> DryRun:
    """Run a plan on one prompt without a model.

    The bound holds for plans that draw more for prompts without a right answer; what another outcome would make a
    plan draw is at most that.
    """
    policy, task = DryPolicy(), DryTask(prompt)
    endless = enumerate(task.prompts("dry", n=1000))
    forest = Forest.plant([next(endless)])
    tools = Tools(
        policy,
        task,
        plan.params,
        seed=0,
        step=0,
        purpose="dry",
        sources=dict.fromkeys(_named_sources(plan), policy),
        more_prompts=lambda n: [next(endless) for _ in range(n)],
        embedder=policy.embed,
        encoders=lambda name: policy.embed,
    )
    rollouts: list[Any] = []
    for call in plan.operators:
        rollouts = apply(call, forest, tools)
    return DryRun(forest.roots, len(rollouts), sum(tools.spent.values()), len({row.group_id for row in rollouts}))


def _named_sources(plan: Plan) -> list[str]:
    knobs = [value for call in plan.operators for name, value in call.knobs.items() if name in ("other", "source")]
    return [value for value in knobs if isinstance(value, str) and value]


def _token(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode(), digest_size=4).digest(), "big") % 997


def _lines(node: Node, depth: int, widest: int) -> list[str]:
    context = f" [{node.context['kind']} {node.context['id']}]" if node.context else ""
    what = "prompt" if node.parent is None else node.role
    dropped = "" if node.keep else f" dropped: {node.drop_reason}"
    forced = " forced" if any(node.forced) else ""
    own = f"{'  ' * depth}{what}{context} {len(node.ids)} tokens{forced}{dropped}"
    shown = [line for child in node.children[:widest] for line in _lines(child, depth + 1, widest)]
    rest = len(node.children) - widest
    return [own, *shown, *([f"{'  ' * (depth + 1)}... {rest} more"] if rest > 0 else [])]
