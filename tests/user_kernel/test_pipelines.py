"""cuda::pipeline and cuda::barrier: every way to make one gives NumPy's numbers, and a check is silent."""

import re
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from together import Kernels

import smemkit

pytestmark = pytest.mark.usefixtures("compiled_when_used")

TESTS = Path(__file__).resolve().parents[1]
STEPS = 5

# each step's row is added, in reverse order; the first warp copies where there are roles
SUMS = """
#include <cooperative_groups.h>
#include <cuda/pipeline>
namespace cg = cooperative_groups;
__global__ void NAME(const int *x, int *y, int steps)
{
    __shared__ alignas(16) int s[2][64];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    const auto block = cg::this_thread_block();
    const bool first = threadIdx.x < 32;
    auto pipe = cuda::make_pipeline(MADE);
    int sum = 0;
    for (int step = 0; step < steps; step++) {
        if (PRODUCES) {
            pipe.producer_acquire();
            COPY
            pipe.producer_commit();
        }
        if (CONSUMES) {
            pipe.consumer_wait();
            for (int i = threadIdx.x % 32; i < 64; i += 32)
                sum += s[step % 2][63 - i] * (i + 1);
            pipe.consumer_release();
        }
    }
    pipe.quit();
    if (!first)
        y[threadIdx.x - 32] = sum;
}
"""
BLOCK_COPY = "cuda::memcpy_async(block, s[step % 2], &x[64 * step], sizeof s[0], pipe);"
WARP_COPY = (
    "cuda::memcpy_async(cg::tiled_partition<32>(block), s[step % 2], &x[64 * step], "
    "cuda::aligned_size_t<16>(sizeof s[0]), pipe);"
)
THREAD_COPY = (
    "for (int i = threadIdx.x; i < 64; i += 32) cuda::memcpy_async(&s[step % 2][i], &x[64 * step + i], "
    "sizeof(int), pipe);"
)
ROLE = "block, &state, first ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer"
PIPELINES = {
    "all_threads": ("block, &state", "true", "true", BLOCK_COPY),
    "number_of_producers": ("block, &state, 32", "first", "!first", WARP_COPY),
    "roles": (ROLE, "first", "!first", THREAD_COPY),
}


KERNELS = Kernels()
for spelling, texts in PIPELINES.items():
    source = SUMS.replace("NAME", spelling)
    for name, text in zip(("MADE", "PRODUCES", "CONSUMES", "COPY"), texts, strict=True):
        source = source.replace(name, text)
    KERNELS.add(source)


def kernel(source):
    with smemkit.Device("cpu"):
        return smemkit.Kernel(source)


@pytest.mark.parametrize("spelling", PIPELINES)
@pytest.mark.covering(1, most=2)
def test_pipelines_of_a_block(spelling):
    x, y = np.arange(STEPS * 64, dtype=np.int32).reshape(STEPS, 64), np.zeros(32, np.int32)
    launch = KERNELS[spelling][1, 64]
    launch(x, y, STEPS)
    assert_array_equal(y, (x.sum(0)[::-1] * np.arange(1, 65)).reshape(2, 32).sum(0))
    for schedule in ("serial", "random", "lockstep"):
        report = smemkit.check(launch, x, y, STEPS, schedule=schedule)
        assert report.ok, report


REVERSED = """
#include <cuda/pipeline>
__global__ void NAME(const float *x, float *y)
{
    __shared__ float s[64];
    __shared__ cuda::barrier<cuda::thread_scope_block> b;
    if (threadIdx.x == 0)
        init(&b, 64);
    __syncthreads();
    cuda::pipeline<cuda::thread_scope_thread> pipe = cuda::make_pipeline();
    cuda::memcpy_async(&s[threadIdx.x], &x[threadIdx.x], sizeof(float), pipe);
    cuda::pipeline_producer_commit(pipe, b);
    b.USE();
    y[threadIdx.x] = s[63 - threadIdx.x];
}
"""
KERNELS.add(REVERSED.replace("NAME", "waits").replace("USE", "arrive_and_wait"))
KERNELS.add(REVERSED.replace("NAME", "does_not_wait").replace("USE", "arrive"))


def test_a_thread_scope_pipeline_arrives_at_a_barrier():
    x, y = np.random.default_rng(5).random(64, np.float32), np.zeros(64, np.float32)
    launch = KERNELS["waits"][1, 64]
    launch(x, y)
    assert_array_equal(y, x[::-1])
    report = smemkit.check(launch, x, y)
    assert report.ok, report
    report = smemkit.check(KERNELS["does_not_wait"][1, 64], x, y)
    assert not report.ok
    assert {fault.kind for fault in report.faults} == {"race"}


TURNS = """
#include <cuda/barrier>
__global__ void NAME(int *x, int phases)
{
    __shared__ int s[64];
    __shared__ cuda::barrier<cuda::thread_scope_block> b;
    if (threadIdx.x == 0)
        init(&b, blockDim.x);
    __syncthreads();
    int value = x[threadIdx.x];
    for (int phase = 0; phase < 2 * phases; phase += 2) {
        s[threadIdx.x] = value;
        b.arrive();
        WAIT
        value = s[(threadIdx.x + 1) % 64];
        b.wait(b.arrive());
    }
    x[threadIdx.x] = value;
}
"""
KERNELS.add(TURNS.replace("NAME", "wait_parity").replace("WAIT", "b.wait_parity(phase & 1);"))
KERNELS.add(TURNS.replace("NAME", "try_wait_parity").replace("WAIT", "while (!b.try_wait_parity(phase & 1)) {}"))


@pytest.mark.parametrize("name", ["wait_parity", "try_wait_parity"])
def test_barriers_are_waited_for_by_parity(name):
    x = np.arange(64, dtype=np.int32)
    launch = KERNELS[name][1, 64]
    launch(x, 3)
    assert_array_equal(x, np.roll(np.arange(64), -3))
    report = smemkit.check(launch, x, 3)
    assert report.ok, report


KERNELS.add("""
#include <cuda/barrier>
__global__ void not_seen(int *x)
{
    __shared__ cuda::barrier<cuda::thread_scope_block> b;
    if (threadIdx.x == 0)
        init(&b, 64);
    b.arrive_and_wait();
    x[threadIdx.x] = 1;
}
""")


def test_a_barrier_that_others_have_not_seen_initialised_is_a_race():
    report = smemkit.check(KERNELS["not_seen"][1, 64], np.zeros(64, np.int32))
    assert not report.ok
    assert any(fault.kind == "race" and fault.variable.startswith("b") for fault in report.faults), report


def test_the_fixes_of_pipelines_name_their_functions():
    expected = {
        "pipeline_no_wait": r"pipe\.consumer_wait\(\) in every thread that uses the stage, before line 24",
        "pipeline_early_release": r"pipe\.consumer_release\(\) only after line 29 has read it",
    }
    for name, pattern in expected.items():
        x, y = np.zeros((6, 64), np.float32), np.zeros(64, np.float32)
        launch = kernel((TESTS / "faulty" / f"{name}.cu").read_text())[1, 64]
        assert any(re.search(pattern, fault.fix) for fault in smemkit.check(launch, x, y, 4).faults)


@pytest.mark.usefixtures("compiled_at_once")
def test_pipelines_of_a_grid_are_refused_by_name():
    with pytest.raises(smemkit.CompileError, match="only pipelines inside a block run on the CPU device"):
        kernel("""
#include <cuda/pipeline>
__device__ cuda::pipeline_shared_state<cuda::thread_scope_device, 2> state;
__global__ void k(int *x) { *x = sizeof state; }
""")
