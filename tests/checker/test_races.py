"""Races on one word, in orders of accesses that hide the race unless the shadow memory keeps the right ones."""

import numpy as np
import pytest
from together import Kernels, Variants

import smemkit

SCHEDULES = ("serial", "lockstep", "random")
SHARED = "__global__ void k(int *y) {{ __shared__ int s; const int t = threadIdx.x, w = t / 32; {} }}"
ZEROED = "if (t == 0) s = 0; __syncthreads(); "

# The body of a kernel with 128 threads and one shared word, and hazards, at least one of which must be found.
RACES = {
    "an atomic after a store": ("if (t == 0) s = 0; atomicAdd(&s, 1);", {"WAW"}),
    "an atomic after a volatile store": ("if (t == 0) *(volatile int *)&s = 0; atomicAdd(&s, 1);", {"WAW"}),
    "an atomic after a load": (ZEROED + "if (t == 0) y[1] = s; atomicAdd(&s, 1);", {"WAR", "RAW"}),
    "atomics of another warp after an ordered one": (
        "if (t == 0) s = 0; __syncwarp(); atomicAdd(&s, 1);",
        {"WAW"},
    ),
    "a load ordered after the last atomics only": (
        ZEROED + "atomicAdd(&s, 1); __syncwarp(); if (t == 96) y[0] = s;",
        {"RAW"},
    ),
    "a load of a third warp": (
        ZEROED
        + 'if (w < 3) y[t] = s; if (w != 2) asm volatile("bar.sync 1, 96;" ::: "memory"); if (t == 96) s = 5;',
        {"WAR"},
    ),
    "a load before an ordered atomic": (
        ZEROED + "if (t == 32) { y[0] = s; atomicAdd(&s, 1); } if (t == 96) atomicAdd(&s, 1);",
        {"WAR", "RAW"},
    ),
    "a byte of a word": (
        "char *c = (char *)&s; if (t == 0) s = 0; __syncthreads(); if (w < 3) y[t] = c[1]; if (t == 96) s = 1;",
        {"WAR", "RAW"},
    ),
}
RIGHT = {
    "a barrier before the atomics": ZEROED + "atomicAdd(&s, 1); __syncthreads(); if (t == 0) *y = s;",
    "a named barrier for all readers": ZEROED
    + 'if (w < 3) y[t] = s; asm volatile("bar.sync 1, 128;" ::: "memory"); if (t == 96) s = 5;',
    "a store after atomics and loads": ZEROED
    + "atomicAdd(&s, 1); __syncthreads(); y[t] = s; __syncthreads(); if (t == 5) s = 0;",
    "a word per warp": "__shared__ int a[4]; if (t % 32 == 0) a[w] = 0; __syncwarp(); atomicAdd(&a[w], 1);"
    "__syncwarp(); y[t] = a[w];",
}
ON_ONE_WORD = Variants("k")
for body in (*(body for body, _ in RACES.values()), *RIGHT.values()):
    ON_ONE_WORD.add(SHARED.format(body))
KERNELS = Kernels()


@pytest.fixture
def workers():
    before = smemkit.get_num_threads()
    yield smemkit.set_num_threads
    smemkit.set_num_threads(before)


def hazards(kernel, grid, block, schedule):
    report = smemkit.check(kernel[grid, block], np.zeros(8192, np.int32), schedule=schedule)
    assert all(fault.kind == "race" for fault in report.faults), report
    return {fault.hazard for fault in report.faults}


@pytest.mark.parametrize("name", RACES)
@pytest.mark.covering(most=5)
def test_a_race_is_found_under_each_schedule(name):
    body, expected = RACES[name]
    for schedule in SCHEDULES:
        found = hazards(ON_ONE_WORD[SHARED.format(body)], 1, 128, schedule)
        assert found & expected, schedule


@pytest.mark.parametrize("name", RIGHT)
def test_ordered_accesses_are_not_a_race(name):
    for schedule in SCHEDULES:
        assert not hazards(ON_ONE_WORD[SHARED.format(RIGHT[name])], 1, 128, schedule), schedule


KERNELS.add("""
__global__ void store_and_atomics(int *y)
{
    if (blockIdx.x + threadIdx.x == 0)
        *y = 0;
    atomicAdd(y, 1);
}
""")


@pytest.mark.parametrize(("grid", "block"), [(1, 64), (4, 32)])
def test_an_atomic_after_a_store_in_global_memory(grid, block):
    for schedule in SCHEDULES:
        assert hazards(KERNELS["store_and_atomics"], grid, block, schedule) == {"WAW"}


KERNELS.add("""
__global__ void many_warps(int *y)
{
    int x = y[0];
    atomicAdd(&y[20], 1);
    if (blockIdx.x == 99 && threadIdx.x == x)
        y[0] = 1;
}
""")


def test_many_warps_access_one_word():
    """More accesses to a word of global memory than the shadow memory keeps: those that it keeps show the race."""
    assert "WAR" in hazards(KERNELS["many_warps"], 100, 64, "serial")


KERNELS.add("""
__global__ void lock(int *y)
{
    if (threadIdx.x != 0)
        return;
    while (atomicCAS(&y[1], 0, 1) != 0)
        ;
    y[0] += 1;
    atomicExch(&y[1], 0);
}
""")


def test_hazards_of_blocks_that_wait_for_each_other_stay():
    """A block that spins takes any number of steps, so they do not order the accesses of two blocks."""
    assert [hazards(KERNELS["lock"], 4, 32, "serial") for _ in range(40)] == [{"WAR"}] * 40


KERNELS.add("""
#include <cuda_pipeline.h>
__global__ void copy_without_wait(int *y)
{
    __shared__ int s[32];
    __pipeline_memcpy_async(&s[threadIdx.x], &y[threadIdx.x], sizeof(int));
    __pipeline_commit();
    y[64 + threadIdx.x] = s[threadIdx.x];
}
""")


def test_async_copy_without_wait_is_reported_at_thread_exit():
    assert hazards(KERNELS["copy_without_wait"], 1, 32, "serial") == {"RAW"}


KERNELS.add("""
__device__ int numbers[2], first, second;
__global__ void passes_on(int *y)
{
    const int t = threadIdx.x, b = blockIdx.x;
    if (b < 2) {
        if (t == 32) {
            numbers[b] = 7;
            __threadfence();
            atomicOr(&first, 1 << b);
        }
        if (t == 0) {
            while (!(atomicOr(&first, 0) >> b & 1))
                ;
            __threadfence_block();
        }
        if (t < 32)
            __syncwarp();
        if (t == 1) {
            __threadfence();
            atomicAdd(&second, 1);
        }
    } else if (t == 0) {
        while (atomicAdd(&second, 0) < 2)
            ;
        __threadfence();
        y[0] = numbers[0] + numbers[1];
    }
}
""")


@pytest.mark.parametrize("threads", [1, 3])
def test_cumulativity_through_block_fences(threads, workers):
    """Thread 32 passes a number to thread 0, whose fence is block-wide; thread 1 passes it on to another block."""
    workers(threads)
    for schedule in SCHEDULES:
        assert not hazards(KERNELS["passes_on"], 3, 64, schedule)


KERNELS.add("""
#include <cuda_pipeline.h>
__global__ void reads_half_of_a_copy(int *y)
{
    __shared__ int s[32];
    __pipeline_memcpy_async(&s[threadIdx.x], &y[threadIdx.x], sizeof(int));
    __pipeline_commit();
    y[64 + threadIdx.x] = ((short *)s)[2 * threadIdx.x];
    __pipeline_wait_prior(0);
}
""")


def test_partial_read_of_async_copy():
    assert hazards(KERNELS["reads_half_of_a_copy"], 1, 1, "serial") == {"RAW"}


KERNELS.add("""
template <int BLOCK> __device__ void load_and_store(int *y)
{
    y[1 + threadIdx.x + blockDim.x * blockIdx.x] = y[0];
    __syncthreads();
    if (blockIdx.x == BLOCK)
        y[0] = 1;
}
__global__ void block_0_stores(int *y) { load_and_store<0>(y); }
__global__ void block_5_stores(int *y) { load_and_store<5>(y); }
__global__ void block_15_stores(int *y) { load_and_store<15>(y); }
""")


def test_many_blocks_load_a_word_that_one_stores():
    """Shadow memory keeps few loads of a word of global memory, but from more blocks than the storing one."""
    for block in (0, 5, 15):
        assert hazards(KERNELS[f"block_{block}_stores"], 16, 8 * 32, "serial") & {"WAR", "RAW"}


def test_a_copy_onto_what_others_still_read():
    """The earlier access is a read: nobody has to wait for a copy, but the copy for the readers."""
    source = """
#include <cuda_pipeline.h>
__global__ void k(const int *x, int *y)
{
    __shared__ int s[2][64];
    const int t = threadIdx.x;
    int sum = 0;
    __pipeline_memcpy_async(&s[0][t], &x[t], sizeof(int));
    __pipeline_commit();
    for (int step = 0; step < 4; step++) {
        __pipeline_memcpy_async(&s[(step + 1) % 2][t], &x[step * 64 + t], sizeof(int));
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        sum += s[step % 2][63 - t];
    }
    __pipeline_wait_prior(0);
    y[t] = sum;
}
"""
    launch = smemkit.Kernel(source)[1, 64]
    (fault,) = smemkit.check(launch, np.zeros(256, np.int32), np.zeros(64, np.int32)).faults
    assert (fault.hazard, fault.line, fault.other_line) == ("WAR", 11, 15)
    assert fault.message.endswith("read at line 15, and nothing orders the two")
    assert "Wait for the copy" not in fault.fix


# ---- loads that nothing may write: ld.global.nc ----

NC = 'asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(v) : "l"(&x[i]))'
NC_PAIR = 'asm volatile("ld.global.nc.v2.f32 {%0, %1}, [%2];" : "=f"(v), "=f"(w) : "l"(&x[i & ~1]))'


NC_LOADS = ["v = __ldg(&x[i])", NC, NC_PAIR]
COHERENT_LOADS = ["v = __ldcg(&x[i])", "v = x[i]", NC.replace(".nc", "")]
ORDERS = ["x[i] = 1; __syncthreads(); LOAD;", "LOAD; __syncthreads(); x[63 - i] = 1;"]
OF_ITS_OWN = "v = __ldg(&x[i]); x[i] = v + 1;"
OF_A_NEIGHBOUR = "v = __ldg(&x[i]); w = __ldg(&x[i ^ 1]); x[i] = v + 1;"
LOADING = "__global__ void k(float *x, float *y) { int i = threadIdx.x; float v = 0, w = 0; %s y[i] = v + w; }"
LOADS = Variants("k")
for body in (
    *(order.replace("LOAD", load) for order in ORDERS for load in NC_LOADS),
    *(ORDERS[0].replace("LOAD", load) for load in COHERENT_LOADS),
    *(OF_ITS_OWN, OF_A_NEIGHBOUR),
):
    LOADS.add(LOADING.replace("%s", body))


def incoherent(body, **options):
    x = np.ones(64, np.float32)
    kernel = LOADS[LOADING.replace("%s", body)]
    return smemkit.check(kernel[1, 64], x, np.zeros(64, np.float32), **options)


@pytest.mark.parametrize("load", NC_LOADS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("schedule", ["serial", "random"])
@pytest.mark.covering(4)
def test_a_non_coherent_load_of_what_the_kernel_writes_is_a_fault_however_it_is_ordered(load, order, schedule):
    report = incoherent(order.replace("LOAD", load), schedule=schedule, seed=1)
    (fault,) = report.faults
    assert fault.kind == "race"
    assert fault.hazard == ("RAW" if order.startswith("x") else "WAR")
    assert not fault.warp_synchronous
    assert "ld.global.nc" in fault.meaning
    assert fault.fix.edits


def test_a_non_coherent_load_before_the_thread_s_own_store_is_a_warning():
    report = incoherent(OF_ITS_OWN)
    (fault,) = report.faults
    assert (fault.kind, fault.hazard, fault.severity) == ("race", "WAR", "warning")
    assert report.ok
    assert not incoherent(OF_A_NEIGHBOUR).ok


@pytest.mark.parametrize("load", COHERENT_LOADS)
def test_coherent_loads_are_none(load):
    assert incoherent(ORDERS[0].replace("LOAD", load)).ok


KERNELS.add("""
__global__ void store(float *x) { x[threadIdx.x] = 1; }
__global__ void load(const float *x, float *y) { y[threadIdx.x] = __ldg(&x[threadIdx.x]); }
""")


def test_a_non_coherent_load_of_what_an_earlier_launch_has_written_is_none():
    x, y = (smemkit.zeros(64, dtype=np.float32, device="cpu") for _ in range(2))
    assert smemkit.check(KERNELS["store"][1, 64], x).ok
    assert smemkit.check(KERNELS["load"][1, 64], x, y).ok
