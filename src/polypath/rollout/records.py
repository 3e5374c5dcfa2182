"""From the leaves of a forest to records: what was drawn, from where, and with whom it is compared."""

from __future__ import annotations

from collections.abc import Sequence

from polypath.core.record import Rollout
from polypath.engines.protocol import Policy
from polypath.rollout.forest import Forest, Node, View
from polypath.rollout.tools import Tools


def answers(forest: Forest) -> list[Node]:
    """The nodes that end an answer, in the order of prompts and paths: frontier nodes, and what was dropped whole.

    A node that was pruned before its answer ended is none of them; what it cost is in the plan's ledger.
    """
    found = [node for node in forest.frontier if node.role == "answer"]
    dropped = [
        leaf
        for root in forest.roots
        for leaf in root.leaves()
        if not leaf.keep and leaf.score is not None and leaf.role == "answer" and leaf not in found
    ]
    return sorted([*found, *dropped], key=lambda node: (node.position, node.path))


def to_record(node: Node, tools: Tools, group_id: str, index: int) -> Rollout:
    """The record of one answer: all its tokens, its context, and where it left its siblings."""
    ids, logp, forced = node.answer()
    score = node.score
    lineage = node.lineage()
    fork = next((i for i in range(len(lineage) - 1, 0, -1) if len(lineage[i - 1].children) > 1), 0)
    shared = sum(len(part.ids) for part in lineage[:fork])
    return Rollout(
        prompt_id=node.prompt.id,
        group_id=group_id,
        index=index,
        text=tools.text(node),
        prompt=node.view.text,
        step=tools.step,
        prompt_ids=list(tools.prompt_ids(node.view)),
        ids=ids,
        logp_sampling=[round(value, 6) for value in logp],
        status="error" if node.error else "complete" if node.finished else "truncated",
        rewards={} if score is None else {"task": score.reward},
        correct=None if score is None else score.correct,
        answer=None if score is None else score.answer,
        canonical=None if score is None else score.canonical,
        context=node.context,
        loss_context=node.loss_context,
        source=node.source,
        parent="/".join(map(str, node.path[:-1])) if shared else None,
        fork_pos=shared or None,
        forced_mask=forced if any(forced) else None,
        spans=spans(lineage),
        env_snapshot=node.snapshot,
        keep=node.keep,
        drop_reason=node.drop_reason,
        tokens={"generated": tools.count_once(lineage)},
        seed=tools.draw_seed(node),
        extra=extras(node, lineage, tools),
    )


def spans(lineage: Sequence[Node]) -> dict[str, list[int]] | None:
    """Where segments that have a role of their own stand in the answer, as {role: [start, end]}."""
    found: dict[str, list[int]] = {}
    at = 0
    for node in lineage:
        if node.role != "answer" and node.ids:
            found[node.role] = [found.get(node.role, [at])[0], at + len(node.ids)]
        at += len(node.ids)
    return found or None


def extras(node: Node, lineage: Sequence[Node], tools: Tools) -> dict[str, object]:
    """The path in the tree and where its parts start, the bare prompt's tokens for a loss under it, and the signals.

    `starts` has the first token of each of the last nodes on the path, those that wrote this answer.
    """
    found: dict[str, object] = {}
    if any(part.steps for part in lineage) or node.error:
        found = episode_columns(node, lineage)
    elif len(node.path) > 1 or node.branched:
        found["path"] = list(node.path)
        written = [part for part in lineage if part.path]
        found["starts"] = [sum(len(part.ids) for part in written[:i]) for i in range(len(written))]
    if node.loss_context != "own":
        found["base_prompt_ids"] = list(tools.prompt_ids(View(node.prompt.text)))
    return {**found, **{f"signal/{name}": value for name, value in node.values.items()}}


def episode_columns(node: Node, lineage: Sequence[Node]) -> dict[str, object]:
    """The turns of an episode: by columns for step-level credit, and one by one for the reader.

    `starts` has the token at which each of the policy's turns begins, `states` what it saw, `actions` what it did.
    """
    steps, at = [], 0
    for part in lineage:
        steps += [{**step, "begun": step["start"], "start": at + step["start"]} for step in part.steps]
        at += len(part.ids)
    columns = {"starts": "start", "states": "state", "actions": "action"}
    found: dict[str, object] = {name: [step[key] for step in steps] for name, key in columns.items()}
    found["turns"] = [{key: step[key] for key in ("action", "valid", "reward")} for step in steps]
    if any("flagged" in step for step in steps):  # a judge has read it
        found["flagged"] = [[s["start"], s["start"] + s["end"] - s["begun"]] for s in steps if s.get("flagged")]
    return {**found, **({"error": node.error} if node.error else {})}


def ledger(policy: Policy, before: tuple[int, int, int]) -> dict[str, int]:
    """Tokens that the engine drew, prefilled and reused since `before`."""
    now = (policy.ledger.generated, policy.ledger.prefilled, policy.ledger.reused)
    return dict(
        zip(("generated", "prefilled", "reused"), (b - a for a, b in zip(before, now, strict=True)), strict=True)
    )
