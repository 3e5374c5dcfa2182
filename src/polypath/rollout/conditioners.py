"""Conditioners: what the model is shown beside the prompt, so that a group explores different ways on purpose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from polypath.core.errors import UserError
from polypath.core.recipe_types import Range
from polypath.core.registry import register
from polypath.rollout.forest import Forest, LossContext, Node, View
from polypath.rollout.tools import Tools

SLOT = "{prompt}"


@register("conditioner", "contexts")
def contexts(
    forest: Forest,
    tools: Tools,
    *,
    texts: Sequence[str],
    kind: str = "hint",
    template: str = "{prompt}\n\nApproach: {context}",
    k: Annotated[int, Range(1, None)] | None = None,
    choose: Literal["first", "random"] = "first",
    bare: bool = False,
    loss_context: LossContext = "own",
) -> None:
    """Show every prompt together with each of `k` of the given texts; with `bare` also without any.

    The template holds `{prompt}` and `{context}`. Raises UserError when there are no texts, or fewer than `k`.
    """
    if not texts:
        raise UserError("conditioner.contexts", "there are no texts to condition on", "List them under texts.")
    if k is not None and k > len(texts):
        raise UserError("conditioner.contexts.k", f"{k} of {len(texts)} texts", "Give more texts, or lower k.")
    if SLOT not in template or "{context}" not in template:
        raise UserError(
            "conditioner.contexts.template", "lacks {prompt} or {context}", "The text goes where they stand."
        )
    grown = []
    for node in forest.frontier:
        order = list(range(len(texts)))
        if choose == "random":
            tools.rng("contexts", node.position).shuffle(order)
        if bare:
            grown.append(node.child(context={"id": "bare", "kind": kind}, loss_context=loss_context))
        for i in order[:k]:
            view = _fill(node, template, texts[i])
            grown.append(node.child(view=view, context={"id": str(i), "kind": kind}, loss_context=loss_context))
    forest.frontier = grown


def _fill(node: Node, template: str, text: str) -> View:
    filled = template.replace("{context}", text).replace(SLOT, node.view.text)
    return View(filled, node.view.system, node.view.prefill)


@register("conditioner", "modes", paper="MoDA (0.47)")
def modes(
    forest: Forest,
    tools: Tools,
    *,
    k: Annotated[int, Range(1, None)] = 4,
    text: str = "You are role {i}.",
    where: Literal["system", "before", "after"] = "after",
) -> None:
    """Number the answers: the i-th of `k` contexts tells the model to be role i (1..k). Source: MoDA's abstract roles.

    `where` puts the text into the system turn, before or after the prompt; `{i}` is the number.
    """
    grown = []
    for node in forest.frontier:
        for i in range(1, k + 1):
            words = text.replace("{i}", str(i))
            view = {
                "system": View(node.view.text, words, node.view.prefill),
                "before": View(f"{words}\n\n{node.view.text}", node.view.system, node.view.prefill),
                "after": View(f"{node.view.text}\n\n{words}", node.view.system, node.view.prefill),
            }[where]
            grown.append(node.child(view=view, context={"id": str(i), "kind": "mode"}))
    forest.frontier = grown


@register("conditioner", "template", paper="Prompt augmentation for GRPO (0.3)")
def template(
    forest: Forest, tools: Tools, *, pool: Sequence[str], scope: Literal["visit", "rollout"] = "visit"
) -> None:
    """Dress every prompt in a template drawn uniformly from `pool`, one for all answers of this visit.

    With scope "rollout" each template is one context, and the group holds them all. Each template holds `{prompt}`;
    what follows `{answer}` in it is written for the model as the beginning of its answer.
    Raises UserError for an empty pool and for a template without `{prompt}`.
    """
    if not pool:
        raise UserError("conditioner.template.pool", "is empty", "List at least one template with {prompt} in it.")
    for i, text in enumerate(pool):
        if SLOT not in text:
            raise UserError(f"conditioner.template.pool[{i}]", "lacks {prompt}", "The prompt goes where it stands.")
    grown = []
    for node in forest.frontier:
        chosen = range(len(pool)) if scope == "rollout" else [tools.rng("template", node.position).randrange(len(pool))]
        for i in chosen:
            shown, _, prefill = pool[i].partition("{answer}")
            view = View(shown.replace(SLOT, node.view.text), node.view.system, prefill)
            grown.append(node.child(view=view, context={"id": str(i), "kind": "template"}))
    forest.frontier = grown


@register("conditioner", "strategies", paper="StraTA (0.1)")
def strategies(
    forest: Forest,
    tools: Tools,
    *,
    n: Annotated[int, Range(1, None)] = 8,
    ask: str = "{prompt}\n\nBefore solving it, write one short strategy. Do not solve it.",
    max_new: Annotated[int, Range(1, None)] = 48,
    temperature: float | None = None,
) -> None:
    """Let the policy write `n` candidate strategies for each prompt; a pruner then keeps the different ones.

    The candidates are nodes of role "strategy"; `follow` shows the kept ones to the model.
    """
    asked = []
    for node in forest.frontier:
        view = View(ask.replace(SLOT, node.view.text), node.view.system)
        asked.append(node.child(view=view, role="strategy"))
    forest.frontier = tools.extend(asked, n, max_new=max_new, temperature=temperature, role="strategy")
    for node in forest.frontier:
        node.finished = True  # a strategy is whole, however it ended


@register("conditioner", "follow", paper="StraTA (0.1)")
def follow(forest: Forest, tools: Tools, *, template: str = "{prompt}\n\nStrategy: {context}") -> None:
    """Show each kept strategy with its prompt: what is drawn next is an answer in that context."""
    grown = []
    for node in forest.frontier:
        filled = template.replace("{context}", tools.text(node).strip()).replace(SLOT, node.prompt.text)
        context = {"id": str(node.path[-1]), "kind": "strategy", "text": tools.text(node).strip()}
        grown.append(node.child(view=View(filled, node.view.system), context=context, role="answer"))
    forest.frontier = grown
