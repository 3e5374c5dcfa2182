"""Rollout plans: operators that turn prompts into groups of rollouts which differ on purpose."""
