"""Ten stages from a group of rollouts to its advantages.

>>> from polypath import credit
>>> rarity = credit.build({"rarity": {"alpha": 1.0}})
>>> rarity({"rewards": [1, 1, 1, 0], "labels": [0, 0, 1, 0]}).advantages[0].round(3).tolist()
[0.0, 0.0, 1.732, -1.732]
"""

from polypath.credit.explain import run_method
from polypath.credit.inputs import fields_of
from polypath.credit.memory import Memory
from polypath.credit.methods import Method, load_method, methods
from polypath.credit.pipeline import Credit, Pipeline, build

__all__ = [
    "Credit",
    "Memory",
    "Method",
    "Pipeline",
    "build",
    "fields_of",
    "load_method",
    "methods",
    "run_method",
]
