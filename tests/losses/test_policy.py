"""Golden numbers: ratios [1.5, .9] with A = 1 and [1.1, .6, 1.0] with A = -1; a loss is minus the objective.

Clip .2: min(1.5, 1.2) + .9 = 2.1, and -1.1 + min(-.6, -.8) - 1 = -2.9.
"""

import itertools

import pytest
import torch

from polypath.core.errors import UserError
from polypath.losses.policy import cispo, denominator, policy_clip, policy_stats

RATIOS = torch.tensor([[1.5, 0.9, 7.0], [1.1, 0.6, 1.0]], dtype=torch.float64)  # 7 stands in the padding
MASK = torch.tensor([[1, 1, 0], [1, 1, 1]])
A = torch.tensor([1.0, -1.0], dtype=torch.float64)
LENGTHS = MASK.sum(-1)


def objective(aggregate, constant_length=None, **knobs):
    old = torch.zeros_like(RATIOS)
    total = policy_clip(RATIOS.log(), old, A, MASK, aggregate=aggregate, **knobs)
    return -(total / denominator(aggregate, LENGTHS, constant_length=constant_length)).item()


@pytest.mark.parametrize(
    ("aggregate", "knobs", "expected"),
    [
        ("constant", {"constant_length": 4}, -0.1),  # (2.1 - 2.9)/(2 x 4)
        ("sequence_mean", {}, 0.041667),  # (2.1/2 - 2.9/3)/2
        ("token_mean", {}, -0.16),  # (2.1 - 2.9)/5
        ("token_mean", {"high": 0.28}, -0.144),  # (1.28 + .9 - 2.9)/5
        ("sequence_mean", {"high": 0.28}, 0.061667),  # (2.18/2 - 2.9/3)/2
        # GSPO: ratios sqrt(1.35) = 1.161895 -> 1.0004 and .66^(1/3) = .870659 -> .9997; (1.0004 - .9997)/2
        ("sequence_mean", {"level": "sequence", "low": 3e-4, "high": 4e-4}, 0.00035),
    ],
)
def test_worked_objectives(aggregate, knobs, expected):
    assert objective(aggregate, **knobs) == pytest.approx(expected, abs=5e-7)


def test_dual_clip_bounds_the_objective_of_a_negative_advantage():
    logp = torch.tensor([[5.0]]).log()
    one, minus = torch.ones(1, 1), -torch.ones(1)
    assert -policy_clip(logp, 0 * logp, minus, one).item() == pytest.approx(-5.0)
    assert -policy_clip(logp, 0 * logp, minus, one, dual_clip=3.0).item() == pytest.approx(-3.0)
    assert -policy_clip(logp, 0 * logp, -minus, one, dual_clip=3.0).item() == pytest.approx(1.2)  # A > 0: untouched


def test_the_sequence_ratio_has_the_gradient_of_its_geometric_mean():
    logp = RATIOS.log().requires_grad_()
    loss = policy_clip(logp, 0 * logp.detach(), A, MASK, level="sequence", low=9, high=9, aggregate="sequence_mean")
    loss.backward()
    other = RATIOS.log().requires_grad_()
    ratio = ((other * MASK).sum(-1) / LENGTHS).exp()
    (-(ratio * A).sum()).backward()
    torch.testing.assert_close(logp.grad, other.grad)


def test_cispo_weights_are_constant_so_that_clipped_tokens_keep_a_gradient():
    # weights min(rho, 1.2) = 1.2, .9; the gradient of -sum w A logp is -w A per token
    logp = torch.tensor([[1.5, 0.9]]).log().requires_grad_()
    cispo(logp, torch.zeros(1, 2), torch.ones(1), torch.ones(1, 2)).backward()
    torch.testing.assert_close(logp.grad, torch.tensor([[-1.2, -0.9]]))


@pytest.mark.parametrize("aggregate", ["token_mean", "sequence_mean", "constant"])
@pytest.mark.parametrize("level", ["token", "sequence"])
def test_any_split_into_micro_batches_gives_the_gradient_of_the_whole(aggregate, level):
    generator = torch.Generator().manual_seed(0)
    logp = torch.randn(6, 5, generator=generator, dtype=torch.float64)
    old = logp + 0.3 * torch.randn(6, 5, generator=generator, dtype=torch.float64)
    advantages = torch.randn(6, generator=generator, dtype=torch.float64)
    lengths = torch.tensor([5, 1, 3, 2, 4, 0])
    mask = torch.arange(5) < lengths[:, None]
    total = denominator(aggregate, lengths, constant_length=7)

    def gradient(parts):
        leaf = logp.clone().requires_grad_()
        for part in parts:
            rows = torch.tensor(part)
            width = max(int(lengths[rows].max()), 1)  # a micro-batch is padded to its own longest row
            cut = (rows[:, None], torch.arange(width))
            loss = policy_clip(leaf[cut], old[cut], advantages[rows], mask[cut], level=level, aggregate=aggregate)
            (loss / total).backward()
        return leaf.grad

    whole = gradient([[0, 1, 2, 3, 4, 5]])
    for parts in ([[0, 1], [2, 3, 4, 5]], [[5], [4], [3], [2], [1], [0]]):
        assert (gradient(parts) - whole).abs().max() < 1e-7
    assert whole[~mask].abs().max() == 0 and whole.abs().max() > 0


def test_agrees_with_the_formulas_of_trl():
    """The three normalisations as written in TRL's GRPOTrainer for loss types grpo, dr_grpo and dapo."""
    per_token = -torch.min(RATIOS * A[:, None], RATIOS.clamp(0.8, 1.2) * A[:, None])
    grpo = ((per_token * MASK).sum(-1) / MASK.sum(-1).clamp(min=1.0)).mean()
    dr_grpo = (per_token * MASK).sum() / (per_token.size(0) * 4)
    dapo = (per_token * MASK).sum() / MASK.sum()
    ours = [-objective("sequence_mean"), -objective("constant", constant_length=4), -objective("token_mean")]
    assert ours == pytest.approx([grpo.item(), dr_grpo.item(), dapo.item()], abs=1e-12)


def test_advantages_per_token_and_infinite_padding_are_fine():
    logp = RATIOS.log()
    logp[0, 2] = -float("inf")
    wide = A[:, None].expand(2, 3)
    one, two = (policy_clip(logp, 0 * RATIOS, a, MASK) for a in (A, wide))
    assert torch.isfinite(one) and one == two


def test_denominators():
    assert [denominator(kind, LENGTHS, constant_length=4) for kind in ("token_mean", "sequence_mean", "constant")] == [
        5,
        2,
        8,
    ]
    assert denominator("token_mean", torch.zeros(0)) == 1.0
    with pytest.raises(UserError, match="needs a length"):
        denominator("constant", LENGTHS)


def test_stats_are_sums_over_trained_tokens():
    stats = policy_stats(RATIOS.log(), 0 * RATIOS, MASK)
    assert (stats["tokens"], stats["clipped_low"], stats["clipped_high"]) == (5.0, 1.0, 1.0)  # .6 below, 1.5 above
    k3 = sum(r - 1 - torch.tensor(r).log().item() for r in (1.5, 0.9, 1.1, 0.6, 1.0))
    assert stats["kl"] == pytest.approx(k3, abs=1e-6)


def test_the_loss_is_linear_in_positive_advantages():
    for scale, aggregate in itertools.product((0.5, 3.0), ("token_mean", "sequence_mean")):
        one = policy_clip(RATIOS.log(), 0 * RATIOS, A, MASK, aggregate=aggregate)
        assert policy_clip(RATIOS.log(), 0 * RATIOS, scale * A, MASK, aggregate=aggregate) == pytest.approx(scale * one)
