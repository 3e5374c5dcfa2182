"""What operators work with: the policy, the task, the budget, and draws that are keyed by where they happen."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from polypath.core.errors import UserError
from polypath.core.seeds import derive, rng
from polypath.engines.chat import decode, encode_prompt
from polypath.engines.protocol import Policy, Sample, SamplingParams
from polypath.rollout.episodes import play
from polypath.rollout.forest import Forest, Node, View
from polypath.tasks.protocol import Interactive, Prompt, Task, Unverified
from polypath.tasks.verify import Failures, verify_all

MorePrompts = Callable[[int], list[tuple[int, Prompt]]]
OWN_STATES = "policy"  # the encoder that is the policy itself


@cache
def load_encoder(name: str) -> Callable[[Sequence[str]], Any]:
    """A sentence encoder by alias, directory or hub id, loaded once. Raises UserError when it cannot be had."""
    from polypath.engines.embed import Embedder

    return Embedder.load(name)


@dataclass
class Tools:
    """One execution of a plan over one batch.

    `sources` are further policies by name; `more_prompts(n)` gives n prompts beyond the batch, for plans that refill;
    `memory` is what a plan remembers from step to step; `max_tokens` bounds the tokens drawn per prompt.
    """

    policy: Policy
    task: Task
    params: SamplingParams
    seed: int
    step: int
    purpose: str = "train"
    sources: Mapping[str, Policy] = field(default_factory=dict)
    memory: MutableMapping[str, Any] = field(default_factory=dict)
    more_prompts: MorePrompts | None = None
    embedder: Callable[[Sequence[str]], Any] | None = None
    max_tokens: int | None = None
    encoders: Callable[[str], Callable[[Sequence[str]], Any]] = field(default_factory=lambda: load_encoder)
    failures: Failures = field(default_factory=Failures)
    spent: dict[int, int] = field(default_factory=dict)  # tokens drawn, by position of the prompt
    _encoded: dict[View, list[int]] = field(default_factory=dict)
    _counted: set[int] = field(default_factory=set)

    def rng(self, operator: str, *counters: str | int) -> random.Random:
        """A generator keyed by the run, the step, the operator and the counters."""
        return rng(self.seed, self.purpose, self.step, operator, *counters)

    def draw_seed(self, node: Node) -> int:
        """The seed of a node's draw: the run's, keyed by the step, the prompt's position and the path in the tree."""
        return derive(self.seed, self.purpose, self.step, node.position, *node.path)

    def count_once(self, lineage: Sequence[Node]) -> int:
        """How many tokens of these nodes were drawn and are not yet in any record: a shared prefix counts once."""
        fresh = [node for node in lineage if id(node) not in self._counted]
        self._counted.update(id(node) for node in fresh)
        return sum(len(node.ids) - sum(node.forced) for node in fresh)

    def prompt_ids(self, view: View) -> list[int]:
        """Token ids of what the model is shown, the prefilled beginning of its answer included."""
        if view not in self._encoded:
            ids = encode_prompt(self.policy.tokenizer, view.text, self.task.chat, view.system)
            prefill = self.policy.tokenizer(view.prefill, add_special_tokens=False)["input_ids"] if view.prefill else []
            self._encoded[view] = [*ids, *prefill]
        return self._encoded[view]

    def text(self, node: Node) -> str:
        """The text of the whole answer so far, with its prefilled beginning."""
        return node.view.prefill + decode(self.policy.tokenizer, node.answer()[0])

    def segment(self, node: Node) -> str:
        """The text of the node's own tokens."""
        return decode(self.policy.tokenizer, node.ids)

    def extend(
        self,
        nodes: Sequence[Node],
        n: int | Sequence[int],
        *,
        max_new: int | None = None,
        stop: str = "",
        temperature: float | None = None,
        role: str | None = None,
        source: str = "",
    ) -> list[Node]:
        """Draw `n` continuations of each open node (or n[i] of node i) as its children, in order.

        `max_new` bounds a segment beside what is left of the answer's length; `stop` ends it after the token that
        completes this text. Raises UserError for a source that is not there.
        """
        counts = [n] * len(nodes) if isinstance(n, int) else list(n)
        parents = [node for node, k in zip(nodes, counts, strict=True) for _ in range(k)]
        if isinstance(self.task, Interactive) and parents and (role or parents[0].role) == "answer":
            if max_new is not None or stop:
                what = "the plan cuts answers into segments, and an answer is an episode here"
                raise UserError("rollout", what, "Use the brancher turns, or another plan.")
            return play(self, self.task, parents, temperature=temperature, source=source)
        born = [node.child(**({"role": role} if role else {})) for node in parents]
        if not born:
            return []
        policy = self.source(source)
        prefixes = [[*self.prompt_ids(node.view), *node.answer()[0]] for node in born]
        left = [self.params.max_new_tokens - len(node.answer()[0]) for node in born]
        limits = left if max_new is None else [min(most, max_new) for most in left]
        params = replace(self.params, max_new_tokens=max(limits))
        if temperature is not None:
            params = replace(params, temperature=temperature)
        samples = policy.sample(prefixes, params, [self.draw_seed(node) for node in born])
        for node, sample, limit, most in zip(born, samples, limits, left, strict=True):
            self._fill(node, sample, limit, stop)
            node.full = len(node.ids) >= most and not node.finished
            self.spent[node.position] = self.spent.get(node.position, 0) + len(node.ids)
            if source:
                node.source = {"name": source}
        return born

    def _fill(self, node: Node, sample: Sample, limit: int, stop: str) -> None:
        """A draw depends on nothing behind it, so cutting one gives what a shorter draw would have given."""
        ids, finished = sample.ids[:limit], sample.finished and len(sample.ids) <= limit
        if stop and (end := first_stop(self.policy.tokenizer, ids, stop)) is not None:
            ids, finished, node.cut = ids[:end], False, stop
        node.ids, node.logp, node.finished = ids, list(sample.logp[: len(ids)]), finished
        node.forced = [0] * len(ids)

    def force(self, node: Node, text: str) -> Node:
        """A child whose tokens are put there: they get no gradient, and the next segment continues them."""
        ids = list(self.policy.tokenizer(text, add_special_tokens=False)["input_ids"])
        return node.child(ids=ids, logp=[0.0] * len(ids), forced=[1] * len(ids))

    def source(self, name: str) -> Policy:
        """The policy itself, or a further one by name. Raises UserError when there is none of that name."""
        if not name:
            return self.policy
        if name not in self.sources:
            known = ", ".join(self.sources) or "none"
            raise UserError(
                "rollout", f"there is no source '{name}' (there are: {known})", "Name it under rollout.sources."
            )
        return self.sources[name]

    def verify(self, nodes: Sequence[Node], *, needed: bool = True) -> None:
        """Give every node without one the task's verdict on its whole answer.

        Raises UserError when verdicts are `needed` and the task gives none.
        """
        if isinstance(self.task, Unverified):
            if needed:
                raise UserError(
                    "rollout", "this plan needs rewards, and the prompts have no verifier", "Name a --task."
                )
            return
        waiting = [node for node in nodes if node.score is None]
        texts = [self.text(node) for node in waiting]
        for node, score in zip(
            waiting, verify_all(self.task, [n.prompt for n in waiting], texts, self.failures), strict=True
        ):
            node.score = score

    def embed(self, texts: Sequence[str], encoder: str = OWN_STATES) -> np.ndarray:
        """Unit-norm embeddings (n, d) by the named encoder, or by the policy's own states.

        Raises UserError when there is no encoder or it cannot be had: a random one would be no help.
        """
        if encoder != OWN_STATES:
            return np.asarray(self.encoders(encoder)(list(texts)), dtype=np.float64)
        if self.embedder is None:
            raise UserError("rollout", "this plan needs an encoder and there is none", "Use by: ngrams, or give embed.")
        return np.asarray(self.embedder(list(texts)), dtype=np.float64)

    def affordable(self, position: int, tokens: int) -> bool:
        """Whether the prompt's budget holds that many more tokens."""
        return self.max_tokens is None or self.spent.get(position, 0) + tokens <= self.max_tokens


def first_stop(tokenizer: Any, ids: Sequence[int], stop: str) -> int | None:
    """How many of the ids it takes until their text holds `stop`; None when it never does."""
    if stop not in decode(tokenizer, ids):
        return None
    low, high = 0, len(ids)
    while low < high:  # the text of a longer beginning holds what that of a shorter one holds
        middle = (low + high) // 2
        low, high = (low, middle) if stop in decode(tokenizer, ids[:middle]) else (middle + 1, high)
    return low


def plant_more(forest: Forest, tools: Tools, n: int) -> list[Node]:
    """Add `n` more prompts to the forest. Raises UserError when the plan is run where no more can be had."""
    if tools.more_prompts is None:
        raise UserError("rollout", "the plan refills, and there are no more prompts here", "Use it in training.")
    added = Forest.plant(tools.more_prompts(n)).roots
    forest.roots += added
    return added
