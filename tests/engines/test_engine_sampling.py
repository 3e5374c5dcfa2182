"""Sampling: the batch does not matter, the log-probabilities are the model's, the ledger counts."""

import numpy as np
import pytest
import torch

from polypath.core.errors import UserError
from polypath.engines.protocol import Row, SamplingParams
from polypath.engines.sampling import Limits, draw, uniforms

NESTED = [(5, 6, 7, 8, 9), (5, 6, 7), (5, 6, 7, 8, 9), (5, 6, 7, 8, 10, 11), (12,), (5, 6, 7, 13), (5, 6, 7, 8, 9)]
SEEDS = [11, 12, 13, 14, 15, 16, 17]
PARAMS = SamplingParams(max_new_tokens=7, temperature=0.9)


@pytest.mark.parametrize("limits", [Limits(min_shared=1), Limits(max_rows=2, max_tokens=20, min_shared=100)])
def test_a_row_does_not_depend_on_its_batch(any_policy, limits):
    policy = any_policy
    alone = [policy.sample([row], PARAMS, [seed])[0] for row, seed in zip(NESTED, SEEDS, strict=True)]
    policy.limits = limits
    together = policy.sample(NESTED, PARAMS, SEEDS)
    backwards = policy.sample(NESTED[::-1], PARAMS, SEEDS[::-1])[::-1]
    for one, two, three in zip(alone, together, backwards, strict=True):
        assert one.ids == two.ids == three.ids and one.finished == two.finished
        assert np.allclose(one.logp, two.logp, atol=1e-5) and np.allclose(one.logp, three.logp, atol=1e-5)
    assert together[0].ids != together[2].ids  # the same prefix, another seed


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_scores_equal_the_sampling_log_probabilities(any_policy, temperature):
    params = SamplingParams(max_new_tokens=12, temperature=temperature)
    samples = any_policy.sample(NESTED, params, SEEDS)
    scores = any_policy.score(
        [Row(p, tuple(s.ids)) for p, s in zip(NESTED, samples, strict=True)], temperature=temperature
    )
    for sample, logp in zip(samples, scores.logp, strict=True):
        assert torch.allclose(logp, torch.tensor(sample.logp), atol=1e-4)


def test_greedy_is_the_models_own_generation(policy):
    prefix = torch.tensor([NESTED[3]])
    reference = policy.model.generate(
        prefix,
        attention_mask=torch.ones_like(prefix),
        max_new_tokens=10,
        do_sample=False,
        eos_token_id=1,
        pad_token_id=0,
    )
    [sample] = policy.sample([NESTED[3]], SamplingParams(max_new_tokens=10, temperature=0), [0])
    assert sample.ids == reference[0, len(NESTED[3]) :].tolist() and sample.logp == [0.0] * len(sample.ids)


def test_frequencies_follow_the_model(policy):
    """4,000 draws of one token against the softmax of a plain forward: within five binomial standard deviations."""
    n, prefix = 4000, (5, 6, 7)
    samples = policy.sample([prefix] * n, SamplingParams(max_new_tokens=1), list(range(n)))
    with torch.no_grad():
        expected = policy.model(torch.tensor([prefix])).logits[0, -1].softmax(-1).numpy()
    counts = np.bincount([s.ids[0] for s in samples], minlength=40)
    assert (np.abs(counts / n - expected) <= 5 * np.sqrt(expected * (1 - expected) / n) + 1e-6).all()


def test_the_ledger_counts_tokens(policy):
    policy.limits, policy.stop_ids = Limits(min_shared=1), ()
    policy.sample([(5, 6, 7, 8), (5, 6, 7, 8), (5, 6, 9), (5, 6)], SamplingParams(max_new_tokens=3), [1, 2, 3, 4])
    # Distinct beginnings: 5 | 5 6 | 5 6 7 | 5 6 7 8 | 5 6 9 make 5 forwarded tokens of 4 + 4 + 3 + 2 = 13.
    assert (policy.ledger.prefilled, policy.ledger.reused, policy.ledger.generated) == (5, 8, 12)


def test_stop_ids_end_a_row_and_are_kept(policy):
    free = policy.sample([(5, 6)], PARAMS, [3])[0]
    stop = next(i for i in free.ids[2:] if i not in free.ids[:2])
    cut = policy.sample([(5, 6)], SamplingParams(max_new_tokens=7, temperature=0.9, stop_ids=(stop,)), [3])[0]
    assert cut.finished and cut.ids == free.ids[: free.ids.index(stop) + 1]


def test_a_full_context_ends_a_row_unfinished(policy):
    policy.stop_ids = ()
    near, far = policy.sample([tuple([5] * 60), (5,)], SamplingParams(max_new_tokens=30), [1, 2])
    assert (len(near.ids), near.finished, len(far.ids)) == (4, False, 30)


@pytest.mark.parametrize("prefix", [(), tuple([5] * 64)])
def test_a_prefix_that_cannot_be_continued_is_the_users_error(policy, prefix):
    with pytest.raises(UserError, match="prefix 1"):
        policy.sample([(5,), prefix], PARAMS, [0, 1])


def test_nothing_to_sample(policy):
    assert policy.sample([], PARAMS, []) == []
    assert policy.sample([(5, 6)], SamplingParams(max_new_tokens=0), [1])[0].ids == []


def test_weights_that_are_not_finite_are_named(policy):
    policy.model.get_output_embeddings().weight.data.fill_(float("nan"))
    with pytest.raises(UserError, match="not finite"):
        policy.sample([(5, 6)], PARAMS, [0])


# p = .5 .3 .15 .05. Inversion: u below .5 gives 0, below .8 gives 1, below .95 gives 2.
LOGITS = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()


@pytest.mark.parametrize(
    "params, u, token, p",
    [
        (SamplingParams(), 0.49, 0, 0.5),
        (SamplingParams(), 0.51, 1, 0.3),
        (SamplingParams(), 0.96, 3, 0.05),
        (SamplingParams(top_k=2), 0.999, 1, 0.375),  # .3 / .8
        (SamplingParams(top_p=0.8), 0.999, 1, 0.375),  # .5 + .3 reach the mass
        (SamplingParams(top_p=0.81), 0.999, 2, 0.15 / 0.95),
        (SamplingParams(top_p=1e-9), 0.999, 0, 1.0),
        (SamplingParams(temperature=0.5), 0.999, 3, 0.0025 / 0.365),  # squares: .25 .09 .0225 .0025
        (SamplingParams(temperature=0), 0.999, 0, 1.0),
    ],
)
def test_draw_by_inversion(params, u, token, p):
    drawn, logp = draw(LOGITS, torch.tensor([u], dtype=torch.float64), params)
    assert drawn.tolist() == [token] and logp.exp().item() == pytest.approx(p, rel=1e-5)


def test_a_token_without_probability_is_never_drawn():
    logits = torch.tensor([[-torch.inf, 0.0, -torch.inf]])
    for u in (0.0, 0.5, 1 - 2**-53):
        assert draw(logits, torch.tensor([u], dtype=torch.float64), SamplingParams())[0].item() == 1


def test_uniforms_are_uniform_and_independent():
    x = uniforms(range(2000), 50)
    assert x.min() >= 0 and x.max() < 1
    # The mean of 100,000 uniforms has standard deviation .2887 / 316 = .00091.
    assert abs(x.mean() - 0.5) < 0.005 and abs(x.var() - 1 / 12) < 0.005
    for a, b in ((x[:-1], x[1:]), (x[:, :-1], x[:, 1:])):  # neighbouring seeds, neighbouring counters
        assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 0.02
    assert (uniforms([7], 9)[0, :4] == uniforms([3, 7], 4)[1]).all()
