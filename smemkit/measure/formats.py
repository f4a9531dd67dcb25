"""Numbers as people read them: times, counts, averages, dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = [
    "format_average",
    "format_count",
    "format_dimensions",
    "format_number",
    "format_seconds",
    "pluralize",
    "time_unit",
]


def format_seconds(seconds: float) -> str:
    """`seconds` to three digits: "18.4 µs"."""
    scale, unit = time_unit(seconds)
    return f"{format_number(seconds * scale)} {unit}"


def time_unit(seconds: float) -> tuple[float, str]:
    """The factor and the unit that suit a time: (1e6, "µs")."""
    for scale, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * scale >= 1:
            return scale, unit
    return 1e9, "ns"


def format_number(value: float) -> str:
    """`value` with three significant digits, and at most three decimals: "3,986", "18.4", "0.002"."""
    decimals = 0 if value <= 0 else max(0, 2 - math.floor(math.log10(value)))
    return f"{value:,.{min(decimals, 3)}f}"


def pluralize(number: int, noun: str, plural: str = "") -> str:
    """A number and its noun, in the singular or the plural, which is the noun with an s if it is not given."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def format_count(number: int) -> str:
    """A count as text: exact up to seven digits, then "12.3 M"."""
    if number < 10_000_000:
        return f"{number:,}"
    for scale, letter in ((10**12, "T"), (10**9, "G"), (10**6, "M")):
        if number >= scale:
            return f"{number / scale:,.{2 if number < 10 * scale else 1 if number < 100 * scale else 0}f} {letter}"
    raise AssertionError(number)


def format_average(total: int, requests: int) -> str:
    """The average per request, as text: "4", "4.5"."""
    return f"{total / max(1, requests):,.1f}".removesuffix(".0")


def format_dimensions(index: Sequence[int]) -> str:
    """A grid or block as text: 4 × 2, without trailing ones."""
    sizes = list(index)
    while len(sizes) > 1 and sizes[-1] == 1:
        sizes.pop()
    return " × ".join(f"{size:,}" for size in sizes)
