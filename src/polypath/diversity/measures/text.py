"""Lexical measures of a set of texts. Tokens are those of `features.tokens`; n-grams never cross from text to text."""

from __future__ import annotations

import hashlib
import math
import zlib
from collections import Counter
from collections.abc import Sequence

import numpy as np

from polypath.core.registry import register
from polypath.core.seeds import derive
from polypath.diversity.features import tokens
from polypath.diversity.kernels.structural import as_strings, bag_kernel, rouge_l_block
from polypath.diversity.measures.ngrams import NGrams, text_ngrams
from polypath.diversity.measures.spectral import kernel_vendi
from polypath.diversity.measures.traits import INVARIANT, LESS, MORE

PAIR_BLOCK = 512  # texts compared with all others at once


@register("measure", "distinct_n", paper="arXiv:1510.03055", traits={INVARIANT, MORE})
def distinct_n(texts: Sequence[str], *, n: int = 2) -> float:
    """Unique n-grams divided by all n-grams of the pooled texts, in (0, 1]; it falls with length.

    NaN when no text has n tokens.

    >>> round(distinct_n(["the cat sat on the mat", "the cat sat on a mat", "dogs run fast in the park"], n=1), 6)
    0.611111
    """
    *_, grams = text_ngrams(texts, n)
    return _distinct(grams)


@register("measure", "ngram_diversity", paper="arXiv:2306.05871", traits={INVARIANT, MORE})
def ngram_diversity(texts: Sequence[str], *, largest: int = 4) -> float:
    """The sum of `distinct_n` for n = 1..largest, in (0, largest]. NaN when no text has `largest` tokens."""
    return sum(map(_distinct, text_ngrams(texts, largest)))


@register("measure", "prompt_diversity", paper="[1.93]", traits={INVARIANT, MORE})
def prompt_diversity(prompts: Sequence[str], *, largest: int = 4) -> float:
    """Sum over n = 1..largest of log(1 + distinct n-grams of all the prompts).

    Reconstructed: known is that the published score is made of n-grams and grows linearly with the final reward of
    training. It grows with the number of prompts, slowly. NaN for no prompts.

    >>> round(prompt_diversity(["a b", "a c"], largest=2), 6)  # 3 words, 2 pairs: log 4 + log 3
    2.484907
    """
    if not len(prompts):
        return math.nan
    return sum(math.log1p(grams.distinct) for grams in text_ngrams(prompts, largest))


@register("measure", "ngram_vendi", paper="arXiv:2210.02410 [1.86]", traits={INVARIANT, MORE})
def ngram_vendi(texts: Sequence[str], *, largest: int = 2, q: float = 1.0) -> float:
    """Vendi score of order `q` of the bags of n-grams, n = 1..largest: how many different texts, without a model.

    The kernel is the cosine of the counts; two empty texts are the same. In [1, n]; NaN for no texts. O(n^3).

    >>> round(ngram_vendi(["a b", "a b", "c"]), 6)
    1.889882
    """
    return kernel_vendi(bag_kernel(bags_of(texts, largest)), q=q)


def bags_of(texts: Sequence[str], largest: int) -> list[Counter[tuple[str, ...]]]:
    """How often each n-gram, n = 1..largest, is in each text."""
    words = [tokens(text) for text in texts]
    return [
        Counter(tuple(one[i : i + n]) for n in range(1, largest + 1) for i in range(len(one) - n + 1)) for one in words
    ]


@register("measure", "self_repetition", paper="arXiv:2403.00553", traits={INVARIANT, LESS})
def self_repetition(texts: Sequence[str], *, n: int = 4) -> float:
    """Mean over texts of log(1 + how many other texts share an n-gram with it, added over its distinct n-grams).

    0 when no n-gram occurs in two texts. NaN for fewer than two texts.

    >>> round(self_repetition(["a b c", "a b d", "x y z"], n=2), 6)  # log 2, log 2, 0
    0.462098
    """
    if len(texts) < 2:
        return math.nan
    *_, grams = text_ngrams(texts, n)
    gram, owner, _ = grams.by_owner(len(texts))
    elsewhere = np.bincount(gram)[gram] - 1.0 if len(gram) else np.zeros(0)  # other texts with the n-gram
    return float(np.log1p(np.bincount(owner, weights=elsewhere, minlength=len(texts))).mean())


@register("measure", "compression_ratio", paper="arXiv:2403.00553", traits={INVARIANT, LESS})
def compression_ratio(texts: Sequence[str], *, level: int = 9) -> float:
    """Bytes of the joined texts divided by their zlib-compressed bytes. NaN without text.

    The texts are ordered by hash, so that their order has no influence; the size of the set has.
    """
    encoded = (text.encode("utf-8", "surrogatepass") for text in texts)
    blocks = sorted(encoded, key=lambda block: hashlib.blake2b(block).digest())
    raw = b"\n".join(blocks)
    return len(raw) / len(zlib.compress(raw, level)) if any(blocks) else math.nan


@register("measure", "rouge_l", paper="arXiv:2403.00553", traits={INVARIANT, LESS})
def rouge_l(texts: Sequence[str], *, most: int = 3000) -> float:
    """Homogenisation: mean ROUGE-L F1, 2 LCS / (|a| + |b|), over all pairs of different texts, in [0, 1].

    Two empty texts are equal (1). All pairs cost O(n^2): of more than `most` texts, that many are drawn (seed 0) from
    the texts in sorted order. NaN for fewer than two texts.

    >>> round(rouge_l(["a b c", "a c", "x"]), 6)  # 4/5, 0, 0
    0.266667
    """
    if len(texts) < 2:
        return math.nan
    if len(texts) > most:
        chosen = np.random.default_rng(derive(0, "rouge_l")).choice(len(texts), size=most, replace=False)
        ordered = sorted(texts)
        texts = [ordered[i] for i in chosen]
    strings = as_strings([tokens(text) for text in texts])
    total = 0.0
    for start in range(0, len(strings), PAIR_BLOCK):
        block = strings[start : start + PAIR_BLOCK]
        within = rouge_l_block(block, block)
        total += float(within.sum()) - len(block)  # a text with itself is 1 and no pair
        if start + PAIR_BLOCK < len(strings):
            total += 2 * float(rouge_l_block(block, strings[start + PAIR_BLOCK :]).sum())
    return total / (len(texts) * (len(texts) - 1))


@register("measure", "mtld", paper="doi:10.3758/BRM.42.2.381", traits={INVARIANT})
def mtld(texts: Sequence[str], *, threshold: float = 0.72) -> float:
    """Mean over texts of MTLD: the mean length of stretches that keep the type-token ratio above `threshold`.

    Forwards and backwards, with a partial stretch at the end; a text that never repeats a word has its length. It
    depends little on length, but is unstable below 50 tokens. It is variety inside texts, not between them. Texts
    without tokens are left out; NaN when none is left.

    >>> mtld(["a b a a"])  # forwards "a b a" closes a stretch, backwards "a a": 4 tokens a stretch
    4.0
    """
    values = [(_mtld(words, threshold) + _mtld(words[::-1], threshold)) / 2 for words in map(tokens, texts) if words]
    return float(np.mean(values)) if values else math.nan


def _mtld(words: Sequence[str], threshold: float) -> float:
    stretches, seen, length = 0.0, set(), 0
    for word in words:
        seen.add(word)
        length += 1
        if len(seen) <= threshold * length:
            stretches, seen, length = stretches + 1, set(), 0
    if length:
        stretches += (1 - len(seen) / length) / (1 - threshold)
    return len(words) / (stretches or 1.0)


@register("measure", "hdd", paper="doi:10.3758/BRM.42.2.381", traits={INVARIANT})
def hdd(texts: Sequence[str], *, draws: int = 42) -> float:
    """Mean over texts of HD-D: the expected type-token ratio of `draws` tokens drawn from the text without return.

    Texts with fewer tokens are left out; NaN when none is left. Variety inside texts, as `mtld`.

    >>> round(hdd(["a a b"], draws=2), 6)  # of the 3 pairs one is a a: (1 + 2 + 2) / 3 types in 2 tokens
    0.833333
    """
    values = []
    for words in map(tokens, texts):
        n = len(words)
        if n >= draws:
            missed = (math.comb(n - count, draws) for count in Counter(words).values())
            values.append(sum(1.0 - part / math.comb(n, draws) for part in missed) / draws)
    return float(np.mean(values)) if values else math.nan


def _distinct(grams: NGrams) -> float:
    return grams.distinct / len(grams.codes) if len(grams.codes) else math.nan
