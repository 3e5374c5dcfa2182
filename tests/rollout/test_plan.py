"""Plans as a whole: what is drawn, how it is keyed, counted and grouped, and what cannot run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import yaml

from polypath.core.document import packaged
from polypath.core.errors import UserError
from polypath.core.record import Batch
from polypath.core.seeds import derive
from polypath.engines.chat import encode_prompt
from polypath.engines.protocol import SamplingParams
from polypath.engines.transformers import TransformersPolicy
from polypath.rollout.dry import dry_run
from polypath.rollout.plan import build, load_preset
from polypath.tasks.protocol import Prompt, Task, Unverified

PARAMS = SamplingParams(max_new_tokens=16)
PRESETS = sorted(packaged("plans"))
Prompts = list[tuple[int, Prompt]]


def collect(spec: object, policy: TransformersPolicy, task: Task, prompts: Prompts, **options: object) -> Batch:
    params = options.pop("params", PARAMS)
    plan = build(spec, params=params)  # type: ignore[arg-type]
    return plan.collect(policy, task, prompts, seed=3, step=2, embedder=policy.embed, **options)[0]  # type: ignore[arg-type]


def test_the_uniform_control_draws_independent_answers(
    policy: TransformersPolicy, task: Task, prompts: Prompts
) -> None:
    """Every answer is what the policy alone draws with the seed of its place."""
    batch = collect({"grpo": {"n": 3}}, policy, task, prompts)
    assert [len(group) for group in batch.groups] == [3] * 4
    for group, (position, prompt) in zip(batch.groups, prompts, strict=True):
        prefix = encode_prompt(policy.tokenizer, prompt.text, task.chat)
        seeds = [derive(3, "train", 2, position, i) for i in range(3)]
        alone = policy.sample([prefix] * 3, PARAMS, seeds)
        assert [row.ids for row in group] == [sample.ids for sample in alone]
        assert [row.seed for row in group] == seeds
        for row in group:
            assert row.correct == task.verify(prompt, row.text).correct


def test_a_plan_can_be_replayed(policy: TransformersPolicy, task: Task, prompts: Prompts) -> None:
    spec = {"treerpo": {"n": 2, "depth": 2}}
    rows = [[row.to_row() for row in collect(spec, policy, task, prompts).rollouts()] for _ in range(2)]
    assert rows[0] == rows[1]
    alone = collect(spec, policy, task, prompts[:1]).rollouts()[0].to_row()
    same = ("ids", "seed", "text", "group_id", "rewards")  # whatever else is in the batch
    assert [rows[0][0][name] for name in same] == [alone[name] for name in same]


def test_a_tree_shares_its_beginnings_and_counts_them_once(
    policy: TransformersPolicy, task: Task, prompts: Prompts
) -> None:
    before = policy.ledger.generated
    batch = collect({"treerpo": {"n": 2, "depth": 2, "max_new": 4}}, policy, task, prompts)
    spent = policy.ledger.generated - before
    rows = batch.rollouts()
    assert sum(row.tokens["generated"] + row.tokens["discarded"] for row in rows) == spent
    for group in batch.groups:
        a, b, c, d = (row.ids for row in group)
        assert a[:4] == b[:4] and c[:4] == d[:4]
        assert [row.fork_pos for row in group] == [4] * 4
        assert [row.parent for row in group] == ["0", "0", "1", "1"]
        assert [row.extra["starts"] for row in group] == [[0, 4]] * 4
        assert [row.tokens["generated"] < len(row.ids) for row in group] == [False, True, False, True]


def test_forced_tokens_are_marked_and_stop_texts_end_a_segment(
    policy: TransformersPolicy, task: Task, prompts: Prompts
) -> None:
    """On Countdown: the model is made to begin with "1 +", and its next segment ends at the first "="."""
    spec = [
        {"brancher": {"aspects": {"open_with": "1 +", "stop": "=", "budget": 4, "max_new": 6}}},
        {"source": {"policy": {"n": 1}}},
    ]
    params = SamplingParams(max_new_tokens=20)
    for row in collect(spec, policy, task, prompts, params=params).rollouts():
        assert row.forced_mask is not None and row.forced_mask[:2] == [1, 1] and sum(row.forced_mask) == 2
        assert row.text.startswith("1 +") and row.logp_sampling is not None and row.logp_sampling[:2] == [0.0, 0.0]


def test_strata_trains_on_strategies_and_answers(policy: TransformersPolicy, task: Task, prompts: Prompts) -> None:
    knobs = {"strategies": 2, "answers": 3, "candidates": 6, "by": "ngrams", "max_new": 4}
    batch = collect({"strata": knobs}, policy, task, prompts)
    for position, _ in prompts:
        groups = {group.group_id: group for group in batch.groups if group.group_id.startswith(f"2/{position}/")}
        strategies = groups.pop(f"2/{position}/strategies")
        assert 1 <= len(strategies) == len(groups) <= 2 and all(len(group) == 3 for group in groups.values())
        assert len({row.text for row in strategies}) == len(strategies)  # two, unless all candidates were the same
        for row, group in zip(strategies, groups.values(), strict=True):
            rewards = sorted((answer.reward for answer in group), reverse=True)
            assert row.reward == pytest.approx(sum(rewards[:2]) / 2)  # the best half of three, rounded up
            assert all(answer.context == {**row.context, "text": row.text.strip()} for answer in group)  # type: ignore[index]
            assert all(row.text.strip() in answer.prompt for answer in group)


def test_refilling_replaces_flat_groups_and_keeps_their_records(
    policy: TransformersPolicy, task: Task, prompts: Prompts
) -> None:
    pool = task.prompts("train", n=50, seed=1)
    given = iter(range(50))

    def more(n: int) -> Prompts:
        return [(100 + i, pool[i]) for i in (next(given) for _ in range(n))]

    batch = collect({"dapo": {"n": 4, "rounds": 4}}, policy, task, prompts, more_prompts=more)
    kept = [group for group in batch.groups if all(row.keep for row in group)]
    dropped = [group for group in batch.groups if not any(row.keep for row in group)]
    assert len(kept) == len(prompts) and len(kept) + len(dropped) == len(batch.groups)
    assert all(len({row.reward for row in group}) == 1 for group in dropped)
    assert {row.drop_reason for group in dropped for row in group} <= {"flat_group"}
    assert sum(len({row.reward for row in group}) > 1 for group in kept) >= 3  # four rounds find enough mixed ones


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_runs_on_a_real_model(name: str, policy: TransformersPolicy, task: Task, prompts: Prompts) -> None:
    document = load_preset(name)
    plan = build({name: document.get("smoke") or {}}, params=SamplingParams(max_new_tokens=64))
    assert document["summary"] and document["paper"]["confidence"] in ("exact", "partial", "reconstructed")
    assert document["credit"] and dry_run(plan).answers >= 1 and plan.describe().startswith(f"{name}:")
    pool = task.prompts("train", n=40, seed=5)
    given = iter(range(40))
    other = TransformersPolicy.load("countdown-1")
    plan = build(
        {name: document.get("smoke") or {}}, params=SamplingParams(max_new_tokens=64), sources={"small": other}
    )
    before = policy.ledger.generated + other.ledger.generated
    batch, failures = plan.collect(
        policy,
        task,
        prompts[:2],
        seed=0,
        step=0,
        embedder=policy.embed,
        more_prompts=lambda n: [(10 + i, pool[i]) for i in (next(given) for _ in range(n))],
    )
    rows = batch.rollouts()
    assert rows and failures.count == 0 and all(len(row.ids) <= 64 for row in rows)
    assert Counter(row.prompt_id for row in rows).keys() >= {prompt.id for _, prompt in prompts[:2]}
    spent = policy.ledger.generated + other.ledger.generated - before
    assert sum(row.tokens["generated"] + row.tokens["discarded"] for row in rows) >= spent - other.ledger.generated


def test_bad_plans_are_refused_with_the_place_and_the_fix(
    policy: TransformersPolicy, task: Task, prompts: Prompts, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=r"no plan named 'treerpoo'.*treerpo"):
        build("treerpoo")
    with pytest.raises(UserError, match="no knob named 'm'"):
        build({"grpo": {"m": 3}})
    with pytest.raises(UserError, match="nothing draws any text"):
        build([{"conditioner": "modes"}])
    with pytest.raises(UserError, match="comparator must be the last"):
        build([{"comparator": "whole"}, {"source": "policy"}])
    with pytest.raises(UserError, match="no texts to condition on"):
        collect([{"conditioner": {"contexts": {"texts": []}}}, {"source": "policy"}], policy, task, prompts)
    with pytest.raises(UserError, match=r"lacks \{prompt\}"):
        collect([{"conditioner": {"template": {"pool": ["no slot"]}}}, {"source": "policy"}], policy, task, prompts)
    with pytest.raises(UserError, match="no source 'peer'"):
        collect([{"source": {"mix": {"other": "peer", "n": 2}}}], policy, task, prompts)
    with pytest.raises(UserError, match="no room for <info>"):
        collect({"dpb": {"n": 2, "budget": 2}}, policy, task, prompts, params=SamplingParams(max_new_tokens=8))
    with pytest.raises(UserError, match="cannot hold one rollout"):
        build("grpo", params=PARAMS, max_tokens=8).collect(policy, task, prompts, seed=0, step=0)
    with pytest.raises(UserError, match="needs an encoder"):
        build({"strata": {"encoder": "policy"}}, params=PARAMS).collect(policy, task, prompts[:1], seed=0, step=0)
    with pytest.raises(UserError, match="minilmm"):  # an encoder that is not there is told, and nothing random is taken
        build({"strata": {"encoder": "minilmm"}}, params=PARAMS).collect(policy, task, prompts[:1], seed=0, step=0)
    with pytest.raises(UserError, match="no verifier"):
        own = Unverified(["1 2 3 4 10 >"], chat=False)
        collect({"d3s": {"n": 4}}, policy, own, [(0, own.prompts("test", n=1)[0])])
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({"summary": "x", "plann": []}))
    with pytest.raises(UserError, match="unknown key"):
        build(str(path))
    path.write_text(yaml.safe_dump({"knobs": {"n": 2}, "plan": [{"source": {"policy": {"n": "$n"}}}]}))
    assert [len(group) for group in collect({str(path): {"n": 3}}, policy, task, prompts[:1]).groups] == [3]


def test_own_prompts_need_no_verifier(policy: TransformersPolicy) -> None:
    own = Unverified(["1 2 3 4 10 >"], chat=False)
    rows = collect({"grpo": {"n": 2}}, policy, own, [(0, own.prompts("test", n=1)[0])]).rollouts()
    assert len(rows) == 2 and all(row.rewards == {} and row.correct is None for row in rows)
