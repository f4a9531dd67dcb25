"""Rounding: compensated and pairwise sums, half precision."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from smemkit.lab.exercises.cases import Case, Launch, fresh
from smemkit.lab.exercises.exercise import Exercise
from smemkit.lab.exercises.limits import without

TOPIC = "precision"
WHY = "on most GPUs float64 has 1/64 of the throughput of float32"


def _rows(n: int, ulps: float, kernel: str) -> Case:
    """Rows that begin with a large number, which plain sums in float32 lose much to."""
    x = np.random.default_rng(n).random((32, n), dtype=np.float32)
    x[:, 0] = 4096
    exact = x.astype(np.float64).sum(1)
    tolerance = ulps * float(np.spacing(np.float32(exact.max())))
    arrays = {"x": x, "sums": fresh(32)}
    launch = Launch(kernel, 1, 32, ("x", "sums", n))
    return Case(f"rows of {n:,} values", arrays, (launch,), {"sums": exact}, tolerance)


def _kahan() -> Iterator[Case]:
    for n in (1024, 500):
        yield _rows(n, 1.0, "row_sums")


def _pairwise() -> Iterator[Case]:
    for n in (8192, 4096):
        x = np.random.default_rng(n).random((4, n), dtype=np.float32)
        exact = x.astype(np.float64).sum(1)
        tolerance = 2 * float(np.spacing(np.float32(exact.max())))
        arrays = {"x": x, "sums": fresh(4)}
        launch = Launch("row_sums", 4, 1, ("x", "sums", n), 4 * n)
        yield Case(f"rows of {n:,} values", arrays, (launch,), {"sums": exact}, tolerance)


def _half() -> Iterator[Case]:
    for n in (2048, 4096):
        x = np.full((32, n), 0.75, np.float16)
        x[:, ::3] = 1.5
        exact = x.astype(np.float64).sum(1)
        arrays = {"x": x, "sums": fresh(32)}
        launch = Launch("row_sums", 1, 32, ("x", "sums", n))
        yield Case(f"rows of {n:,} values", arrays, (launch,), {"sums": exact}, 0.01)


EXERCISES = (
    Exercise(
        "kahan-sum",
        TOPIC,
        "Each thread adds a row of floats that begins with 4,096. The sum must be within one unit in the last "
        "place of the exact one, without double: use Kahan's compensated sum, which keeps what each addition "
        "rounded off.",
        (
            "A second variable, the compensation, holds the part of the last value that was lost.",
            "y = v - lost; t = sum + y; lost = (t - sum) - y; sum = t;",
            "What was lost is (t - sum) - y, not y - (t - sum): it is subtracted from the next value.",
        ),
        _kahan,
        (without("double", why=WHY),),
    ),
    Exercise(
        "pairwise-sum",
        TOPIC,
        "One thread per block adds n floats, n a power of two; n floats of dynamic shared memory are there to "
        "work in. Adding one after the other loses up to n roundings, a tree log2 n. Add pairwise, without "
        "double and without a compensation.",
        (
            "Copy the row to shared memory. Then halve it: s[i] += s[i + half] for i below half.",
            "13 halvings for n = 8,192: every value takes part in 13 additions, not in thousands.",
            "for (int half = n / 2; half > 0; half /= 2) for (int i = 0; i < half; i++) s[i] += s[i + half];",
        ),
        _pairwise,
        (without("double", why=WHY),),
    ),
    Exercise(
        "accumulate-in-float",
        TOPIC,
        "Each thread adds a row of halves. A half has 11 significant bits: from 2,048 on its step is 2, so that "
        "the template loses every 0.75 and rounds every 1.5 up to 2. Keep the sum in float32; the values stay "
        "halves in memory.",
        (
            "The type of the running sum decides what is lost.",
            "__half2float converts one value.",
            "float sum = 0; … sum += __half2float(x[…]);",
        ),
        _half,
        (without("double", why=WHY),),
    ),
)
