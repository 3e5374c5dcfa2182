"""Plans that turn prompts into groups of rollouts."""
