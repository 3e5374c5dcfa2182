"""What one item adds to its set: leave-one-out D(all) - D(all but i), and gains D(set and x) - D(set).

Functions named `loo_...` are exact closed forms over any leading axes (the spectral ones to a stated error), on numpy
and torch where they take arrays, and signals of the credit pipeline where they take its fields: there, what is
undefined is `undefined` = 0 and so gives no credit; `loo` gives NaN. `loo` and `gain` take any measure by name.
"""

from polypath.diversity.marginals.common import DUPLICATE_SAFE, EQUIVARIANT, check_similarity, leave_one_out
from polypath.diversity.marginals.counts import (
    best_of_tastes,
    gain_coverage,
    loo_classes,
    loo_coverage,
    loo_entropy,
    loo_hill,
    loo_label_pairs,
    loo_scalarised,
)
from polypath.diversity.marginals.generic import GAIN, LEAVE_ONE_OUT, gain, loo
from polypath.diversity.marginals.kernels import (
    gain_facility,
    gain_logdet,
    gain_pairs,
    loo_facility,
    loo_kernel_entropy,
    loo_logdet,
    loo_pairs,
)
from polypath.diversity.marginals.reference import loo_energy_distance, loo_mmd
from polypath.diversity.marginals.spectra import gain_vendi, loo_vendi
from polypath.diversity.marginals.texts import loo_distinct_n, loo_self_bleu

__all__ = [
    "DUPLICATE_SAFE",
    "EQUIVARIANT",
    "GAIN",
    "LEAVE_ONE_OUT",
    "best_of_tastes",
    "check_similarity",
    "gain",
    "gain_coverage",
    "gain_facility",
    "gain_logdet",
    "gain_pairs",
    "gain_vendi",
    "leave_one_out",
    "loo",
    "loo_classes",
    "loo_coverage",
    "loo_distinct_n",
    "loo_energy_distance",
    "loo_entropy",
    "loo_facility",
    "loo_hill",
    "loo_kernel_entropy",
    "loo_label_pairs",
    "loo_logdet",
    "loo_mmd",
    "loo_pairs",
    "loo_scalarised",
    "loo_self_bleu",
    "loo_vendi",
]
