"""Answers that are episodes: the policy and the environment in turns, one batch of generation per turn.

The tokens of an episode stand in one answer. Those that the environment wrote are marked as forced, so that they have
no gradient; those that the policy drew have the log-probabilities that `score` finds for the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from polypath.core.seeds import derive
from polypath.engines.chat import decode, encode_turn
from polypath.engines.protocol import Sample
from polypath.rollout.forest import Node
from polypath.tasks.protocol import Episode, Interactive

if TYPE_CHECKING:
    from polypath.rollout.tools import Tools

Playing = list[tuple[Node, Episode]]


def play(
    tools: Tools,
    task: Interactive,
    nodes: Sequence[Node],
    *,
    temperature: float | None = None,
    source: str = "",
    turns: int | None = None,
) -> list[Node]:
    """A child of every node that plays on to the end of its episode, or for `turns` turns.

    A node of an episode that has begun is continued from where its own actions lead, in a simulator of its own. An
    environment that dies leaves its node with an error, the reward NaN, and one more failure; the others go on.
    """
    born = [node.child() for node in nodes]
    for first in range(0, len(born), task.width):
        with ExitStack() as stack:
            playing = []
            for node in born[first : first + task.width]:
                actions = [step["action"] for part in node.lineage() for step in part.steps]
                episode = task.episode(node.prompt, actions)
                stack.callback(episode.close)
                playing.append((node, episode))
            _play_wave(tools, task, playing, temperature, source, turns)
            for node, episode in playing:
                _settle(tools, node, episode)
    return born


def _play_wave(
    tools: Tools, task: Interactive, playing: Playing, temperature: float | None, source: str, turns: int | None
) -> None:
    """Turn by turn until every episode is over, out of tokens, or at its number of turns."""
    policy = tools.source(source)
    params = tools.params if temperature is None else replace(tools.params, temperature=temperature)
    context = int(getattr(policy, "max_positions", 2**31))
    while True:
        live, prefixes, limits = [], [], []
        for node, episode in playing:
            if episode.over or node.full or (turns is not None and len(node.steps) >= turns):
                continue
            told = _told(tools, task, node, episode)
            prefix = [*tools.prompt_ids(node.view), *node.answer()[0], *told]
            limit = min(task.action_tokens, params.max_new_tokens - drawn(node), context - len(prefix))
            if limit < 1:
                node.full = True
                continue
            _put(node, told)
            live.append((node, episode))
            prefixes.append(prefix)
            limits.append(limit)
        if not live:
            return
        seeds = [derive(tools.draw_seed(node), "turn", len(node.steps)) for node, _ in live]
        samples = policy.sample(prefixes, replace(params, max_new_tokens=max(limits)), seeds)
        for (node, episode), sample, limit in zip(live, samples, limits, strict=True):
            _act(tools, node, episode, sample, limit)
            if source:
                node.source = {"name": source}


def _told(tools: Tools, task: Interactive, node: Node, episode: Episode) -> list[int]:
    """The tokens between the policy's last words and its next: nothing before the first, which the prompt tells."""
    before = node.answer()[0]
    return encode_turn(tools.policy.tokenizer, episode.shown, task.chat, before[-1]) if before else []


def _put(node: Node, ids: list[int]) -> None:
    node.ids += ids
    node.logp += [0.0] * len(ids)
    node.forced += [1] * len(ids)


def _act(tools: Tools, node: Node, episode: Episode, sample: Sample, limit: int) -> None:
    """Take one answer into the node and play it. A draw depends on nothing behind it, so it may be cut."""
    ids, start = sample.ids[:limit], len(node.ids)
    node.ids += ids
    node.logp += sample.logp[: len(ids)]
    node.forced += [0] * len(ids)
    tools.spent[node.position] = tools.spent.get(node.position, 0) + len(ids)
    episode.play(decode(tools.policy.tokenizer, ids))
    if episode.steps and not episode.error:
        node.steps.append({**episode.steps[-1], "start": start, "end": len(node.ids)})


def _settle(tools: Tools, node: Node, episode: Episode) -> None:
    """What became of the episode; one that can be continued has no verdict yet."""
    node.error, node.snapshot = episode.error, episode.snapshot()
    node.finished = episode.over and not episode.error and not episode.cut
    node.full = node.full or episode.cut or bool(episode.error)
    if episode.error:
        tools.failures.add(f"prompt {node.prompt.id}: {episode.error}")
    if episode.over or node.full:
        tools.failures.total += 1
        node.score = episode.score()


def drawn(node: Node) -> int:
    """Tokens of the answer so far that the policy drew."""
    return sum(len(part.ids) - sum(part.forced) for part in node.lineage())
