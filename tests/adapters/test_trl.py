"""The TRL adapter gives our advantages, and TRL's loss and ours agree on the same rollouts."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from trl_table import COMPLETIONS, PROMPTS, REWARDS, WORDS, G, table_groups, table_labels, tiny_llama

from polypath import credit
from polypath.adapters import trl as adapter
from polypath.adapters.trl_checks import accepted_settings, check_version, check_whole_groups
from polypath.core.errors import UserError
from polypath.core.recipe_types import Call
from polypath.core.record import Batch, Rollout
from polypath.engines.tiny import word_tokenizer
from polypath.engines.transformers import TransformersPolicy
from polypath.tasks.protocol import Score
from polypath.train.config import OptimConfig, TrainConfig
from polypath.train.learner import Learner
from polypath.train.objective import Objective
from polypath.train.processes import Processes

SEQUENCE_MEAN = {"loss_type": "grpo"}
METHODS = {
    "grpo": SEQUENCE_MEAN,
    "dr_grpo": {"loss_type": "dr_grpo"},
    "rloo": {"loss_type": "luspo"},
    "rarity": {},
    "darling": {},
    "gspo": {**SEQUENCE_MEAN, "importance_sampling_level": "sequence", "epsilon": 3e-4, "epsilon_high": 4e-4},
}


def in_order(prompts, per_group):
    """Per-group values as rows in the order in which TRL saw the prompts."""
    return np.concatenate([per_group[PROMPTS.index(prompts[i])] for i in range(0, len(prompts), G)])


@pytest.mark.parametrize("method", METHODS)
def test_the_advantages_are_those_of_the_credit_method(method, make_trainer, make_config, one_step):
    trainer = make_trainer(make_config(**METHODS[method]), credit=method, canonical=table_labels)
    seen = one_step(trainer)
    expected = in_order(seen.prompts, credit.build(method)(table_groups()).advantages)
    np.testing.assert_allclose(seen.batch["advantages"].numpy(), expected, atol=1e-6)
    np.testing.assert_allclose(list(trainer._logs["advantages"]), expected, atol=1e-6)
    row = next(row for row in trainer.state.log_history if "loss" in row)
    assert row["credit/frac_tied"] == 0.0
    assert row["credit/frac_all_correct"] == 0.0


def test_token_credit_reaches_the_loss_as_one_advantage_per_token(make_trainer, one_step):
    stages = [{"normalise": "centre"}, {"token_credit": {"top_entropy": {"share": 0.5}}}]
    seen = one_step(make_trainer(credit=stages))
    advantages, mask = seen.batch["advantages"], seen.batch["completion_mask"]
    assert advantages.shape == mask.shape
    assert not advantages[mask == 0].any()
    centred = torch.tensor(in_order(seen.prompts, [np.array(r) - np.mean(r) for r in REWARDS])).float()
    on = advantages != 0
    torch.testing.assert_close(advantages, on * centred[:, None])
    for g in range(0, len(mask), G):  # half of a group's tokens (of 15 and 11: 8 and 6 are at or above the median)
        tokens = int(mask[g : g + G].sum())
        assert int(on[g : g + G].sum()) == (tokens + 1) // 2


def test_a_rollout_without_reward_or_dropped_by_the_method_has_advantage_zero(make_trainer, one_step):
    def reward(prompts, completion_ids, **_):
        return [
            None if list(ids) == COMPLETIONS[0][2] else float(p == PROMPTS[0])
            for p, ids in zip(prompts, completion_ids, strict=True)
        ]

    stages = [{"normalise": "centre"}, {"reweight": "drop_tied"}]
    seen = one_step(make_trainer(reward=reward, credit=stages))
    assert not seen.batch["advantages"].any()  # every group is tied once the row without a reward is left out


class Words:
    """A task whose solutions are words; the row's data says which are right."""

    name, chat = "words", False

    def prompts(self, split, *, n, seed=0):
        return []

    def verify(self, prompt, text):
        right = text.split()[0] in prompt.data["right"]
        return Score(float(right), right, text, canonical=text.split()[0] if right else None)


def test_a_task_says_what_is_correct_and_the_same(make_trainer):
    trainer = make_trainer(credit="rarity", canonical=Words())
    trainer._seen = (
        torch.tensor([[0.25], [0.25], [0.25], [0.0]]),
        [{"prompt": PROMPTS[0], "id": "p", "data": {"right": ["red", "blue"]}}] * G,
        ["red", "red", "blue", "stone"],
        [[1]] * G,
    )
    (group,) = trainer._groups({"completion_mask": torch.ones(G, 1)}, training=True)
    assert group["labels"] == ["red", "red", "blue", None]
    assert group["correct"] == [True, True, True, False]
    trainer.correct_threshold = 0.5
    (group,) = trainer._groups({"completion_mask": torch.ones(G, 1)}, training=True)
    assert not group["correct"].any()


def our_step(method, loss):
    """Loss and gradients of our loop on the same rollouts."""
    tokenizer = word_tokenizer(WORDS)
    rollouts = [
        Rollout(
            prompt_id=str(g),
            group_id=str(g),
            index=i,
            text="",
            prompt_ids=tokenizer(PROMPTS[g])["input_ids"],
            ids=ids,
            rewards={"task": REWARDS[g][i]},
        )
        for g, group in enumerate(COMPLETIONS)
        for i, ids in enumerate(group)
    ]
    batch = Batch.from_rollouts(rollouts, 0)
    policy = TransformersPolicy(tiny_llama(), tokenizer)
    learner = Learner(policy, OptimConfig(lr=0.0, grad_norm=0.0), 1, Processes())
    objective = Objective(policy, loss, TrainConfig(steps=1), 1.0)
    metrics = objective.update(learner, batch, credit.build(method)(batch), Processes())
    return metrics["loss"], {name: p.grad for name, p in policy.model.named_parameters()}


@pytest.mark.parametrize("loss_type, aggregate", [("grpo", "sequence_mean"), ("dapo", "token_mean")])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_our_loop_and_stock_trl_take_the_same_step(
    loss_type, aggregate, accumulate, make_trainer, make_config, one_step
):
    rows = G * len(PROMPTS) // accumulate
    config = make_config(loss_type=loss_type, per_device_train_batch_size=rows, gradient_accumulation_steps=accumulate)
    theirs = one_step(make_trainer(config))
    loss, gradients = our_step("grpo", Call("loss", "policy_clip", {"aggregate": aggregate}))
    assert theirs.loss == pytest.approx(loss, rel=1e-5, abs=1e-6)
    assert theirs.gradients.keys() == gradients.keys()
    for name, gradient in gradients.items():
        scale = float(gradient.abs().max())
        assert scale > 0, name
        torch.testing.assert_close(theirs.gradients[name], gradient, rtol=0, atol=1e-5 * scale, msg=name)


def test_it_samples_trains_and_keeps_its_memory_over_a_checkpoint(make_trainer, make_config, tmp_path):
    config = make_config(learning_rate=1e-2, save_strategy="steps", save_steps=1)
    trainer = make_trainer(config, rollouts=None, credit="rarity", canonical=lambda texts, row: texts, reward=shortest)
    before = {name: p.clone() for name, p in trainer.model.named_parameters()}
    trainer.memory["seen"] = 3
    trainer.train()
    assert any(not torch.equal(before[name], p) for name, p in trainer.model.named_parameters())
    again = make_trainer(
        make_config(max_steps=2), rollouts=None, credit="rarity", canonical=lambda texts, row: texts, reward=shortest
    )
    again.train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-1"))
    assert again.memory["seen"] == 3
    assert again.state.global_step == 2


def shortest(completion_ids, **_):
    """Right when the first token is even, which an untrained model does half of the time."""
    return [float(ids[0] % 2 == 0) for ids in completion_ids]


def refused(call, *words):
    with pytest.raises(UserError) as error:
        call()
    assert all(word in str(error.value) for word in words), str(error.value)


def test_what_trl_cannot_express_is_refused_with_the_setting_to_change(make_trainer, make_config):
    refused(lambda: make_trainer(credit="grpo"), "args.loss_type", "'dapo'", "Set loss_type='grpo'", 'loss="config"')
    refused(lambda: make_trainer(credit="gspo"), "args.importance_sampling_level", "args.epsilon", "args.loss_type")
    refused(lambda: make_trainer(credit={"dr_grpo": {"max_length": 99}}), "Set max_completion_length=99")
    refused(lambda: make_trainer(credit="rarity"), "'labels'", "canonical=")
    refused(
        lambda: make_trainer(credit=[{"partition": "same_answer"}, {"normalise": "centre"}], canonical=table_labels),
        "'answers'",
    )
    embedded = [
        {"representation": "cosine"},
        {"signal": "inverse_redundancy"},
        {"fuse": "additive"},
        {"normalise": "centre"},
    ]
    refused(lambda: make_trainer(credit=embedded), "'embeddings'", "providers=")
    refused(
        lambda: make_trainer(make_config(multi_objective_aggregation="normalize_then_sum"), credit="rloo"),
        "multi_objective",
    )
    make_trainer(credit="grpo", loss="config")


def test_a_method_loss_maps_to_trl_settings_or_is_refused():
    cispo = accepted_settings(Call("loss", "cispo", {"high": 0.5}))
    assert cispo == {"loss_type": ("cispo",), "epsilon_high": (1.5,)}  # TRL's bound is the ratio itself
    refused(lambda: accepted_settings(Call("loss", "cross_entropy", {})), "cross_entropy", 'loss="config"')
    refused(lambda: accepted_settings(Call("loss", "cispo", {"low": 0.2})), "cispo")
    moving = Call("schedule", "linear", {"start": 0.1, "end": 0.2, "steps": 5})
    refused(lambda: accepted_settings(Call("loss", "policy_clip", {"low": moving})), "policy_clip.low")


def test_groups_must_be_whole_and_of_one_size():
    refused(lambda: check_whole_groups([{"prompt": "a"}] * 6, 4, "eval"), "per_device_eval_batch_size", "6 rows")
    rows = [{"prompt": "a"}] * 6 + [{"prompt": "b"}] * 2
    refused(lambda: check_whole_groups(rows, 4, "train"), "row 6", "own loop")


def test_a_group_over_two_processes_is_refused(make_config):
    class TwoProcesses:
        per_device_train_batch_size, steps_per_generation, num_generations = 2, 1, 4

    from polypath.adapters.trl_checks import check_settings

    refused(
        lambda: check_settings(None, TwoProcesses()),
        "per_device_train_batch_size",
        "straddle",
        "multiple of num_generations",
    )


def test_the_release_that_needs_a_gpu_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    refused(lambda: check_version("1.15.0"), "1.15.0", "CPU", "pip install")
    check_version("1.16.0")


def test_a_missing_trl_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "trl", None)
    adapter._trainer.cache_clear()
    refused(lambda: adapter.DiverseGRPOTrainer, "trl", 'pip install "polypath[train]"')
    adapter._trainer.cache_clear()


def test_importing_the_adapter_imports_no_trl():
    code = "import sys, polypath.adapters.trl; print('trl' in sys.modules, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
