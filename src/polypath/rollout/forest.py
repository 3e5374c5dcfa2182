"""What a plan grows: one tree per prompt, whose nodes are segments of text that continue their parent's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from polypath.tasks.protocol import Prompt, Score

LossContext = Literal["own", "base", "both"]


@dataclass(frozen=True)
class View:
    """What the model is shown before it writes: the user's text, a system text, and the beginning of its own answer.

    Two nodes continue the same answer exactly if they share one view (the object): a conditioner that shows something
    else starts a new answer.
    """

    text: str
    system: str | None = None
    prefill: str = ""


@dataclass(eq=False)
class Node:
    """One segment. `ids` are its own tokens; where `forced` is 1 a token was put there and not drawn.

    `path` holds the child index at every level below the root. Together with the run's seed, the step and the prompt's
    position it keys every draw, so that a plan can be replayed and paired.
    """

    prompt: Prompt
    position: int
    view: View
    path: tuple[int, ...] = ()
    parent: Node | None = None
    context: dict[str, Any] | None = None  # {id, kind, level}
    loss_context: LossContext = "own"
    source: dict[str, Any] | None = None  # {name, version} when it is not the policy itself
    role: str = "answer"  # or what else the text is: "strategy", "hint", ...
    ids: list[int] = field(default_factory=list)
    logp: list[float] = field(default_factory=list)
    forced: list[int] = field(default_factory=list)
    finished: bool = False  # a stop token was drawn
    full: bool = False  # the answer is as long as it may be
    branched: bool = False  # a node of a tree, even where it has no level below
    error: str = ""  # why the environment could not go on
    steps: list[dict[str, Any]] = field(default_factory=list)  # turns of an episode: {state, action, ..., start}
    snapshot: str | None = None  # of the environment, after the segment
    cut: str = ""  # the stop text that ended the segment
    keep: bool = True
    drop_reason: str | None = None
    score: Score | None = None
    values: dict[str, float] = field(default_factory=dict)  # signals that operators leave for each other
    children: list[Node] = field(default_factory=list)

    def child(self, **changes: Any) -> Node:
        """A new node below this one; it inherits prompt, view, context and source."""
        inherited = {
            name: getattr(self, name)
            for name in ("prompt", "position", "view", "context", "loss_context", "source", "role")
        }
        node = Node(**{**inherited, **changes}, path=(*self.path, len(self.children)), parent=self)
        self.children.append(node)
        return node

    def lineage(self) -> list[Node]:
        """The nodes of this answer, first to last: back to where its view began."""
        nodes: list[Node] = [self]
        while nodes[-1].parent is not None and nodes[-1].parent.view is self.view:
            nodes.append(nodes[-1].parent)
        return nodes[::-1]

    def answer(self) -> tuple[list[int], list[float], list[int]]:
        """Tokens, sampling log-probabilities and forced marks of the whole answer so far."""
        nodes = self.lineage()
        return (
            [i for node in nodes for i in node.ids],
            [p for node in nodes for p in node.logp],
            [f for node in nodes for f in node.forced],
        )

    def drop(self, reason: str) -> None:
        """Take the node out, with the reason; its tokens still count."""
        self.keep, self.drop_reason = False, reason

    def leaves(self) -> Iterator[Node]:
        """All nodes without children at or below this one, in order."""
        if not self.children:
            yield self
        for child in self.children:
            yield from child.leaves()


@dataclass
class Forest:
    """The trees of one batch. `frontier` is what the next operator works on, in order."""

    roots: list[Node]
    frontier: list[Node] = field(default_factory=list)

    @classmethod
    def plant(cls, prompts: list[tuple[int, Prompt]]) -> Forest:
        """One root per (position in the batch, prompt)."""
        roots = [Node(prompt, position, View(prompt.text)) for position, prompt in prompts]
        return cls(roots, list(roots))

    def open(self) -> list[Node]:
        """The nodes of the frontier that can be continued."""
        return [node for node in self.frontier if node.keep and not (node.finished or node.full)]

    def ended(self) -> list[Node]:
        """The nodes of the frontier whose answer is whole: a stop token was drawn, or there is no room for more."""
        return [node for node in self.frontier if node.keep and (node.finished or node.full)]

    def by_prompt(self) -> dict[int, list[Node]]:
        """The frontier by the position of its prompt."""
        found: dict[int, list[Node]] = {root.position: [] for root in self.roots}
        for node in self.frontier:
            found[node.position].append(node)
        return found

    def by_parent(self) -> list[list[Node]]:
        """The frontier in families: nodes with the same parent."""
        families: dict[int, list[Node]] = {}
        for node in self.frontier:
            families.setdefault(id(node.parent), []).append(node)
        return list(families.values())
