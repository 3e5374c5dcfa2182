"""Ten stages from a group of rollouts to its advantages."""
