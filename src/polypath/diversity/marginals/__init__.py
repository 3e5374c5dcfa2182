"""x"""
from polypath.diversity.marginals.common import DUPLICATE_SAFE, EQUIVARIANT, leave_one_out
