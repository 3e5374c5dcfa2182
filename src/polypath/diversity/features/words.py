"""Surface features of texts: tokens and n-gram sets."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

# Scripts without blanks between words are split per character, as in DPWriter: Han, kana, Hangul.
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f"
_TOKEN = re.compile(rf"[{_CJK}]|[^\W{_CJK}]+(?:['’][^\W{_CJK}]+)*|[^\w\s]")


def tokens(text: str) -> list[str]:
    """Unicode words, single CJK characters and single punctuation marks, in order.

    >>> tokens("It's 3 + 4,  了解")
    ["It's", '3', '+', '4', ',', '了', '解']
    """
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
