"""Similarity between items: batched matrices of small groups (`grouped`), and views of large sets (`view`)."""

from polypath.diversity.kernels.combine import log_euclid, product, quality_scaled, weighted_sum
from polypath.diversity.kernels.grouped import cosine, mask_outcomes
from polypath.diversity.kernels.structural import (
    bag_kernel,
    jaccard_kernel,
    label_kernel,
    lcs_kernel,
    path_divergence,
    rpd_kernel,
)
from polypath.diversity.kernels.vector import (
    check_rows,
    cosine_kernel,
    inverse_distance_kernel,
    linear_kernel,
    rbf_kernel,
    squared_distances,
    unit_rows,
)
from polypath.diversity.kernels.view import Kernel, dense_kernel

__all__ = [
    "Kernel",
    "bag_kernel",
    "check_rows",
    "cosine",
    "cosine_kernel",
    "dense_kernel",
    "inverse_distance_kernel",
    "jaccard_kernel",
    "label_kernel",
    "lcs_kernel",
    "linear_kernel",
    "log_euclid",
    "mask_outcomes",
    "path_divergence",
    "product",
    "quality_scaled",
    "rbf_kernel",
    "rpd_kernel",
    "squared_distances",
    "unit_rows",
    "weighted_sum",
]
