"""What an LLM judge or a decision model says of texts: who takes the same approach, which value an attribute has."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from polypath.core.errors import UserError
from polypath.diversity.features.judged import approaches, judged_attributes
from polypath.engines.aliases import cache_dir
from polypath.engines.endpoint import key_of_environment
from polypath.engines.judge import Judge

Values = Mapping[str, Sequence[str]]
GROUPING = """Below are {n} correct solutions of one problem. Group them by approach: two solutions belong to the same
group when they follow the same method, even if the wording or the order of small steps differs.
Answer with one group number per solution, in the order of the solutions, separated by commas, and nothing else.

{solutions}"""
READING = """{text}

Which of these describes the {attribute} of the text above: {values}?
Answer with one of them and nothing else."""


def judge_at(name: str) -> Judge:
    """A judge of `URL#MODEL`, with a cache beside the models and the key of the environment.

    Raises UserError for one without a model.
    """
    url, _, model = name.partition("#")
    if not model:
        raise UserError("--with judge", f"'{name}' names no model", "Write judge=http://host:port/v1#MODEL.")
    digest = hashlib.sha256(f"{url.rstrip('/')}#{model}".encode()).hexdigest()[:16]
    cache = cache_dir() / "judge" / f"{digest}.jsonl"
    cache.parent.mkdir(parents=True, exist_ok=True)
    return Judge(url, model, cache=cache, key=key_of_environment(), max_tokens=256)


def approaches_by(judge: Judge) -> Callable[[Sequence[str]], list[int]]:
    """Labels of the correct solutions of a problem by approach, from three orders of them. For evaluation only."""

    def grouped(texts: Sequence[str]) -> Sequence[Hashable]:
        solutions = "\n\n".join(f"Solution {i}:\n{text}" for i, text in enumerate(texts, 1))
        (answer,) = judge.ask([GROUPING.format(n=len(texts), solutions=solutions)])
        found = re.findall(r"\d+", answer)
        if len(found) != len(texts):
            what = f"labelled {len(found)} of {len(texts)} solutions: {answer[:60]!r}"
            raise UserError(f"judge {judge.model}", what, "Choose a model that follows the instruction.")
        return found

    return lambda texts: approaches(texts, grouped)


def attributes_by(judge: Judge, values: Values) -> Callable[[Sequence[str]], list[Mapping[str, Hashable]]]:
    """The declared attributes of each text; an answer that is none of the values counts as "other"."""

    def read(texts: Sequence[str]) -> list[Mapping[str, Hashable]]:
        prompts = [
            READING.format(text=text, attribute=name, values=", ".join(options))
            for name, options in values.items()
            for text in texts
        ]
        answers = dict(zip(prompts, judge.ask(prompts), strict=True))

        def one(text: str, name: str, options: Sequence[str]) -> str:
            answer = answers[READING.format(text=text, attribute=name, values=", ".join(options))]
            return chosen(answer, options)

        return list(judged_attributes(texts, one, values).values)

    return read


def chosen(answer: str, options: Sequence[str]) -> str:
    """The option that an answer names, whatever its case and punctuation; the answer itself where it names none.

    >>> chosen(" Calm.", ["calm", "angry"]), chosen("both", ["calm", "angry"])
    ('calm', 'both')
    """
    bare: dict[str, Any] = {re.sub(r"[\W_]+", " ", option).strip().casefold(): option for option in options}
    return str(bare.get(re.sub(r"[\W_]+", " ", answer).strip().casefold(), answer))
