"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polypath.core.document import parse_value
from polypath.core.errors import UserError


def knob_values(overrides: Sequence[str]) -> dict[str, Any]:
    """`["alpha=0.5", "ks=[1, 4]"]` as a mapping. Raises UserError for what is not knob=value.

    >>> knob_values(["alpha=1e-5", "scale=none", "ks=[1, 4]"])
    {'alpha': 1e-05, 'scale': 'none', 'ks': [1, 4]}
    """
    return {name: parse_value(text, f"-o {name}") for name, text in pairs("-o", overrides).items()}


def pairs(option: str, given: Sequence[str]) -> dict[str, str]:
    """`["a=b"]` as a mapping of texts. Raises UserError for one without a name or an equals sign."""
    found = {}
    for pair in given:
        name, equals, text = pair.partition("=")
        if not (equals and name.strip()):
            raise UserError(option, f"'{pair}' is not name=value", f"Write {option} name=value.")
        found[name.strip()] = text.strip()
    return found
