"""The hidden inputs of an exercise: arrays, the launches that use them, and the arrays expected afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from smemkit.checker.check import check
from smemkit.checker.report import Report
from smemkit.user_kernel.kernel import Kernel
from smemkit.user_kernel.kernel import Launch as KernelLaunch

__all__ = ["Case", "Launch", "first_difference", "fresh", "integers", "run", "total"]

UNWRITTEN = {
    "f": np.nan,
    "i": -77,
    "u": 177,
    "b": True,
}  # the content of a result before the launch, by dtype.kind


@dataclass(frozen=True)
class Launch:
    """One launch: ``kernel<<<grid, block, shared>>>(args)``. A str among the arguments names an array."""

    kernel: str
    grid: int | tuple[int, ...]
    block: int | tuple[int, ...]
    args: tuple[Any, ...]
    shared: int = 0


@dataclass(frozen=True)
class Case:
    """One hidden input.

    Attributes
    ----------
    label : str
        What the reader is told about it: "n = 1,000".
    arrays, expected : mapping of str to numpy.ndarray
        The arrays before the launches; and the contents that some must have afterwards.
    launches : tuple of Launch
        They run one after the other.
    tolerance : float
        The largest absolute error of an element that is accepted; 0 for equality.
    constants : mapping of str to numpy.ndarray
        Values of the source's ``__constant__`` variables.
    budget : mapping of str to int
        What limits need to know of this input, such as "loads".
    """

    label: str
    arrays: Mapping[str, np.ndarray]
    launches: tuple[Launch, ...]
    expected: Mapping[str, np.ndarray]
    tolerance: float = 0.0
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    budget: Mapping[str, int] = field(default_factory=dict)


def fresh(shape: int | tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    """An array for results, filled with a value that no kernel of an exercise computes."""
    kind = np.dtype(dtype).kind
    return np.full(shape, UNWRITTEN[kind], dtype)


def integers(
    shape: int | tuple[int, ...], dtype: Any = np.float32, low: int = -4, high: int = 5, seed: int = 1
) -> np.ndarray:
    """Small integers from `low` to `high` - 1: sums and products of them are exact in float32."""
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


class _CheckedLaunch:
    """A launch as `check` takes it, whose arrays receive the results."""

    def __init__(self, launch: KernelLaunch):
        self.kernels, self._launch = launch.kernels, launch

    def _checked_call(self, *args: Any) -> None:
        self._launch._checked_call(*args, keep_results=True)


def run(case: Case, source: Kernel) -> Iterator[tuple[Report, dict[str, np.ndarray]]]:
    """Yields after each launch its report and the arrays. Every block is checked."""
    arrays = {name: array.copy() for name, array in case.arrays.items()}
    for name, value in case.constants.items():
        source.constants[name] = value
    for launch in case.launches:
        kernel = source[launch.kernel]
        arguments = [arrays[arg] if isinstance(arg, str) else arg for arg in launch.args]
        target = _CheckedLaunch(kernel[launch.grid, launch.block, launch.shared])
        yield check(target, *arguments, blocks="all"), arrays


def first_difference(case: Case, arrays: Mapping[str, np.ndarray]) -> str:
    """What is wrong in the results: the first wrong element, and how many there are; "" if nothing is."""
    for name, expected in case.expected.items():
        got = arrays[name]
        wrong = ~(np.abs(got.astype(float) - expected.astype(float)) <= case.tolerance)
        if count := np.count_nonzero(wrong):
            index = tuple(int(i) for i in np.argwhere(wrong)[0])
            where = name + "".join(f"[{i}]" for i in index)
            found = _words(got[index], case.arrays[name][index])
            many = f"; {count:,} of {expected.size:,} elements are wrong" if expected.size > 1 else ""
            about = f" within {case.tolerance:.2g}" if case.tolerance else ""
            return f"{where} {found}, expected {expected[index]:.9g}{about}{many}"
    return ""


def _words(value: Any, before: Any) -> str:
    """What an element is, or that it still has the value that `fresh` put there."""
    if _is_unwritten(value) and _is_unwritten(before):
        return "was never written"
    return f"is {value + 0:.9g}"  # 0 instead of -0


def _is_unwritten(value: Any) -> bool:
    unwritten = UNWRITTEN[value.dtype.kind]
    return bool(value == unwritten or (value != value and unwritten != unwritten))


def total(reports: Sequence[Report]) -> Report:
    """The reports of several launches, at least one, as one report."""
    launches = [launch for report in reports for launch in report.launches]
    return Report(launches, sum(report.seconds for report in reports), reports[0].sources)
