"""Worked numbers as in test_policy: ratios [1.5, .9] with A = 1 and [1.1, .6, 1.0] with A = -1."""

import math

import pytest
import torch

from polypath.core import registry
from polypath.losses.covariance import clip_cov, covariance, kl_cov
from polypath.losses.policy import cispo, denominator, policy_clip
from polypath.losses.ratio import gmpo, hacpo, sapo, vespo

RATIOS = torch.tensor([[1.5, 0.9, 7.0], [1.1, 0.6, 1.0]], dtype=torch.float64)  # 7 stands in the padding
MASK = torch.tensor([[1, 1, 0], [1, 1, 1]])
A = torch.tensor([1.0, -1.0], dtype=torch.float64)
ZERO = torch.zeros(2, 3, dtype=torch.float64)


def test_gmpo_is_the_geometric_mean_of_ratios_clipped_on_their_risky_side():
    # A > 0: min(1.5, e^.4 = 1.491825) x .9, root 1.158720; A < 0: 1.1 x max(.6, e^-.4 = .670320) x 1, cube root .903421
    found = -gmpo(RATIOS.log(), ZERO, A, MASK).item() / 2
    assert found == pytest.approx((math.sqrt(math.exp(0.4) * 0.9) - (1.1 * math.exp(-0.4)) ** (1 / 3)) / 2)
    assert found == pytest.approx(0.127650, abs=1e-6)


def test_gmpo_leaves_no_gradient_where_it_clips():
    logp = RATIOS.log().requires_grad_()
    gmpo(logp, ZERO, A, MASK).backward()
    assert (logp.grad != 0).tolist() == [[False, True, False], [True, False, True]]


def test_hacpo_weighs_foreign_sequences_down_and_never_up():
    """Ratios .5, 1.5 and .1 of single tokens with A = 1: .5 x .5, the bound 1, and the floor .2, later .3, squared."""

    def run(ratio, **more):
        logp = torch.tensor([[ratio]], dtype=torch.float64).log().requires_grad_()
        value = -hacpo(logp, torch.zeros(1, 1), torch.ones(1), torch.ones(1, 1), torch.tensor([True]), **more)
        value.backward()
        return [round(value.item(), 6), round(logp.grad.item(), 6)]

    assert run(0.5) == [0.25, 0.25]  # s^2 with s constant in one factor: d/dlogp is s x s
    assert run(0.5, alpha=3.0) == [0.0625, 0.0625]
    assert run(1.5) == [1.0, 0.0] and run(0.1) == [0.04, 0.0]
    assert run(0.1, update=4) == [0.09, 0.0] and run(0.1, update=99) == [1.0, 0.0]


def test_hacpo_of_own_sequences_alone_is_gspo():
    knobs = {"low": 3e-4, "high": 4e-4, "aggregate": "sequence_mean"}
    gspo = policy_clip(RATIOS.log(), ZERO, A, MASK, level="sequence", **knobs)
    for foreign in (None, torch.tensor([False, False])):
        assert hacpo(RATIOS.log(), ZERO, A, MASK, foreign).item() == pytest.approx(gspo.item(), abs=1e-12)
    mixed = hacpo(RATIOS.log(), ZERO, A, MASK, torch.tensor([False, True]))
    # the second: s = (1.1 x .6 x 1)^(1/3) = .870659, so s^2 = .758047 with A = -1; the first is clipped at 1.0004
    assert -mixed.item() == pytest.approx(1.0004 - 0.758047, abs=1e-6)


def test_cispo_in_both_conventions():
    # bounded at 1 + .2 = 1.2 relatively; at .2 itself absolutely (a trap when a recipe changes frameworks)
    def weights(**knobs):
        logp = torch.tensor([[1.5, 0.9, 0.05]]).log().requires_grad_()
        cispo(logp, torch.zeros(1, 3), torch.ones(1), torch.ones(1, 3), **knobs).backward()
        return [-round(w, 6) for w in logp.grad[0].tolist()]

    assert weights(high=0.2) == [1.2, 0.9, 0.05]
    assert weights(high=0.2, low=0.3) == [1.2, 0.9, 0.7]
    assert weights(high=0.2, bound="absolute") == [0.2, 0.2, 0.05]
    assert weights(high=1.2, bound="absolute") == weights(high=0.2)
    assert weights(high=1.2, low=0.7, bound="absolute") == weights(high=0.2, low=0.3)


def test_sapo_gate_by_hand_and_its_slope_of_one_on_policy():
    # f(1.5; 1) = 4 sigmoid(.5) = 2.489837; f(.6; 1.05) = (4/1.05) sigmoid(-.42) = 1.510540
    one = torch.ones(1, 1, dtype=torch.float64)
    assert -sapo(torch.log(1.5 * one), 0 * one, one[0], one).item() == pytest.approx(2.489837, abs=1e-6)
    assert sapo(torch.log(0.6 * one), 0 * one, -one[0], one).item() == pytest.approx(1.510540, abs=1e-6)
    for advantage in (1.0, -2.0):
        logp = torch.zeros(1, 1, dtype=torch.float64, requires_grad=True)
        sapo(logp, 0 * one, advantage * one[0], one).backward()
        assert logp.grad.item() == pytest.approx(-advantage)


def test_vespo_weight_by_hand():
    # w = 1.5 x .9 = 1.35, phi = exp(3 + 2 ln 1.35 - 4.05) = .637762; w = .66, phi = exp(2 + 3 ln .66 - 1.32) = .567482
    logp = RATIOS.log().requires_grad_()
    vespo(logp, ZERO, A, MASK).backward()
    phi = [math.exp(3 + 2 * math.log(1.35) - 3 * 1.35), math.exp(2 + 3 * math.log(0.66) - 2 * 0.66)]
    assert phi == pytest.approx([0.637762, 0.567482], abs=1e-6)
    expected = torch.tensor([[-phi[0], -phi[0], 0.0], [phi[1]] * 3], dtype=torch.float64)
    torch.testing.assert_close(logp.grad, expected)


def test_vespo_is_finite_however_far_the_policies_are_apart():
    for shift in (-500.0, 500.0):
        logp = torch.full((1, 4), shift, requires_grad=True)
        vespo(logp, torch.zeros(1, 4), torch.ones(1), torch.ones(1, 4)).backward()
        assert torch.isfinite(logp.grad).all() and logp.grad.abs().max() < 1e-6


SMOOTH = ("gmpo", "sapo")  # losses without a detached weight have the gradient of their value


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("aggregate", ["token_mean", "sequence_mean", "constant"])
def test_gradients_agree_with_finite_differences(name, aggregate):
    function = registry.get("loss", name)
    logp = RATIOS.log().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: function(x, ZERO, A, MASK, aggregate=aggregate), logp)


LOSSES = ("policy_clip", "cispo", "gmpo", "sapo", "vespo", "kl_cov", "clip_cov")


@pytest.mark.parametrize("name", LOSSES)
def test_on_policy_every_loss_has_the_gradient_of_reinforce(name):
    """At ratio 1 no weight, gate or clip acts: the gradient is -A on every trained token."""
    logp = torch.randn(2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    registry.get("loss", name)(logp, logp.detach(), A, MASK, aggregate="constant", constant_length=1).backward()
    torch.testing.assert_close(logp.grad, -A[:, None] * MASK)


@pytest.mark.parametrize("name", LOSSES)
def test_padding_and_the_width_of_advantages_do_not_matter(name):
    function = registry.get("loss", name)
    logp = RATIOS.log()
    wild = logp.clone()
    wild[0, 2] = -math.inf
    results = [function(x, ZERO, a, MASK) for x in (logp, wild) for a in (A, A[:, None].expand(2, 3))]
    assert all(torch.isfinite(value) and value == pytest.approx(results[0]) for value in results)


@pytest.mark.parametrize("name", ["cispo", "gmpo", "sapo", "vespo"])
def test_any_split_into_micro_batches_gives_the_whole(name):
    function = registry.get("loss", name)
    whole = function(RATIOS.log(), ZERO, A, MASK)
    parts = sum(function(RATIOS[i : i + 1].log(), ZERO[i : i + 1], A[i : i + 1], MASK[i : i + 1]) for i in (0, 1))
    assert whole == pytest.approx(parts)


# Covariance: A = 1, 1, -1 on tokens of log-probability -1, -3, -2 has means 1/3 and -2: (2/3)(1), (2/3)(-1), 0.
COV_LOGP = torch.tensor([[-1.0, -3.0], [-2.0, 9.0]], dtype=torch.float64)
COV_MASK = torch.tensor([[1, 1], [1, 0]])


def test_covariance_by_hand():
    found = covariance(COV_LOGP, torch.tensor([[1.0], [-1.0]]), COV_MASK)
    assert found.flatten().tolist() == pytest.approx([2 / 3, -2 / 3, 0.0, -math.inf])


def test_clip_cov_silences_only_tokens_of_high_covariance():
    logp = COV_LOGP.clone().requires_grad_()
    clip_cov(logp, COV_LOGP, A, COV_MASK, lowest=0.5).backward()
    assert logp.grad.tolist() == [[0.0, -1.0], [1.0, 0.0]]
    plain = policy_clip(COV_LOGP, COV_LOGP, A, COV_MASK)
    assert clip_cov(COV_LOGP, COV_LOGP, A, COV_MASK, lowest=1.0) == plain  # none is eligible


def test_clip_cov_draws_its_share_by_seed_and_can_be_replayed():
    generator = torch.Generator().manual_seed(0)
    logp = torch.randn(8, 50, generator=generator) * 3
    advantages, mask = torch.randn(8, generator=generator), torch.ones(8, 50)

    def silent(seed):
        leaf = logp.clone().requires_grad_()
        clip_cov(leaf, logp, advantages, mask, share=0.02, lowest=0.5, seed=seed).backward()
        return leaf.grad == 0

    assert silent(0).sum() == 8 and torch.equal(silent(0), silent(0)) and not torch.equal(silent(0), silent(1))
    cov = covariance(logp, advantages[:, None], mask)
    assert bool(((cov > 0.5) & (cov < 5.0))[silent(0)].all())


def test_kl_cov_holds_the_tokens_of_largest_covariance_to_the_old_policy():
    old = COV_LOGP - math.log(2.0)  # all ratios 2, |d| = log 2; one of three tokens is held
    plain = -(2.0 + 2.0 - 2.0)
    assert kl_cov(COV_LOGP, old, A, COV_MASK, coefficient=0.0).item() == pytest.approx(plain)
    held = kl_cov(COV_LOGP, old, A, COV_MASK, coefficient=10.0, share=0.4)
    assert held.item() == pytest.approx(plain + 10 * math.log(2.0))
    logp = COV_LOGP.clone().requires_grad_()
    kl_cov(logp, old, A, COV_MASK, coefficient=10.0, share=0.4).backward()
    assert logp.grad.tolist() == [[pytest.approx(-2 + 10), pytest.approx(-2)], [pytest.approx(2), 0.0]]


@pytest.mark.parametrize("name", LOSSES)
def test_a_step_without_tokens_is_zero(name):
    empty = torch.zeros(2, 3)
    assert registry.get("loss", name)(empty, empty, A, empty).item() == 0.0
    assert denominator("token_mean", empty.sum(-1)) == 1.0
