"""Losses on padded `(N, T)` log-probabilities. A loss is a sum; divide by `denominator` of the whole step."""
