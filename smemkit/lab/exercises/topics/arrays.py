"""Static and dynamic shared memory, and several arrays in one allocation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from smemkit.lab.exercises.cases import Case, Launch, fresh, integers
from smemkit.lab.exercises.exercise import Exercise
from smemkit.lab.exercises.limits import no_conflicts, sectors, uses

TOPIC = "shared arrays"


def _reverse(dynamic: bool) -> Iterator[Case]:
    for n in (64, 33, 1) if not dynamic else (64, 100, 1, 256):
        d = integers(n, np.int32, 0, 100)
        block = 64 if not dynamic else n
        launch = Launch("reverse", 1, block, ("d", n), 4 * n if dynamic else 0)
        yield Case(f"n = {n}", {"d": d}, (launch,), {"d": d[::-1]})


def _reverse_static() -> Iterator[Case]:
    yield from _reverse(dynamic=False)


def _reverse_dynamic() -> Iterator[Case]:
    yield from _reverse(dynamic=True)


def _carve_three() -> Iterator[Case]:
    for n in (64, 10, 33):
        x = integers(n, np.float32, 0, 50)
        expected = (x + 2 * np.arange(n) + (np.arange(n) % 7))[::-1]
        launch = Launch("three_arrays", 1, n, ("x", "y", n), 9 * n)
        yield Case(f"n = {n} and {9 * n} bytes", {"x": x, "y": fresh(n)}, (launch,), {"y": expected})


EXERCISES = (
    Exercise(
        "reverse-static",
        TOPIC,
        "Reverse the n ≤ 64 elements of d in place, by one block of 64 threads, through __shared__ int s[64].",
        (
            "Thread t loads d[t]. Which element does it store?",
            "s[n - 1 - t] was written by another thread, perhaps of another warp. What must come between?",
            "Guard the load, __syncthreads() outside of the guard, then guard the store.",
        ),
        _reverse_static,
        (uses("__shared__"), no_conflicts(), sectors()),
    ),
    Exercise(
        "reverse-dynamic",
        TOPIC,
        "The same with any n: the block has n threads, and the launch passes 4 * n bytes of dynamic shared "
        "memory as its third argument, <<<1, n, 4 * n>>>.",
        (
            "Dynamic shared memory is declared without a size.",
            "extern __shared__ int s[];",
            "The rest is as for the static array; blockDim.x is n.",
        ),
        _reverse_dynamic,
        (uses("extern"), no_conflicts(), sectors()),
    ),
    Exercise(
        "carve-three-arrays",
        TOPIC,
        "One dynamic allocation of 9 * n bytes holds three arrays of n elements: int, float and char. Thread t "
        "stores 2 * t, x[t] and t % 7 in them. Then it stores in y[t] the sum of the three values of thread n - "
        "1 - t. The template gets the order wrong.",
        (
            "An int or a float must begin at a multiple of 4 bytes. What does a char array of n bytes do to it?",
            "Put the array with the smallest element last.",
            "float *floats = (float *)(ints + n); char *chars = (char *)(floats + n);",
        ),
        _carve_three,
        (uses("extern"),),
    ),
)
