"""Memory and size without loading."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polypath.core.errors import UserError
from polypath.engines.memory import by_length, choose_threads, estimate_memory, num_parameters_of


def test_the_estimate_by_hand():
    # 4 bytes times: 100 weights + 3 * 10 trained + 34 * 5 tokens * 8 wide * 2 layers + 3 * 5 tokens * 20 words.
    assert estimate_memory(100, 10, 5, 20, 8, 2) == 4 * (100 + 30 + 2720 + 300)


def test_parameters_are_counted_from_the_header(make_policy, tmp_path):
    policy = make_policy["gpt2"]()
    policy.save(str(tmp_path))
    assert num_parameters_of(tmp_path) == policy.num_parameters


def test_no_or_damaged_weights_are_the_users_error(tmp_path):
    with pytest.raises(UserError, match=r"no \.safetensors"):
        num_parameters_of(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 20)
    with pytest.raises(UserError, match="not a safetensors"):
        num_parameters_of(tmp_path)


def test_small_models_take_one_thread():
    assert [choose_threads(236_256, 8), choose_threads(134_000_000, 8), choose_threads(7_000_000_000, 64)] == [1, 8, 16]


@given(st.lists(st.integers(1, 50), max_size=20), st.integers(1, 100))
def test_batches_cover_all_within_the_padded_budget(lengths, budget):
    batches = by_length(lengths, budget)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    assert all(len(b) == 1 or len(b) * max(lengths[i] for i in b) <= budget for b in batches)
