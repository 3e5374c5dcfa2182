"""How diverse a set is, in one number. Undefined is NaN: an empty pool has no diversity, it does not have none.

All functions take one set (the rollouts of one prompt, say) and return a float. The data they name, one value per item
unless said otherwise:

- `texts`, `labels` (class names; None is no known class), `correct`, `rewards`, `embeddings` (n, d)
- `similarity` (n, n), one matrix for the set
- `reference` (m, d): embeddings to compare with, one array for the set
- `known`: the known solutions or features, one set for the set
- `features`: the set of features an item activates; `attributes`: a mapping (or row) of its judged values
- `approaches`: a judge's groups; `steps`: an array (s, d) of the item's embedded reasoning steps
- `gradients` (n, d): sketches of its gradient, or Fisher diagonals of batches of a dataset
- `outcomes` (n, problems): 0 and 1 of each voter; `ratings` (agents, questions): ordinal answers
"""

from polypath.diversity.measures.agents import (
    effective_channels,
    effective_channels_by_outcome,
    effective_size,
    outcome_weights,
    rating_distances,
    value_diversity,
    value_span,
    voters_worth,
)
from polypath.diversity.measures.bleu import bleu_against_others, self_bleu
from polypath.diversity.measures.counts import (
    approach_diversity,
    attribute_entropies,
    attribute_entropy,
    attribute_values,
    class_counts,
    correct_difference,
    coverage,
    default_behaviours,
    distinct,
    distinct_correct,
    entropy,
    entropy_corrected,
    feature_coverage,
    hill,
    hill_number,
    missing_features,
    pair_difference,
    pairwise_difference,
)
from polypath.diversity.measures.distance import (
    chamfer,
    density_factor,
    energy,
    internal_diversity,
    knn_novelty,
    mst_span,
    novel_sum,
    novel_sum_against,
    novelties,
    order_parameter,
    pairwise_cosine,
    span,
)
from polypath.diversity.measures.ngrams import NGrams, numbered_ngrams, text_ngrams
from polypath.diversity.measures.paths import (
    cross_diversity,
    distinct_routes,
    diversity_coefficient,
    reasoning_path_divergence,
    route_diversity,
)
from polypath.diversity.measures.reference import coverage_knn, density_knn, energy_distance, mmd, recall_knn
from polypath.diversity.measures.sets import creative_utility, largest_compatible, utilities, yield_size
from polypath.diversity.measures.spectral import (
    gradient_vendi,
    kernel_log_det,
    kernel_vendi,
    log_det,
    log_det_distance,
    similarity_entropy,
    spectrum,
    vendi,
    vendi_correct,
    vendi_gated,
    vendi_of_kernel,
    vendi_quality,
)
from polypath.diversity.measures.suite import behaviours, rank_correlations
from polypath.diversity.measures.text import (
    compression_ratio,
    distinct_n,
    hdd,
    mtld,
    ngram_diversity,
    prompt_diversity,
    rouge_l,
    self_repetition,
)
from polypath.diversity.measures.traits import EVALUATION_ONLY, INVARIANT, LESS, MORE

__all__ = [
    "EVALUATION_ONLY",
    "INVARIANT",
    "LESS",
    "MORE",
    "NGrams",
    "approach_diversity",
    "attribute_entropies",
    "attribute_entropy",
    "attribute_values",
    "behaviours",
    "bleu_against_others",
    "chamfer",
    "class_counts",
    "compression_ratio",
    "correct_difference",
    "coverage",
    "coverage_knn",
    "creative_utility",
    "cross_diversity",
    "default_behaviours",
    "density_factor",
    "density_knn",
    "distinct",
    "distinct_correct",
    "distinct_n",
    "distinct_routes",
    "diversity_coefficient",
    "effective_channels",
    "effective_channels_by_outcome",
    "effective_size",
    "energy",
    "energy_distance",
    "entropy",
    "entropy_corrected",
    "feature_coverage",
    "gradient_vendi",
    "hdd",
    "hill",
    "hill_number",
    "internal_diversity",
    "kernel_log_det",
    "kernel_vendi",
    "knn_novelty",
    "largest_compatible",
    "log_det",
    "log_det_distance",
    "missing_features",
    "mmd",
    "mst_span",
    "mtld",
    "ngram_diversity",
    "novel_sum",
    "novel_sum_against",
    "novelties",
    "numbered_ngrams",
    "order_parameter",
    "outcome_weights",
    "pair_difference",
    "pairwise_cosine",
    "pairwise_difference",
    "prompt_diversity",
    "rank_correlations",
    "rating_distances",
    "reasoning_path_divergence",
    "recall_knn",
    "rouge_l",
    "route_diversity",
    "self_bleu",
    "self_repetition",
    "similarity_entropy",
    "span",
    "spectrum",
    "text_ngrams",
    "utilities",
    "value_diversity",
    "value_span",
    "vendi",
    "vendi_correct",
    "vendi_gated",
    "vendi_of_kernel",
    "vendi_quality",
    "voters_worth",
    "yield_size",
]
