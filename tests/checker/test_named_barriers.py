"""Misuse of named barriers is reported with both lines and with advice."""

from functools import cache

import numpy as np
import pytest
from together import together

import smemkit

KERNEL = """
__global__ void k(int *y)
{
    const int t = threadIdx.x;
    if (t < 64) {
        %s
    } else {
        %s
    }
}
"""
SYNC = 'asm volatile("bar.sync {};" ::: "memory");'
ARRIVE = 'asm volatile("bar.arrive {};" ::: "memory");'
NOT_ORDERED = "nothing orders it after all arrivals of that phase"
GROUPS = "a named barrier of its own, with a number from 1 to 15"
CASES = {  # what the first and the last two warps do; the expected message, lines after the kernel's first, advice
    "one id for groups of two sizes": (
        *(SYNC.format("1, 96"), SYNC.format("1, 64")),
        *("barrier 1 for ", "but for ", {4, 6}, "a barrier of its own"),
    ),
    "barrier 0 in a group, __syncthreads elsewhere": (
        *(SYNC.format("0, 96"), "__syncthreads();"),
        *("barrier 0 for ", "while others wait at it for ", {4, 6}, "a number from 1 to 15"),
    ),
    "one id for two groups of one size": (
        *(SYNC.format("1, 64"), SYNC.format("1, 64")),
        *(
            "at barrier 1 at ",
            "nothing orders it after all arrivals of that phase",
            {4, 6},
            "a number from 1 to 15",
        ),
    ),
    "half a warp": (SYNC.format("1, 48"), "", "48 threads, not a multiple of 32", "", {4}, "whole warps"),
    "more than the block": (SYNC.format("1, 256"), "", "256 threads of a block", "", {4}, "launch more threads"),
    "no such barrier": (SYNC.format("16, 64"), "", "no barrier 16", "", {4}, "1 to 15"),
    "two arrivals": (
        *(f"{ARRIVE.format('1, 128')}\n        {ARRIVE.format('1, 128')}", ""),
        *("a second arrival at barrier 1", "", {4, 5}, "before it arrives again"),
    ),
}


def lines_of(fault):
    return {fault.line, fault.other_line} - {None}


MISUSE = together("k", [KERNEL % code[:2] for code in CASES.values()])


@cache
def compiled(text):
    return smemkit.Kernel(text)


@pytest.mark.parametrize(("schedule", "seed"), [("serial", 0), ("random", 1), ("random", 2), ("lockstep", 0)])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.covering(4)
def test_misuse_is_reported_with_both_lines(case, schedule, seed):
    _, _, expected, rest, lines, advice = CASES[case]
    name = f"k{list(CASES).index(case)}"
    first = MISUSE[: MISUSE.index(f"{name}(")].count("\n") + 1
    launch = compiled(MISUSE)[name][1, 128]
    report = smemkit.check(launch, np.zeros(128, np.int32), schedule=schedule, seed=seed)
    assert {(fault.kind, fault.title) for fault in report.faults} == {("barrier", "named barrier")}
    (fault,) = (fault for fault in report.faults if lines_of(fault) == {first + line for line in lines})
    late = NOT_ORDERED in fault.message  # the first group has passed
    assert (expected in fault.message and rest in fault.message) or (rest and late)
    assert (GROUPS if late else advice) in fault.fix


ORDERED = """
__device__ void meet(int id, int threads)
{
    asm volatile("bar.sync %0, %1;" :: "r"(id), "r"(threads) : "memory");
}
__global__ void k(int *y)
{
    const int warp = threadIdx.x / 32;
    if (warp < 2)
        meet(1, 64);
    if (warp < 2)
        meet(1, 64);
    MEET
    if (warp >= 1)
        meet(1, 96);
    __syncthreads();
    if (warp < 3)
        meet(0, 96);
}
"""


MEETINGS = ["__syncthreads();", "meet(2, 128);", "cooperative_groups::this_thread_block().sync();"]


@pytest.mark.parametrize(("schedule", "seed"), [("serial", 0), ("random", 1), ("random", 2), ("lockstep", 0)])
@pytest.mark.parametrize("meet", MEETINGS)
def test_groups_that_meet_in_between_may_share_a_barrier(meet, schedule, seed):
    text = "#include <cooperative_groups.h>" + together("k", [ORDERED.replace("MEET", one) for one in MEETINGS])
    launch = compiled(text)[f"k{MEETINGS.index(meet)}"][1, 128]
    report = smemkit.check(launch, np.zeros(128, np.int32), schedule=schedule, seed=seed)
    assert report.ok, report


def test_groups_that_do_not_meet_may_not():
    launch = smemkit.Kernel(ORDERED.replace("MEET", ""))[1, 128]
    (fault,) = smemkit.check(launch, np.zeros(128, np.int32)).faults
    assert NOT_ORDERED in fault.message or "but for 64 threads" in fault.message
