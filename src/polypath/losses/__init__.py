"""Policy and supervised objectives: pure functions of token log-probabilities."""
