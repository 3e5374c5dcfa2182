"""The known pathologies of reinforcement-learning runs, their thresholds and what helps against each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from polypath.evaluate.checks import Check, both, change, gap, largest_k_falls, level, silent, texts_converge


@dataclass(frozen=True)
class Pathology:
    """Something that goes wrong in runs, how it is recognised, and what to try.

    `stage` says where in a rollout's life it can be changed, in the words of the survey 0.11.
    """

    name: str
    meaning: str
    stage: Literal["Generate", "Filter", "Control", "Replay"]
    check: Check
    remedies: tuple[str, ...]


PATHOLOGIES = (
    Pathology(
        "all_wrong",
        "Too many groups have no correct rollout and teach nothing.",
        "Generate",
        level("frac_all_wrong", 0.4),
        (
            "easier or mixed problems (the task's knobs)",
            "larger groups: rollout.group_size",
            "strategies or hints in the prompt: rollout.plan: strata",
            "new prompts in place of dead groups: rollout.plan: dapo",
        ),
    ),
    Pathology(
        "all_right",
        "Too many groups are solved by every rollout and teach nothing.",
        "Control",
        level("frac_all_correct", 0.4),
        (
            "harder problems (the task's knobs)",
            "weight by difficulty: credit: f_grpo",
            "credit that still tells correct rollouts apart: credit: rarity",
            "new prompts in place of dead groups: rollout.plan: dapo",
        ),
    ),
    Pathology(
        "solutions_lost",
        "Correct rollouts agree more and more on one solution.",
        "Generate",
        change("distinct_per_correct_set", -0.25, relative=True),
        (
            "share the reward among equal solutions: credit: rarity (alpha 0.5, then 1)",
            "quality times distinctness: credit: darling",
            "stop earlier, or pull to the start: train.kl",
        ),
    ),
    Pathology(
        "sharpening",
        "Single answers get better while the best of many gets worse: known solutions are repeated, others forgotten.",
        "Generate",
        largest_k_falls(0.02),
        (
            "train for the best of k: credit: pass_at_k",
            "pay rare correct solutions: credit: rarity",
            "intervals over problems: polypath compare of the run with its start",
        ),
    ),
    Pathology(
        "confidently_wrong",
        "One answer takes over faster than accuracy grows.",
        "Filter",
        gap("top_answer_mass", "correct", 0.2),
        (
            "check that the reward is the truth and not agreement",
            "credit within outcome classes: credit: uniqueness",
            "an entropy term: train.entropy",
        ),
    ),
    Pathology(
        "texts_converge",
        "Rollouts of a group are worded more and more alike.",
        "Generate",
        texts_converge(0.05),
        (
            "answers in different styles or strategies: rollout.plan: arc or rollout.plan: strata",
            "branch while planning: rollout.plan: dpb",
            "a reward for unique wording of good answers: credit: dpwriter_reward",
        ),
    ),
    Pathology(
        "entropy_collapse",
        "The policy has become nearly deterministic and explores no more.",
        "Generate",
        change("sampled_entropy", -0.7, relative=True),
        (
            "a wider upper clip: credit: dapo",
            "an entropy term: train.entropy (start at 0.001)",
            "fewer updates of the tokens that lose entropy: credit: clip_cov or credit: kl_cov",
            "a smaller optim.lr",
        ),
    ),
    Pathology(
        "entropy_explosion",
        "The policy becomes random: entropy rises without end.",
        "Control",
        change("sampled_entropy", 1.0, relative=True),
        (
            "a smaller train.entropy, or none",
            "a narrower upper clip (credit: grpo has 0.2)",
            "a smaller optim.lr, or train.kl",
        ),
    ),
    Pathology(
        "contexts_decide",
        "Success depends on the context shown with the prompt, not on what is written.",
        "Filter",
        level("between_context_share", 0.7),
        (
            "compare within contexts: credit: arc or rollout.plan: arc",
            "give the part between contexts less weight: credit: nudgerl with a smaller between",
        ),
    ),
    Pathology(
        "contexts_ignored",
        "The contexts make no difference to the reward.",
        "Generate",
        both(
            level("between_context_share", 0.02, below=True),
            level("correct", 0.05),
            level("frac_tied", 0.8, below=True),
        ),
        (
            "check that the context can be told from the answer",
            "contexts that differ more, or none: rollout.plan: grpo",
        ),
    ),
    Pathology(
        "context_dependence",
        "The policy succeeds with the context and less and less without it.",
        "Generate",
        gap("correct_in_context", "correct_bare", 0.2),
        (
            "more rollouts of the bare prompt (conditioner contexts with bare: true)",
            "train what was written in a context under the bare prompt too (loss_context: base)",
        ),
    ),
    Pathology(
        "truncated",
        "More and more answers are cut off at the length limit.",
        "Control",
        change("truncated", 0.05),
        ("a larger rollout.max_new_tokens", "a soft penalty of overlong answers: credit: dapo", "a lower temperature"),
    ),
    Pathology(
        "malformed",
        "More and more answers cannot be read.",
        "Filter",
        change("invalid", 0.05),
        (
            "a format reward or a stricter prompt",
            "a lower temperature",
            "a lower optim.lr: the policy drifts into noise",
        ),
    ),
    Pathology(
        "length_drift",
        "Answers are getting longer or shorter, whatever their quality.",
        "Control",
        level("length_drift", 0.2, magnitude=True),
        (
            "a loss without length bias: credit: dr_grpo",
            "diversity per token, never in total",
            "a penalty of overlong answers: credit: dapo",
        ),
    ),
    Pathology(
        "length_paid",
        "Credit goes with length: the policy is paid for long or for short answers.",
        "Filter",
        level("corr_credit_length", 0.3, magnitude=True),
        ("look for what the verifier rewards in long or short answers", "normalise diversity by length", "credit: opo"),
    ),
    Pathology(
        "spread_inflated",
        "Tiny differences in groups of equal reward are blown up to full size by the division by their own spread.",
        "Filter",
        level("std_inflated_groups / groups", 0.05),
        (
            "centre only, as credit: dr_grpo does",
            "divide by the spread of the given rewards, as credit: rarity does",
        ),
    ),
    Pathology(
        "diversity_pays_wrong",
        "The diversity signal gives credit to wrong answers.",
        "Filter",
        level("diversity_to_wrong", 0.05),
        ("a gate: correct stage after the signal", "similarity among rollouts of the same outcome only"),
    ),
    Pathology(
        "diversity_dominates",
        "Most of the credit comes from diversity while accuracy falls.",
        "Filter",
        both(level("frac_signal_from_diversity", 0.5), change("correct", -0.02)),
        ("a smaller weight, or one that falls over the steps (schedules)", "a gate: correct stage after the signal"),
    ),
    Pathology(
        "diversity_silent",
        "The method's diversity signal decides next to nothing: the run trains like the same method without it.",
        "Filter",
        silent(0.005),
        (
            "a gate that this reward opens: gate: correct or gate: quality_quantile, not a threshold of another scale",
            "a signal that tells these answers apart: by label (credit: rarity) where texts or embeddings are alike",
            "a larger weight (lam)",
            "for a method with a memory, prompts that come back: a smaller train.prompt_pool",
        ),
    ),
    Pathology(
        "off_policy",
        "Much of what is trained on was written by another model.",
        "Replay",
        level("foreign", 0.4),
        ("a smaller share of other sources, falling over the steps", "credit: erils or credit: hacpo"),
    ),
    Pathology(
        "sampler_mismatch",
        "The sampler and the trainer give different probabilities to the same tokens.",
        "Control",
        level("sampler_mismatch", 0.05),
        (
            "the same precision in both (model.dtype)",
            "temperature and cut-offs: only plain sampling is scored alike (rollout.top_p: 1)",
        ),
    ),
    Pathology(
        "discarded",
        "Most of the generated tokens are thrown away.",
        "Filter",
        level("discarded", 0.5),
        ("choose prompts before sampling instead of pruning after it", "fewer candidates per kept rollout"),
    ),
    Pathology(
        "unverified",
        "Rollouts fail to be verified.",
        "Filter",
        level("failed", 0.01),
        ("fix the verifier: run.log has the first failure", "polypath check on the recipe"),
    ),
    Pathology(
        "skipped_updates",
        "Updates are skipped because gradients are not finite.",
        "Control",
        level("skipped_update", 0.01),
        ("a smaller optim.lr", "model.dtype: float32", "a finite optim.grad_norm"),
    ),
)
