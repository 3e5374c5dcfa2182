"""What a measure declares about itself; the conformance test holds it to that."""

MORE, LESS = "more_is_diverse", "less_is_diverse"
INVARIANT = "permutation_invariant"
EVALUATION_ONLY = "evaluation_only"  # never a training signal: it is easily pleased, or a judge's opinion
