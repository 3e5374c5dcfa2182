"""Gradient sketches of a proxy model against autograd."""

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from polypath.diversity.measures import gradient_vendi
from polypath.engines import gradients
from polypath.engines.gradients import gradient_sketches

PROMPTS = ["w1 w2", "w1 w2", "w7", "w7"]
TEXTS = ["w3 w4 w5", "w3 w4 w5", "w30 w31 w3 w9 w8", ""]


def head_gradient(policy, prompt, text):
    """The gradient of the summed loss of the text in the weights of the output head alone."""
    before, ids = (policy.tokenizer(part)["input_ids"] for part in (prompt, text))
    trunk = policy.hidden(torch.tensor([before + ids[:-1]]), torch.arange(len(before + ids) - 1)[None], None)
    head = policy.model.get_output_embeddings().weight.detach().clone().requires_grad_()
    logits = trunk[0, len(before) - 1 :].detach() @ head.T
    cross_entropy(logits, torch.tensor(ids), reduction="sum").backward()
    return head.grad.flatten().double().numpy()


def test_sketches_have_the_angles_of_the_true_gradients(policy):
    found = np.asarray(gradient_sketches(policy, PROMPTS, TEXTS, dims=2**13))
    exact = np.stack([head_gradient(policy, *pair) for pair in zip(PROMPTS[:3], TEXTS[:3], strict=True)])
    exact /= np.linalg.norm(exact, axis=1, keepdims=True)
    np.testing.assert_allclose(found[:3] @ found[:3].T, exact @ exact.T, atol=0.06)
    assert not found[3].any(), "nothing to learn from an empty text"
    assert 1 <= gradient_vendi(found) <= 2


def test_sketches_do_not_depend_on_how_tokens_are_cut(policy, monkeypatch):
    whole = gradient_sketches(policy, PROMPTS, TEXTS, dims=64)
    monkeypatch.setattr(gradients, "TOKENS", 2)
    cut = gradient_sketches(policy, PROMPTS, TEXTS, dims=64)
    np.testing.assert_allclose(cut.values, whole.values, atol=1e-6)
    assert cut.signature == whole.signature and cut.signature.knobs["proxy"] == policy.name
    other = gradient_sketches(policy, PROMPTS, TEXTS, dims=64, seed=1)
    assert other.signature != whole.signature and not np.allclose(other.values, whole.values)


def test_long_pairs_are_cut_at_the_context(policy):
    long = gradient_sketches(policy, ["w1 " * 500, ""], ["w2 " * 500, "w2"], dims=16)
    assert np.isfinite(long.values).all() and long.values[0].any() and long.values[1].any()
