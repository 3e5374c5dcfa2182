"""Surface features of texts: tokens and n-gram sets."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, count

import numpy as np

# Scripts without blanks between words are split per character, as in DPWriter: Han, kana, Hangul.
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f"
_TOKEN = re.compile(rf"[{_CJK}]|[^\W{_CJK}]+(?:['’][^\W{_CJK}]+)*|[^\w\s]")
# Punctuation set off by blanks, for a text without apostrophes: the same tokens on ASCII, in half the time.
_APART = {c: f" {chr(c)} " for c in range(128) if re.match(r"[^\w\s]", chr(c))}

_BLOCK = 32  # groups


def tokens(text: str) -> list[str]:
    """Unicode words, single CJK characters and single punctuation marks, in order.

    >>> tokens("It's 3 + 4,  了解")
    ["It's", '3', '+', '4', ',', '了', '解']
    """
    if text.isascii() and "'" not in text:
        return text.translate(_APART).split()
    return _TOKEN.findall(text)


def token_ends(text: str) -> list[int]:
    """Where each token of a text ends: the text up to the k-th has k tokens.

    >>> token_ends("It's 3")
    [4, 6]
    """
    return [match.end() for match in _TOKEN.finditer(text)]


def ngrams(words: Sequence[str], orders: Iterable[int]) -> set[tuple[str, ...]]:
    """The set of n-grams of all given orders; a text shorter than n has none of that order.

    >>> sorted(ngrams(["a", "b", "c"], [2, 3]))
    [('a', 'b'), ('a', 'b', 'c'), ('b', 'c')]
    """
    return {tuple(words[start : start + n]) for n in orders for start in range(len(words) - n + 1)}


def unshared_ngrams(groups: Sequence[Sequence[Sequence[str]]], orders: range) -> np.ndarray:
    """How many different n-grams of a text no other text of its group has, for many groups of equal size at once.

    Shapes: B groups of G lists of tokens -> integers (B, G). Sorts numbers instead of hashing tuples of strings.

    >>> unshared_ngrams([[["a", "b", "c"], ["a", "b"]], [["a", "b"], []]], range(2, 3)).tolist()
    [[1, 0], [1, 0]]
    """
    if len(groups) > _BLOCK:  # small arrays stay in the processor's cache
        blocks = [groups[start : start + _BLOCK] for start in range(0, len(groups), _BLOCK)]
        return np.concatenate([unshared_ngrams(block, orders) for block in blocks])
    texts = [words for group in groups for words in group]
    size = len(groups[0]) if groups else 0
    vocabulary: dict[str, int] = defaultdict(count().__next__)
    lengths = np.array(list(map(len, texts)), dtype=np.int64)
    ids = np.fromiter(map(vocabulary.__getitem__, chain.from_iterable(texts)), np.int64, count=int(lengths.sum()))
    text = np.repeat(np.arange(len(texts)), lengths)
    left = np.cumsum(lengths)[text] - np.arange(len(ids))  # tokens from here to the end of the text
    unshared = np.zeros(len(texts), dtype=np.int64)
    gram, bound = np.zeros(len(ids), dtype=np.int64), 1  # of the n tokens from here on, as a number below `bound`
    once = np.zeros(len(ids) + 1, dtype=bool)  # whether the n-gram that begins here is met only here in the group
    for n in range(1, max(orders, default=0) + 1):
        place = np.flatnonzero(left >= n)
        if bound * len(vocabulary) * len(groups) * len(ids) >= 1 << 61:  # number them anew before they overflow
            known, gram[place] = np.unique(gram[place], return_inverse=True)
            bound = len(known)
        gram[place] = gram[place] * len(vocabulary) + ids[place + n - 1]
        bound *= len(vocabulary)
        if n in orders:
            sure = once[place] | once[place + 1]  # what holds a gram met once is met once
            open_ = place[~sure]
            first, last = _runs(gram[open_] + text[open_] // size * bound, open_)
            alone = text[first] == text[last]
            once[:] = False
            once[place[sure]] = once[first[first == last]] = True
            unshared += np.bincount(text[np.concatenate([place[sure], first[alone]])], minlength=len(texts))
    return unshared.reshape(len(groups), size)


def _runs(keys: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last place of every different key. Shapes: (N,), ascending (N,) -> (K,), (K,)."""
    if not len(keys):
        return places, places
    bits = int(places[-1]).bit_length()
    found = np.sort((keys << bits) | places)
    keys, places = found >> bits, found & ((1 << bits) - 1)
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    return places[starts], places[np.append(starts[1:], len(keys)) - 1]


def moving_type_token_ratio(words: Sequence[str], *, window: int = 25) -> float:
    """Mean share of different words over all windows of that many (MATTR), which does not fall with length.

    A shorter text is one window. NaN for no words.

    >>> moving_type_token_ratio(["a", "b", "a", "b"], window=2)
    1.0
    """
    if not words:
        return math.nan
    if len(words) <= window:
        return len(set(words)) / len(words)
    counts = Counter(words[:window])
    shares = [len(counts)]
    for old, new in zip(words, words[window:], strict=False):
        counts[new] += 1
        counts[old] -= 1
        if not counts[old]:
            del counts[old]
        shares.append(len(counts))
    return sum(shares) / (len(shares) * window)
