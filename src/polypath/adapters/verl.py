"""verl: every credit method as an advantage estimator, `algorithm.adv_estimator=polypath_<method>`.

With both installed, `import verl` finds and registers them (entry point `verl.plugins`); or call `register()` before
training. Knobs go to `+algorithm.polypath.<knob>=<value>`, as in `+algorithm.polypath.alpha=0.5`, and so does
`correct_threshold` where rewards are not 0/1.

Through verl 0.9 an estimator sees rewards, masks and group ids alone: methods that compare texts or labels need a
trainer that hands them over (`non_tensor_batch` with canonical or answers); they say so in the first step. A group of
one has advantage 0 here; verl's own keep its reward.
"""

from __future__ import annotations

import logging
from typing import Any

from polypath import credit
from polypath.adapters.estimators import PREFIX, estimator
from polypath.core.errors import UserError


def register() -> list[str]:
    """Register all methods with verl and return their names; those that are there already stay.

    Raises UserError when verl is not installed.
    """
    try:
        from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, register_adv_est
    except ImportError as error:
        what = "needs the package 'verl', which is not installed"
        raise UserError("polypath.adapters.verl", what, "Install it into this environment: pip install verl") from error
    names = {PREFIX + method: method for method in credit.methods()}
    for name, method in names.items():
        if name not in ADV_ESTIMATOR_REGISTRY:
            register_adv_est(name)(estimator(method))
    return list(names)


def __getattr__(name: str) -> Any:
    if name != "plugin":  # the entry point: verl loads it, and calls nothing
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    names = register()
    logging.getLogger("polypath").info("registered %d advantage estimators with verl", len(names))
    return names
