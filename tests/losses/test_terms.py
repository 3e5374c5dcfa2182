import math

import pytest
import torch

from polypath.losses.terms import cross_entropy, entropy_bonus, importance_correction, kl_k3

MASK = torch.tensor([[1, 1, 0]])


def test_k3_by_hand_and_zero_at_the_reference():
    # d = log 2: 2 - log 2 - 1; d = 0: 0; the padded third does not count
    reference = torch.tensor([[math.log(2.0), 0.0, 9.0]])
    expected = 1 - math.log(2)
    assert kl_k3(0 * reference, reference, MASK, beta=1.0, aggregate="token_mean").item() == pytest.approx(expected)
    assert kl_k3(0 * reference, reference, MASK, beta=1.0).item() == pytest.approx(expected / 2)
    assert kl_k3(reference, reference, MASK).item() == 0.0


def test_k3_is_an_unbiased_estimate_of_the_divergence():
    p, q = torch.tensor([0.7, 0.3]), torch.tensor([0.4, 0.6])
    exact = (p * (p / q).log()).sum()
    values = torch.stack(
        [kl_k3(a.log().view(1, 1), b.log().view(1, 1), torch.ones(1, 1), beta=1.0) for a, b in zip(p, q, strict=True)]
    )
    assert (p * values).sum().item() == pytest.approx(exact.item(), abs=1e-6)


def test_entropy_and_cross_entropy_have_their_signs():
    values = torch.tensor([[0.5, 1.5, 9.0]])
    assert entropy_bonus(values, MASK, coefficient=0.1).item() == pytest.approx(-0.2)
    assert cross_entropy(-values, MASK).item() == pytest.approx(2.0)
    assert cross_entropy(-values, MASK, aggregate="sequence_mean").item() == pytest.approx(1.0)


def test_importance_weights_by_hand():
    weights = torch.tensor([[0.5, 1.2, 3.0]])
    all_on = torch.ones(1, 3)
    zero = torch.zeros(1, 3)
    for mode, expected in (("truncate", [0.5, 1.2, 2.0]), ("mask", [0.5, 1.2, 0.0])):
        got = importance_correction(weights.log(), zero, all_on, mode=mode)
        assert got[0].tolist() == pytest.approx(expected)
    # product 1.8; geometric mean 1.8^(1/3)
    got = importance_correction(weights.log(), zero, all_on, level="sequence")
    assert got[0].tolist() == pytest.approx([1.8] * 3)
    got = importance_correction(weights.log(), zero, MASK, level="geometric")
    assert got[0].tolist() == pytest.approx([0.6**0.5, 0.6**0.5, 0.0])  # only the first two tokens count


def test_equal_distributions_need_no_correction_and_weights_carry_no_gradient():
    logp = torch.randn(2, 3, requires_grad=True)
    weights = importance_correction(logp, logp.detach(), torch.ones(2, 3))
    assert weights.tolist() == torch.ones(2, 3).tolist()
    assert not weights.requires_grad
