"""What items are compared by: words, steps, code, vectors, gradients, outcomes, judged attributes.

Functions of one text return plain lists; the registered ones (kind `features`) take the whole set and return
`Features`, values with the signature that belongs into every result.
"""

from polypath.diversity.features.gradients import head_fisher, head_gradients
from polypath.diversity.features.judged import approaches, cohen_kappa, judged_attributes, outcome_vectors
from polypath.diversity.features.routes import route, route_symbols, unknown_share
from polypath.diversity.features.signature import Features, Signature, embedded
from polypath.diversity.features.steps import (
    answers,
    ast_step_lists,
    ast_steps,
    equation_sets,
    equations,
    final_answer,
    reasoning_steps,
    step_lists,
)
from polypath.diversity.features.vectors import active_features, hashed_ngrams, ngram_sets
from polypath.diversity.features.words import moving_type_token_ratio, ngrams, tokens, unshared_ngrams

__all__ = [
    "Features",
    "Signature",
    "active_features",
    "answers",
    "approaches",
    "ast_step_lists",
    "ast_steps",
    "cohen_kappa",
    "embedded",
    "equation_sets",
    "equations",
    "final_answer",
    "hashed_ngrams",
    "head_fisher",
    "head_gradients",
    "judged_attributes",
    "moving_type_token_ratio",
    "ngram_sets",
    "ngrams",
    "outcome_vectors",
    "reasoning_steps",
    "route",
    "route_symbols",
    "step_lists",
    "tokens",
    "unknown_share",
    "unshared_ngrams",
]
