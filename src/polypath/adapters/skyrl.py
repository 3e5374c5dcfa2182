"""SkyRL: every credit method as an advantage estimator, `trainer.algorithm.advantage_estimator=polypath_<method>`.

Call `register()` in the entry point of the run before the trainer starts. The function is the same as verl's, and so
are its limits; see `polypath.adapters.verl`.
"""

from __future__ import annotations

from polypath import credit
from polypath.adapters.estimators import PREFIX, estimator
from polypath.core.errors import UserError


def register() -> list[str]:
    """Register all methods with SkyRL and return their names. Raises UserError when SkyRL is not installed."""
    try:
        from skyrl.backends.skyrl_train.utils.ppo_utils import AdvantageEstimatorRegistry
    except ImportError as error:
        what = "needs the package 'skyrl', which is not installed"
        raise UserError(
            "polypath.adapters.skyrl", what, "Install it into this environment: pip install skyrl"
        ) from error
    names = {PREFIX + method: method for method in credit.methods()}
    for name, method in names.items():
        AdvantageEstimatorRegistry.register(name, estimator(method))
    return list(names)
