"""Quantiles of what benches measure."""

import math
from collections.abc import Sequence


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest of these that is no smaller than so many of them."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
