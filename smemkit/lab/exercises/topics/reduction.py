"""The tree in shared memory, after Harris, "Optimizing Parallel Reduction in CUDA" (2007)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from smemkit.lab.exercises.cases import Case, Launch, fresh, integers
from smemkit.lab.exercises.exercise import Exercise
from smemkit.lab.exercises.limits import (
    full_warps,
    global_accesses,
    no_conflicts,
    sectors,
    shared_requests,
    uses,
    without,
)
from smemkit.measure.formats import pluralize

TOPIC = "reduction"


def _block_sums(sizes: tuple[int, ...], elements: int, shared: int = 0) -> Iterator[Case]:
    """Blocks of 256 threads, each of which adds `elements` elements; zeros are added past n."""
    for n in sizes:
        blocks = -(-n // elements)
        x = integers(n)
        padded = np.zeros(blocks * elements, np.float32)
        padded[:n] = x
        expected = {"sums": padded.reshape(blocks, elements).sum(1)}
        launch = Launch("block_sums", blocks, 256, ("x", "sums", n))
        arrays = {"x": x, "sums": fresh(blocks)}
        budget = {"load": n, "shared": shared * blocks}
        yield Case(f"n = {n:,}", arrays, (launch,), expected, budget=budget)


def _tree() -> Iterator[Case]:
    yield from _block_sums((256, 1000, 1), 256)


def _first_add() -> Iterator[Case]:
    yield from _block_sums((512, 1000, 1300, 1), 512, shared=70)


def _shuffles() -> Iterator[Case]:
    yield from _block_sums((256, 700, 1), 256, shared=12)


def _maximum() -> Iterator[Case]:
    for n in (256, 600, 1):
        blocks = -(-n // 256)
        x = integers(n, low=-50, high=-10)
        padded = np.full(blocks * 256, -np.inf, np.float32)
        padded[:n] = x
        launches = (
            Launch("block_maxima", blocks, 256, ("x", "maxima", n)),
            Launch("block_maxima", 1, 256, ("maxima", "result", blocks)),
        )
        arrays = {"x": x, "maxima": fresh(blocks), "result": fresh(1)}
        expected = {"maxima": padded.reshape(blocks, 256).max(1), "result": x.max(keepdims=True)}
        yield Case(f"n = {n} in {pluralize(blocks, 'block')}", arrays, launches, expected)


EXERCISES = (
    Exercise(
        "barrier-in-the-tree",
        TOPIC,
        "Each block of 256 threads stores the sum of its 256 elements (0 past n) in sums[blockIdx.x], by a tree "
        "in shared memory. The template has one barrier before the tree and one after it.",
        (
            "In a step, thread t reads what thread t + stride wrote in the step before.",
            "How many barriers does a tree of eight steps need, and where?",
            "Each step ends with a barrier, inside of the loop and outside of the if.",
        ),
        _tree,
        (uses("__shared__"), no_conflicts()),
    ),
    Exercise(
        "tree-without-divergence",
        TOPIC,
        "The template is Harris' first kernel. Its threads work if t % (2 * stride) is 0: every second one, every "
        "fourth, and so on, so that nearly idle warps stay busy. Let consecutive threads do the work.",
        (
            "In a step with n additions, the threads 0 to n - 1 should do them.",
            "Thread t may add the pair at index 2 * stride * t: whole warps then have nothing to do. (That has "
            "bank conflicts, which this exercise allows.)",
            "int i = 2 * stride * t; if (i < 256) s[i] += s[i + stride];",
        ),
        _tree,
        (full_warps(),),
    ),
    Exercise(
        "tree-without-conflicts",
        TOPIC,
        "The template is Harris' second kernel; write his third. The template adds neighbours first, s[i] += s[i "
        "+ stride] with i = 2 * stride * t. Its lanes work on words that are 2 * stride apart, and share banks. "
        "Remove the conflicts, and let no warp diverge more than it must.",
        (
            "A warp has no conflict if its lanes access consecutive words.",
            "Let the distance of a pair start large and become smaller.",
            "for (stride = 128; stride > 0; stride /= 2) if (t < stride) s[t] += s[t + stride];",
        ),
        _tree,
        (no_conflicts(), full_warps()),
    ),
    Exercise(
        "first-add-on-load",
        TOPIC,
        "Harris' fourth kernel. In the tree half of the threads never add anything. Let a block of 256 threads "
        "take 512 elements: each thread adds two of them (0 past n) on the way to shared memory. Both loads of a"
        " warp must be coalesced.",
        (
            "The block's first element is now blockIdx.x * 512.",
            "Thread t's second element is 256 after its first one, so that a warp reads neighbours each time.",
            "s[t] = (i < n ? x[i] : 0) + (i + 256 < n ? x[i + 256] : 0);",
        ),
        _first_add,
        (sectors(), global_accesses("load"), no_conflicts(), shared_requests()),
    ),
    Exercise(
        "sum-by-shuffles",
        TOPIC,
        "A block of 256 threads adds its elements with few accesses to shared memory: each warp adds in "
        "registers by __shfl_down_sync, its lane 0 stores one sum, and the first warp adds the eight sums. At "
        "most 12 requests of warps to shared memory per block.",
        (
            "Five shuffles, by 16, 8, 4, 2 and 1 lanes, leave the sum of a warp in its lane 0.",
            "Eight sums are stored by eight warps, then a barrier, then one warp loads eight values.",
            "In the last step all 32 lanes of warp 0 shuffle; lanes from 8 on bring 0.",
        ),
        _shuffles,
        (uses("__shfl_down_sync", "__shfl_xor_sync"), shared_requests(), without("atomicAdd")),
    ),
    Exercise(
        "maximum-of-negatives",
        TOPIC,
        "block_maxima stores the largest element of each block of 256. It is launched twice: the second launch "
        "reduces the maxima of the first. All elements of the inputs are negative. The template fills up with "
        "the wrong value.",
        (
            "Which value, combined with any x by max, gives x? It is not 0.",
            "For a sum it is 0, for a product 1, for a maximum minus infinity.",
            "-INFINITY, or -FLT_MAX from <cfloat>.",
        ),
        _maximum,
        (no_conflicts(),),
    ),
)
