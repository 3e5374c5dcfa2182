"""Credit methods on padded tensors, as verl and SkyRL call them: the methods' own golden numbers, and the real verl."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from polypath import credit  # noqa: E402
from polypath.adapters import skyrl, verl  # noqa: E402
from polypath.adapters.estimators import estimator, token_advantages  # noqa: E402
from polypath.core.errors import UserError  # noqa: E402

PER_ROW = {"rewards", "lengths", "labels", "answers", "correct", "baseline", "sources", "contexts"}


def needs_memory(name):
    return any("memory" in stage.required for stage in credit.build(name).stages)


EXAMPLES = [
    (name, place)
    for name in credit.methods()
    for place, example in enumerate(credit.load_method(name).examples)
    if set(example["given"]) <= PER_ROW and "rewards" in example["given"] and not needs_memory(name)
]


def padded(rewards, lengths):
    """Token rewards that stand on each row's last token, and the mask."""
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    tokens = torch.zeros(mask.shape, dtype=torch.float64)
    tokens[torch.arange(len(lengths)), torch.tensor(lengths) - 1] = torch.tensor(rewards, dtype=torch.float64)
    return tokens, mask.long()


def objects(values):
    """A column of non_tensor_batch."""
    return np.array([*values, None], dtype=object)[:-1]


@pytest.mark.parametrize(("name", "place"), EXAMPLES)
def test_the_golden_numbers_of_the_method(name, place):
    """Two copies of the example's group, where it may have company, with their rows mixed."""
    method, example = credit.load_method(name), credit.load_method(name).examples[place]
    given = {key: list(values) for key, values in example["given"].items()}
    copies = "a" if "whole_batch" in method.traits else "ab"
    size = len(given["rewards"])
    index = np.random.default_rng(0).permutation(objects(list(copies) * size))
    order = [list(index[: row + 1]).count(copy) - 1 for row, copy in enumerate(index)]  # each copy in its own order
    lengths = [int(given.get("lengths", [2] * 99)[i]) for i in order]
    rewards, mask = padded([given["rewards"][i] for i in order], lengths)
    extra = {
        key: objects([values[i] for i in order]) for key, values in given.items() if key not in ("rewards", "lengths")
    }
    found, returns = estimator(name)(
        rewards, mask, index, config={"polypath": example.get("knobs", {})}, non_tensor_batch=extra
    )
    expected = np.array([example["advantages"][i] for i in order])
    np.testing.assert_allclose(found[:, 0].numpy(), expected, atol=example.get("tolerance", 1e-9))
    assert (found == found[:, :1] * mask).all() and found is returns


def test_most_methods_have_a_golden_test_here():
    assert {"grpo", "dr_grpo", "rloo", "dapo", "opo", "rarity", "darling", "uniqueness", "pass_at_k"} <= {
        n for n, _ in EXAMPLES
    }


def test_advantages_per_token_and_rewards_spread_over_tokens():
    pipeline = credit.build([{"normalise": "centre"}, {"token_credit": "broadcast"}])
    rewards = torch.tensor([[0.25, 0.25, 0.5], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    mask = torch.tensor([[1, 1, 1], [1, 0, 0], [1, 1, 0]])
    found = token_advantages(pipeline, rewards, mask, ["x", "x", "y"])
    assert found.tolist() == [[0.5, 0.5, 0.5], [-0.5, 0.0, 0.0], [0.0, 0.0, 0.0]]
    assert found.dtype == rewards.dtype


def test_what_an_engine_hands_over_and_what_it_does_not():
    rewards, mask = padded([3.0, 1.0, 2.0], [2, 1, 2])
    found, _ = estimator("pvpo")(rewards, mask, ["g"] * 3, reward_baselines=torch.tensor([2.0, 2.0, 2.0]), values=None)
    assert found[:, 0].tolist() == [1.0, -1.0, 0.0]
    with pytest.raises(UserError, match="needs the field 'labels', which is missing"):
        estimator("rarity")(rewards, mask, ["g"] * 3, config={"polypath": {"correct_threshold": 2.0}})
    extra = {"canonical": objects(["a", None, "a"]), "acc": objects([1, 0, 1]), "data_source": objects("xyz")}
    found, _ = estimator("rarity")(rewards, mask, ["g"] * 3, non_tensor_batch=extra)
    assert found[0, 0] > 0 > found[1, 0]
    with pytest.raises(UserError, match="the rows have no uid"):
        estimator("grpo")(rewards, mask)
    with pytest.raises(UserError, match=r"no knob named 'alpah'\. Did you mean alpha"):
        estimator("rarity")(rewards, mask, ["g"] * 3, config={"polypath": {"alpah": 1.0}})


def test_a_method_with_a_memory_or_a_schedule_is_refused():
    rewards, mask = padded([1.0, 0.0], [1, 1])
    with pytest.raises(UserError, match="needs a memory"):
        estimator("hacpo")(rewards, mask, ["g"] * 2)
    knobs = {"alpha": {"linear": {"start": 0.0, "end": 1.0, "steps": 10}}}
    with pytest.raises(UserError, match="needs the step"):
        estimator("rarity")(rewards, mask, ["g"] * 2, config={"polypath": knobs})


def fake(monkeypatch, path, **members):
    parts = path.split(".")
    for end in range(1, len(parts) + 1):
        monkeypatch.setitem(sys.modules, ".".join(parts[:end]), ModuleType(parts[end - 1]))
    vars(sys.modules[path]).update(members)


def test_registration_with_a_stand_in(monkeypatch):
    known = {"polypath_grpo": "there already"}

    def register_adv_est(name):
        return lambda function: known.setdefault(name, function)

    fake(monkeypatch, "verl.trainer.ppo.core_algos", ADV_ESTIMATOR_REGISTRY=known, register_adv_est=register_adv_est)
    assert verl.plugin == verl.register() == [f"polypath_{name}" for name in credit.methods()]
    assert known["polypath_grpo"] == "there already" and callable(known["polypath_rloo"])
    seen = {}
    registry = SimpleNamespace(register=seen.__setitem__)
    fake(monkeypatch, "skyrl.backends.skyrl_train.utils.ppo_utils", AdvantageEstimatorRegistry=registry)
    assert skyrl.register() == list(seen)
    rewards, mask = padded([1.0, 0.0], [1, 2])
    found, _ = seen["polypath_rloo"](
        token_level_rewards=rewards, response_mask=mask, index=["g"] * 2, values=None, grpo_norm_by_std=True, gamma=1.0,
        lambd=1.0, config=SimpleNamespace(get=lambda name: None),
    )  # fmt: skip
    assert found.tolist() == [[1.0, 0.0], [-1.0, -1.0]]


def test_without_the_engines_the_error_says_what_to_install(monkeypatch):
    for module, adapter in (("verl", verl), ("skyrl", skyrl)):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(UserError, match=f"pip install {module}"):
            adapter.register()
    with pytest.raises(AttributeError, match="nothing"):
        _ = verl.nothing


@pytest.mark.slow
def test_the_real_verl_calls_our_estimators(monkeypatch):
    """Where verl is installed: its own entry, our numbers; and its GRPO and RLOO are ours but for a group of one."""
    core = pytest.importorskip("verl.trainer.ppo.core_algos")
    from verl import DataProto
    from verl.trainer.config import AlgoConfig
    from verl.trainer.ppo.ray_trainer import compute_advantage

    assert "polypath_rloo" in verl.register() and "polypath_rloo" in core.ADV_ESTIMATOR_REGISTRY
    rewards, mask = padded([1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0], [2, 3, 1, 2, 2, 3, 1])
    uid = np.array(list("aababba"), dtype=object)
    for ours, theirs in (("polypath_grpo", "grpo"), ("polypath_rloo", "rloo"), ("polypath_opo", "opo")):
        data = DataProto.from_dict(
            tensors={"token_level_rewards": rewards.float(), "response_mask": mask}, non_tensors={"uid": uid}
        )
        found = {
            name: compute_advantage(data, adv_estimator=name, config=AlgoConfig()).batch["advantages"].clone()
            for name in (ours, theirs)
        }
        np.testing.assert_allclose(found[ours], found[theirs], atol=3e-4)  # GRPO: eps 1e-4 here, 1e-6 there
