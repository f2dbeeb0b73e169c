# SPDX-License-Identifier: Apache-2.0
"""Figures as text. A dash is unknown, never 0."""

import math

DASH = "-"


def number(value: float | None, digits: int, scale: float = 1.0) -> str:
    """With so many digits behind the point."""
    return DASH if value is None or math.isnan(value) else f"{value * scale:.{digits}f}"


def significant(value: float | None, digits: int = 3, scale: float = 1.0) -> str:
    """With at least so many digits that count, and no exponent.

    >>> [significant(x) for x in (1234.5, 12.345, 0.001234, 0.0)]
    ['1234', '12.3', '0.00123', '0']
    """
    if value is None or math.isnan(value):
        return DASH
    scaled = value * scale
    if scaled == 0:
        return "0"
    return f"{scaled:.{max(0, digits - 1 - math.floor(math.log10(abs(scaled))))}f}"


def whole(value: int | None) -> str:
    return DASH if value is None else str(value)


def percentage(value: float | None) -> str:
    """A share of 1."""
    return DASH if value is None else f"{value:.1%}"


def interval(value: float | None, low: float | None, high: float | None, scale: float = 1.0) -> str:
    """A value with its bounds, where it has them; an open end is said."""
    told = significant(value, scale=scale)
    if value is None or (low is None and high is None):
        return told
    above = "open" if high is None else significant(high, scale=scale)
    return f"{told} [{significant(low, scale=scale)}, {above}]"
