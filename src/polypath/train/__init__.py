"""One small loop over a policy, for supervised and reinforcement learning."""
