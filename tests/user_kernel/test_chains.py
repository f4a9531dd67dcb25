"""Chains of launches: programmatic dependent launch on the CPU device, plain and checked."""

import signal
from contextlib import contextmanager

import numpy as np
import pytest
from together import Kernels

import smemkit

pytestmark = pytest.mark.usefixtures("compiled_when_used")

WAIT = "cudaGridDependencySynchronize();"
SOURCE = r"""
#include <cstdint>
__global__ void first(int *a)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    cudaTriggerProgrammaticLaunchCompletion();
    a[i] = i;
}
__global__ void second(const int *a, int *b)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    %s
    b[i] = 2 * a[i];
}
__global__ void third(const int *a, const int *b, int *c)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    %s
    c[i] = a[i] + b[i];
}
__global__ void wrong(int *a) { a[0] = 1; __trap(); }
__global__ void atomics(int *a) { atomicAdd(&a[0], 1); }
"""
KERNELS = Kernels()
N = 256
SHAPE = 4, 64


def kernels(second=WAIT, third=WAIT):
    return smemkit.Kernel(SOURCE % (second, third))


def arrays(count):
    return [np.full(N, -1, np.int32) for _ in range(count)]


def two(wait, **options):
    k, (a, b) = kernels(wait), arrays(2)
    return smemkit.chain(k["first"][SHAPE].bind(a), k["second"][SHAPE].bind(a, b), **options), a, b


@contextmanager
def threads(n):
    before = smemkit.get_num_threads()
    smemkit.set_num_threads(n)
    try:
        yield
    finally:
        smemkit.set_num_threads(before)


@pytest.fixture
def two_threads():
    with threads(2):
        yield


@pytest.fixture
def sixteen_threads():
    with threads(16):
        yield


@pytest.mark.parametrize(
    "wait",
    [WAIT, 'asm volatile("griddepcontrol.wait;" ::: "memory");', f"if (threadIdx.x == 0) {WAIT} __syncthreads();"],
)
def test_a_launch_that_waits_reads_what_the_one_before_writes(wait):
    both, a, b = two(wait)
    both()
    np.testing.assert_array_equal(a, np.arange(N))
    np.testing.assert_array_equal(b, 2 * np.arange(N))
    assert smemkit.check(both).ok


def test_a_launch_that_does_not_wait_reads_what_was_there_before():
    both, a, b = two("")
    both()
    np.testing.assert_array_equal(a, np.arange(N))
    np.testing.assert_array_equal(b, -2)
    assert both.pdl


def test_threads_beside_one_that_waits_run_early():
    both, _, b = two(f"if (threadIdx.x == 0) {WAIT}")
    both()
    assert b[0] == 0
    np.testing.assert_array_equal(b[1:32], -2)


def test_without_pdl_each_launch_begins_after_the_one_before():
    both, _, b = two("", pdl=False)
    both()
    np.testing.assert_array_equal(b, 2 * np.arange(N))
    assert smemkit.check(both).ok


def test_the_fault_names_both_lines_and_both_launches():
    report = smemkit.check(two("")[0])
    (fault,) = report.faults
    lines = (SOURCE % ("", "")).splitlines()
    assert (fault.kind, fault.hazard, fault.severity) == ("race", "RAW", "error")
    assert lines[fault.line - 1].strip() == "b[i] = 2 * a[i];"
    assert lines[fault.other_line - 1].strip() == "a[i] = i;"
    assert "the launch before, first," in fault.message
    assert "griddepcontrol" in fault.meaning
    assert [launch.kernel for launch in report.launches] == ["first", "second"]
    assert report.launches[1].blocks_checked == 4


def test_a_check_changes_no_argument():
    both, a, b = two("")
    smemkit.check(both)
    np.testing.assert_array_equal([a, b], -1)


def test_a_launch_may_be_repeated_and_takes_arrays_of_the_device():
    k = kernels()
    a, b = (smemkit.full((N,), -1, np.int32, device="cpu") for _ in range(2))
    both = smemkit.chain(k["first"][SHAPE].bind(a), k["second"][SHAPE].bind(a, b))
    both()
    both()
    np.testing.assert_array_equal(b.numpy(), 2 * np.arange(N))


@pytest.mark.parametrize(("second", "third", "ok"), [(WAIT, WAIT, True), (WAIT, "", False), ("", WAIT, False)])
def test_an_end_of_a_launch_that_has_not_waited_is_not_the_end_of_the_one_before(second, third, ok):
    k, (a, b, c) = kernels(second, third), arrays(3)
    source, out = arrays(2)
    chain = smemkit.chain(
        k["first"][SHAPE].bind(a), k["second"][SHAPE].bind(source, b), k["third"][SHAPE].bind(a, b, c)
    )
    report = smemkit.check(chain)
    assert report.ok == ok, report
    del out
    if ok:
        chain()
        np.testing.assert_array_equal(c, np.arange(N) - 2)
    elif not second:
        (fault,) = report.faults
        assert "first, 2 launches before" in fault.message
        assert "launch between" in fault.fix


def test_atomics_of_both_launches_are_no_race_and_kernels_of_two_sources_are_told_apart():
    k, (a,) = kernels(), arrays(1)
    assert smemkit.check(smemkit.chain(k["atomics"][1, 32].bind(a), k["atomics"][1, 32].bind(a))).ok
    other = smemkit.Kernel("__global__ void reads(int *a) { a[1] = a[0]; }")
    report = smemkit.check(smemkit.chain(k["atomics"][1, 32].bind(a), other[1, 1].bind(a)))
    (fault,) = report.faults
    assert (fault.location, fault.other_file) == ("reads/kernel.cu:1", "kernel.cu")
    assert "a[1] = a[0]" in fault.text


def test_sources_of_one_name_and_kernels_of_one_name_are_told_apart():
    """A comment in one source allows nothing in another."""
    (a,) = arrays(1)
    texts = [f"// kernel {i}\n__global__ void k(int *a) {{ a[{i}] = a[0] + {i}; }}" for i in range(3)]
    texts[2] = texts[2].replace("// kernel 2\n", "// smemkit: allow(race)\n")
    launches = [smemkit.Kernel(text)[1, 1].bind(a) for text in texts]
    report = smemkit.check(smemkit.chain(*launches))
    assert not report.ok
    found = {fault.file for fault in report.faults}
    assert found <= {"kernel.cu", "k/kernel.cu"}
    for launch, text in zip(report.launches, texts, strict=True):
        assert {line.text for line in launch.lines} == {text.splitlines()[1]}


KERNELS.add("""
__global__ void swaps(int *w)
{
    int old = *w, was;
    do {
        was = old;
        old = atomicCAS(w, was, was + 1);
    } while (old != was);
}
__global__ void adds(int *w) { atomicAdd(w, 1); }
""")


def test_a_load_before_a_compare_and_swap_is_no_race_with_a_later_launch():
    (a,) = arrays(1)
    launches = [KERNELS[name][1, 32].bind(a) for name in ("swaps", "adds")]
    assert smemkit.check(smemkit.chain(*launches)).ok
    assert smemkit.check(smemkit.chain(*launches[::-1])).ok


def test_a_race_within_a_launch_and_one_between_launches_at_the_same_lines_are_two_faults():
    k, (a,) = smemkit.Kernel("__global__ void k(int *a) { a[0] = threadIdx.x; }"), arrays(1)
    launch = k[1, 2].bind(a)
    report = smemkit.check(smemkit.chain(launch, launch))
    assert {"of the launch before" in fault.message for fault in report.launches[1].faults} == {False, True}, (
        report
    )


KERNELS.add(r"""
__global__ void spin_first(int *a) { a[threadIdx.x] = threadIdx.x; }
__global__ void spin_second(const int *a, int *b)
{
    __shared__ volatile int ready;
    if (threadIdx.x == 0)
        ready = 0;
    __syncthreads();
    if (threadIdx.x == 32) {
        cudaGridDependencySynchronize();
        __threadfence_block();
        atomicExch((int *)&ready, 1);
    }
    if (threadIdx.x < 32)
        while (!atomicAdd((int *)&ready, 0))
            ;
    __threadfence_block();
    b[threadIdx.x] = a[threadIdx.x];
}
""")


def test_threads_that_spin_until_another_has_waited_go_on():
    a, b = (np.full(64, -1, np.int32) for _ in range(2))
    smemkit.chain(KERNELS["spin_first"][1, 64].bind(a), KERNELS["spin_second"][1, 64].bind(a, b))()
    np.testing.assert_array_equal(b[:33], np.arange(33))


KERNELS.add(r"""
__global__ void block_first(int *a) { a[0] = 1; }
__global__ void block_second(int *a)
{
    if (blockIdx.x == 0) {
        cudaGridDependencySynchronize();
        a[1] = a[0] + 1;
        __threadfence();
        atomicExch(&a[2], 1);
    } else {
        while (!atomicAdd(&a[2], 0))
            ;
        __threadfence();
        a[3] = a[1] + 1;
    }
}
""")


def test_blocks_that_spin_until_another_has_waited_go_on(two_threads):
    a = np.zeros(4, np.int32)
    smemkit.chain(KERNELS["block_first"][1, 1].bind(a), KERNELS["block_second"][2, 1].bind(a))()
    np.testing.assert_array_equal(a, [1, 2, 1, 3])


KERNELS.add(r"""
#include <cooperative_groups.h>
__global__ void cluster_first(int *a) { a[blockIdx.x] = blockIdx.x + 1; }
__global__ void __cluster_dims__(2, 1, 1) cluster_second(const int *a, int *b)
{
    if (blockIdx.x % 2 == 0)
        cudaGridDependencySynchronize();
    cooperative_groups::this_cluster().sync();
    b[blockIdx.x] = a[blockIdx.x ^ 1];
}
""")


def test_a_cluster_waits_through_one_of_its_blocks():
    a, b = (np.zeros(8, np.int32) for _ in range(2))
    both = smemkit.chain(KERNELS["cluster_first"][8, 1].bind(a), KERNELS["cluster_second"][8, 1].bind(a, b))
    both()
    np.testing.assert_array_equal(b, [2, 1, 4, 3, 6, 5, 8, 7])
    assert smemkit.check(both).ok


KERNELS.add(r"""
__global__ void long_first(int *a) { a[0] = 1; }
__global__ void slow(int *a)
{
    cudaGridDependencySynchronize();
    for (int i = 0; i < 100000; i++)
        atomicAdd(&a[1], 1);
    a[2] = a[0] + 1;
}
__global__ void __cluster_dims__(2, 1, 1) last(const int *a, int *b)
{
    if (blockIdx.x % 2 == 0)
        return;
    cudaGridDependencySynchronize();
    b[0] = a[2] + 1;
}
""")


def test_a_cluster_waits_through_one_of_its_further_blocks_for_two_launches():
    a, b = np.zeros(3, np.int32), np.zeros(1, np.int32)
    smemkit.chain(
        KERNELS["long_first"][1, 1].bind(a), KERNELS["slow"][1, 1].bind(a), KERNELS["last"][2, 1].bind(a, b)
    )()
    assert b[0] == 3


KERNELS.add(r"""
#include <cooperative_groups.h>
__global__ void grid_first(int *a)
{
    cooperative_groups::this_grid().sync();
    atomicAdd(&a[0], 1);
}
__global__ void grid_second(int *a, int *b)
{
    cudaGridDependencySynchronize();
    if (blockIdx.x == 1) {
        for (int i = 0; i < 10000; i++)
            atomicAdd(&a[1], 1);
        a[2] = a[0];
    }
    cooperative_groups::this_grid().sync();
    if (blockIdx.x == 0)
        b[0] = a[2];
}
""")


def test_grids_of_two_launches_have_barriers_of_their_own():
    a, b = np.zeros(3, np.int32), np.zeros(1, np.int32)
    smemkit.chain(KERNELS["grid_first"][3, 1].bind(a), KERNELS["grid_second"][2, 1].bind(a, b))()
    assert b[0] == 3


LONG = r"""
#include <cooperative_groups.h>
__global__ void count(int *a)
{
    cudaGridDependencySynchronize();
    atomicAdd(&a[0], 1);
}
__global__ void look(int *a, int *b, int i)
{
    b[i] = a[0];
    cudaGridDependencySynchronize();
    atomicAdd(&a[0], 1);
}
__global__ void together(int *a)
{
    cooperative_groups::this_grid().sync();
    cudaGridDependencySynchronize();
    atomicAdd(&a[0], 1);
}
__global__ void beside(int *a) // its blocks could wait for each other, and do not
{
    cudaGridDependencySynchronize();
    atomicAdd(&a[0], cooperative_groups::this_grid().is_valid());
}
"""


def test_a_chain_of_any_length_runs_three_at_a_time(sixteen_threads):
    k = smemkit.Kernel(LONG)
    a, b = np.zeros(1, np.int32), np.zeros(7, np.int32)
    smemkit.chain(*[k["count"][1, 1].bind(a)] * 20)()
    smemkit.set_num_threads(1)
    smemkit.chain(*[k["count"][1, 1].bind(a)] * 380)()
    assert a[0] == 400
    smemkit.chain(*[k["look"][1, 1].bind(a, b, i) for i in range(7)])()
    np.testing.assert_array_equal(b, [400, 400, 400, 403, 403, 403, 406])


def test_stacks_of_a_cluster_are_free_for_later_launches(sixteen_threads):
    k = smemkit.Kernel(LONG)
    a = np.zeros(1, np.int32)
    cluster = k["count"][256, 1, 0, None, 16].bind(a)
    smemkit.chain(cluster, pdl=False)()
    smemkit.chain(k["count"][1, 1].bind(a), k["count"][1, 1].bind(a), cluster)()
    smemkit.chain(cluster, cluster, pdl=False)()
    k["together"][60, 1](a)
    assert a[0] == 256 + 258 + 512 + 60


@pytest.mark.parametrize("name", ["beside", pytest.param("together", marks=pytest.mark.slow)])
def test_large_grids_that_run_together_are_alone_in_flight(name):
    k = smemkit.Kernel(LONG)
    a = np.zeros(1, np.int32)
    large, small = k[name][100, 1].bind(a), k["together"][2, 1].bind(a)
    smemkit.chain(large, large, large, small)()
    assert a[0] == 302


def test_an_error_of_an_earlier_launch_is_raised_and_arrays_stay_as_they_were():
    k, (a, b) = kernels(), arrays(2)
    chain = smemkit.chain(k["first"][SHAPE].bind(a), k["wrong"][1, 1].bind(a), k["second"][SHAPE].bind(a, b))
    with pytest.raises(smemkit.Error, match="wrong"):
        chain()
    np.testing.assert_array_equal([a, b], -1)
    both, _, b = two(WAIT)
    both()
    np.testing.assert_array_equal(b, 2 * np.arange(N))


@pytest.mark.parametrize(("name", "shape"), [("wrong", (1, 1)), ("first", (1, 1, 1 << 20))])
def test_launches_before_one_that_fails_have_run(name, shape):
    k = kernels()
    a, other = (smemkit.full((N,), -1, np.int32, device="cpu") for _ in range(2))
    b = smemkit.full((N,), -1, np.int32, device="cpu")
    before = k["first"][SHAPE].bind(a), k["second"][SHAPE].bind(a, b)
    with pytest.raises(smemkit.Error, match=r"wrong|shared memory"):
        smemkit.chain(*before, k[name][shape].bind(other))()
    np.testing.assert_array_equal(b.numpy(), 2 * np.arange(N))
    assert other.numpy()[0] == (1 if name == "wrong" else -1)


def test_launches_before_an_interrupted_one_do_not_run():
    k = kernels()
    a, other = (smemkit.full((N,), -1, np.int32, device="cpu") for _ in range(2))
    smemkit._core.fail_launch(1, signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        smemkit.chain(k["first"][SHAPE].bind(a), k["first"][SHAPE].bind(other))()
    np.testing.assert_array_equal(a.numpy(), -1)


def test_wrong_uses_are_refused():
    k, (a, b) = kernels(), arrays(2)
    with pytest.raises(ValueError, match=r"at least one kernel\[grid, block\]\.bind"):
        smemkit.chain()
    with pytest.raises(TypeError, match=r"launch 1: expected kernel\[grid, block\]\.bind\(…\), got Launch"):
        smemkit.chain(k["first"][SHAPE].bind(a), k["second"][SHAPE])
    with pytest.raises(ValueError, match="launch 1: expected the stream of the first, None, got 5"):
        smemkit.chain(k["first"][SHAPE].bind(a), k["second"][4, 64, 0, 5].bind(a, b))
    with pytest.raises(TypeError, match=r"second: expected 2 arguments \(a, b\), got 1"):
        smemkit.chain(k["first"][SHAPE].bind(a), k["second"][SHAPE].bind(a))()
    with pytest.raises(TypeError, match="second, launch 1: b: expected"):
        smemkit.chain(k["first"][SHAPE].bind(a), k["second"][SHAPE].bind(a, 1.5))()
    with pytest.raises(TypeError, match="takes no arguments"):
        smemkit.check(two(WAIT)[0], a)
