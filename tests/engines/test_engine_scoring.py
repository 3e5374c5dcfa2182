"""Scoring: packed equals dense equals a plain forward, in values and gradients; micro-batches keep groups whole."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from polypath.core.errors import UserError
from polypath.engines.protocol import Row
from polypath.engines.scoring import packed_tokens, plan_microbatches, plan_packs, split_rows

ALL = frozenset({"logp", "entropy", "hidden"})


def gradients(policy, rows, packing, max_tokens):
    policy.packing, policy.max_tokens = packing, max_tokens
    policy.model.zero_grad()
    scores = policy.score(rows, need=ALL, temperature=0.8, grad=True)
    weights = torch.linspace(-1, 1, sum(len(row.ids) for row in rows))
    (torch.cat(scores.logp) * weights + 0.1 * torch.cat(scores.entropy)).sum().backward()
    flat = torch.cat([p.grad.flatten() for p in policy.parameters()])
    return torch.cat(scores.logp), torch.cat(scores.entropy), torch.cat(scores.hidden), flat


@pytest.mark.parametrize("packing, max_tokens", [("packed", 10_000), ("packed", 20), ("auto", 10_000), ("dense", 30)])
def test_packed_equals_dense(policy, rows, packing, max_tokens):
    expected = gradients(policy, rows, "dense", 10_000)
    actual = gradients(policy, rows, packing, max_tokens)
    for value, reference in zip(actual[:3], expected[:3], strict=True):
        assert torch.allclose(value, reference, atol=1e-5)
    assert (actual[3] - expected[3]).norm() <= 1e-5 * expected[3].norm()


def test_scores_equal_one_plain_forward_per_row(any_policy, rows):
    scores = any_policy.score(rows, need=ALL, temperature=0.7)
    for i, row in enumerate(rows):
        assert len(scores.logp[i]) == len(scores.entropy[i]) == len(scores.hidden[i]) == len(row.ids)
        if row.ids:
            with torch.no_grad():
                out = any_policy.model(torch.tensor([row.prompt_ids + row.ids]), output_hidden_states=True)
            logp = (out.logits[0, len(row.prompt_ids) - 1 : -1] / 0.7).log_softmax(-1)
            assert torch.allclose(scores.logp[i], logp.gather(-1, torch.tensor(row.ids)[:, None])[:, 0], atol=1e-4)
            assert torch.allclose(scores.entropy[i], -(logp.exp() * logp).sum(-1), atol=1e-4)
            states = out.hidden_states[-1][0, len(row.prompt_ids) - 1 : -1]
            assert torch.allclose(scores.hidden[i], states, atol=1e-4)
    assert not scores.logp[0].requires_grad


def test_the_head_in_pieces_gives_the_same(policy, rows, monkeypatch):
    expected = gradients(policy, rows, "auto", 10_000)
    monkeypatch.setattr("polypath.engines.scoring.LOGITS_AT_ONCE", 5 * 40)  # five positions at a time
    actual = gradients(policy, rows, "auto", 10_000)
    for value, reference in zip(actual, expected, strict=True):
        assert torch.allclose(value, reference, atol=1e-5)


def test_a_packed_batch_may_be_longer_than_the_context(policy):
    rows = [Row((5, 6, 7), tuple([8 + i] * 40)) for i in range(4)] + [Row((5,), (6,) * 30)]
    policy.packing = "packed"
    packed = torch.cat(policy.score(rows).logp)
    policy.packing = "dense"
    assert torch.allclose(packed, torch.cat(policy.score(rows).logp), atol=1e-5)


def test_sliding_windows_are_scored_densely(make_policy, rows):
    policy = make_policy["sliding"]()
    assert not policy.full_attention and "packing dense" in policy.describe()
    assert make_policy["llama"]().full_attention


@pytest.mark.parametrize("row", [Row((), (1,)), Row((2,) * 10, (3,) * 56)])
def test_rows_that_do_not_fit_are_the_users_error(policy, row):
    with pytest.raises(UserError, match="row 1"):
        policy.score([Row((1,), (2,)), row])


def test_bad_requests(policy):
    with pytest.raises(UserError, match="temperature"):
        policy.score([Row((1,), (2,))], temperature=0)
    with pytest.raises(ValueError, match="logits"):
        policy.score([Row((1,), (2,))], need=frozenset({"logits"}))
    assert policy.score([]).logp == []


def test_auto_packs_short_answers_and_splits_long_ones():
    short = [Row((1,) * 50, (2,) * 8)] * 8
    assert [len(pack.rows) for pack in plan_packs(short, 64, "auto")] == [8]
    # Cost of k packs: k n (6 * 16 + n) with n = 4 + 8000 / k: least at k = 8, one row each.
    long = [Row((1,) * 4, (2,) * 1001)] * 8
    assert [len(pack.rows) for pack in plan_packs(long, 16, "auto")] == [1] * 8


def test_packed_tokens_by_hand():
    # Prompts of 3 and 2 once each; answers of 4, 1 and 2 ids without their last: 3 + 2 + 3 + 0 + 1.
    assert packed_tokens([Row((1, 2, 3), (1,) * 4), Row((1, 2, 3), (1,)), Row((1, 2), (1, 1))]) == 9


sizes = st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=5), max_size=8)


@given(sizes, st.integers(1, 80))
def test_microbatches_hold_every_group_once_within_the_budget(lengths, budget):
    groups = [[Row((g,) * 4, (1,) * n) for n in group] for g, group in enumerate(lengths)]
    batches = plan_microbatches(groups, budget)
    assert sorted(i for batch in batches for i in batch) == list(range(len(groups)))
    for batch in batches:
        assert len(batch) == 1 or sum(packed_tokens(groups[i]) for i in batch) <= budget
    for rows in groups:
        pieces = split_rows(rows, budget)
        assert [i for piece in pieces for i in piece] == list(range(len(rows)))
        assert all(len(p) == 1 or packed_tokens([rows[i] for i in p]) <= budget for p in pieces)
