"""The real models behind the aliases."""

import numpy as np
import pytest

pytestmark = [pytest.mark.model, pytest.mark.slow]


@pytest.fixture(scope="module")
def embedder():
    from polypath.engines.embed import Embedder

    return Embedder.load("minilm")


def test_minilm_sentences(embedder):
    texts = ["The cat sat on the mat.", "A feline rested on the rug.", "Stocks fell on Monday."]
    cat, feline, stocks = embedder(texts)
    # From sentence-transformers 6.2 on the same files, to four digits: .5560 and .0833.
    assert cat @ feline == pytest.approx(0.5560, abs=2e-4) and cat @ stocks == pytest.approx(0.0833, abs=2e-4)


def test_minilm_edges(embedder):
    vectors = embedder(["", "word " * 600, "a\ud800b"])
    assert np.isfinite(vectors).all() and np.allclose((vectors**2).sum(1), 1, atol=1e-5)
    one, two = embedder(["cat", "a much longer sentence about other things"]), embedder(["cat"])
    assert np.allclose(one[0], two[0], atol=1e-6)
    assert embedder([]).shape == (0, 384)


def test_smollm2_answers_and_scores_as_it_samples():
    import torch

    from polypath.engines.chat import decode, encode_prompt
    from polypath.engines.protocol import Row, SamplingParams
    from polypath.engines.transformers import TransformersPolicy

    policy = TransformersPolicy.load("smollm2", threads=torch.get_num_threads())
    prompt = encode_prompt(policy.tokenizer, "What is the capital of France?", True)
    greedy = policy.sample([prompt], SamplingParams(max_new_tokens=12, temperature=0), [0])[0]
    assert "Paris" in decode(policy.tokenizer, greedy.ids)
    samples = policy.sample([prompt] * 4, SamplingParams(max_new_tokens=8), [1, 2, 3, 4])
    scores = policy.score([Row(tuple(prompt), tuple(s.ids)) for s in samples])
    for sample, logp in zip(samples, scores.logp, strict=True):
        assert np.allclose(logp.numpy(), sample.logp, atol=1e-3)
    assert policy.ledger.prefilled == 2 * len(prompt) and policy.ledger.reused == 3 * len(prompt)
