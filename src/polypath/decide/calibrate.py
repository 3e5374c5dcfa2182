"""Calibration from held-out labels: a temperature per type and option count, isotonic for yes/no, and their file.

A calibration belongs to one model, readout and prompt. The file carries their identity and is refused for another.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from polypath.core.errors import UserError
from polypath.core.files import atomic_write
from polypath.decide.answers import log_softmax
from polypath.decide.types import Question

BUCKETS = ((2, "2"), (5, "3-5"), (10, "6-10"))
LOG_T = 3.0  # temperatures are sought in exp(-3) to exp(3)
FORMAT = 1


def bucket(question: Question) -> str:
    """Question type and option-count bucket that share a temperature.

    >>> from polypath.decide.types import Choice, options
    >>> bucket(Choice(options(["a", "b", "c"])))
    'Choice 3-5'
    """
    count = len(question.options)
    return f"{type(question).__name__} {next((name for most, name in BUCKETS if count <= most), '11+')}"


def nll(logits: Sequence[np.ndarray], correct: Sequence[int], temperature: float = 1.0) -> float:
    """Mean negative log-likelihood of the correct options, whose counts may differ; NaN for no items."""
    return _stacked_nll(_by_count(logits, correct), temperature)


def _by_count(logits: Sequence[np.ndarray], correct: Sequence[int]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Items stacked by their number of options, so that a likelihood is a few array operations."""
    counts = np.array([len(row) for row in logits], dtype=int)
    members = [np.flatnonzero(counts == count) for count in np.unique(counts)]
    return [(np.stack([logits[int(i)] for i in own]), np.asarray(correct)[own]) for own in members]


def _stacked_nll(stacks: Sequence[tuple[np.ndarray, np.ndarray]], temperature: float) -> float:
    losses = [-np.take_along_axis(log_softmax(rows / temperature), y[:, None], 1).ravel() for rows, y in stacks]
    return float(np.concatenate(losses).mean()) if losses else math.nan


def fit_temperature(logits: Sequence[np.ndarray], correct: Sequence[int], *, least: int = 50) -> float:
    """The temperature with the least NLL, by golden-section search on its logarithm in [-3, 3].

    The NLL is convex in 1/T, so it has one minimum. Raises UserError for fewer than `least` items.
    """
    if len(logits) < least:
        raise UserError(
            "calibration", f"{len(logits)} labelled items", f"Give at least {least} that nothing else used."
        )
    stacks = _by_count(logits, correct)
    ratio = (math.sqrt(5) - 1) / 2
    low, high = -LOG_T, LOG_T

    def loss(log_t: float) -> float:
        return _stacked_nll(stacks, math.exp(log_t))

    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = loss(left), loss(right)
    while high - low > 1e-5:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = loss(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = loss(right)
    return math.exp((low + high) / 2)


def fit_isotonic(p: np.ndarray, correct: np.ndarray) -> tuple[list[float], list[float]]:
    """Knots (x, y) of the non-decreasing map of p(yes) that is nearest to the labels (pool adjacent violators).

    >>> fit_isotonic(np.array([0.1, 0.4, 0.6, 0.9]), np.array([0, 1, 0, 1]))
    ([0.1, 0.4, 0.6, 0.9], [0.0, 0.5, 0.5, 1.0])
    """
    x, inverse = np.unique(np.asarray(p, dtype=np.float64), return_inverse=True)
    weight = np.bincount(inverse).astype(float)
    value = np.bincount(inverse, weights=np.asarray(correct, dtype=np.float64)) / weight
    blocks: list[list[float]] = []  # mean, weight, count of knots
    for mean, w in zip(value, weight, strict=True):
        blocks.append([mean, w, 1])
        while len(blocks) > 1 and blocks[-2][0] >= blocks[-1][0]:
            mean_b, w_b, n_b = blocks.pop()
            mean_a, w_a, n_a = blocks.pop()
            blocks.append([(mean_a * w_a + mean_b * w_b) / (w_a + w_b), w_a + w_b, n_a + n_b])
    y = [mean for mean, _, n in blocks for _ in range(int(n))]
    return x.tolist(), [float(v) for v in y]


def apply_isotonic(p: np.ndarray, knots: tuple[Sequence[float], Sequence[float]]) -> np.ndarray:
    """Calibrated p(yes), linear between knots and constant beyond them."""
    return np.interp(p, knots[0], knots[1])


@dataclass(frozen=True)
class Calibration:
    """Temperatures by `bucket`, fitted for one identity; `n` is the number of items behind each."""

    identity: Mapping[str, str]
    temperatures: Mapping[str, float] = field(default_factory=dict)
    n: Mapping[str, int] = field(default_factory=dict)

    def temperature(self, question: Question) -> float:
        """Of the question's bucket. Raises UserError where none was fitted."""
        key = bucket(question)
        if key not in self.temperatures:
            raise UserError("calibration", f"has nothing for '{key}'", "Fit it on items of that type and size.")
        return self.temperatures[key]

    def save(self, path: str | Path) -> None:
        """Write JSON, replacing the file as a whole."""
        atomic_write(Path(path), json.dumps({"format": FORMAT, **asdict(self)}, indent=1, sort_keys=True) + "\n")


def fit_calibration(
    questions: Sequence[Question],
    logits: Sequence[np.ndarray],
    correct: Sequence[int],
    identity: Mapping[str, str],
    *,
    least: int = 50,
) -> Calibration:
    """One temperature a bucket. Raises UserError for a bucket with fewer than `least` items."""
    keys = [bucket(question) for question in questions]
    temperatures, counts = {}, {}
    for key in sorted(set(keys)):
        members = [i for i, own in enumerate(keys) if own == key]
        temperatures[key] = fit_temperature([logits[i] for i in members], [correct[i] for i in members], least=least)
        counts[key] = len(members)
    return Calibration(dict(identity), temperatures, counts)


def load_calibration(path: str | Path, identity: Mapping[str, str]) -> Calibration:
    """Read a calibration file. Raises UserError when it is missing, broken, or fitted for another identity."""
    try:
        body: Any = json.loads(Path(path).read_text(encoding="utf-8"))
        found = Calibration(body["identity"], body["temperatures"], body["n"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        fix = "Fit a calibration and name its file."
        raise UserError(str(path), f"is no calibration ({type(error).__name__})", fix) from error
    if body.get("format") != FORMAT:
        raise UserError(str(path), f"has format {body.get('format')}, not {FORMAT}", "Fit it again.")
    for key in sorted(set(identity) | set(found.identity)):
        if found.identity.get(key) != identity.get(key):
            what = f"was fitted for {key} {found.identity.get(key)!r}, not {identity.get(key)!r}"
            raise UserError(str(path), what, "Fit a calibration for what you use.")
    return found


def identity_of(policy: Any, readout: str, length: str) -> dict[str, str]:
    """What a calibration depends on: the weights, their dtype, the chat template, the readout and the label score."""
    digest = hashlib.sha256()
    for weight in policy.model.parameters():
        flat = weight.detach().flatten()
        digest.update(flat[:: max(1, flat.numel() // 64)].float().cpu().numpy().tobytes())
    template = hashlib.sha256(str(policy.tokenizer.chat_template).encode()).hexdigest()
    return {
        "model": digest.hexdigest()[:16],
        "dtype": str(policy.dtype).removeprefix("torch."),
        "template": template[:16],
        "readout": readout,
        "length": length,
    }
