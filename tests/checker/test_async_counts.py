"""What a report counts of asynchronous work: copies in flight, and idle steps of waits."""

import numpy as np
import pytest
from kernel_files import TESTS, read
from together import Variants

import smemkit

WAITS = r"""#include <cuda/ptx>
namespace ptx = cuda::ptx;
__global__ void k(int *y)
{
    __shared__ uint64_t bar;
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&bar, 1);
        for (int i = 0; i < 3; i++)
            y[i] = ptx::mbarrier_test_wait_parity(&bar, 0);
        ptx::mbarrier_arrive(&bar);
        y[3] = ptx::mbarrier_test_wait_parity(&bar, 0);
    }
}
"""

COPIES = r"""
#include <cuda/ptx>
namespace ptx = cuda::ptx;
__global__ void k(const int *x, int *y)
{
    __shared__ alignas(16) int s[3][64];
    __shared__ uint64_t bar[3];
    if (threadIdx.x == 0) {
        for (int i = 0; i < 3; i++)
            ptx::mbarrier_init(&bar[i], 1);
        for (int i = 0; i < 3; i++) {
            ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar[i], 64 << i);
            ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, s[i], x, 64 << i, &bar[i]);
            INSIDE
        }
        OUTSIDE
        y[0] = s[0][0] + s[1][0] + s[2][0];
    }
}
"""
WAIT = "while (!ptx::mbarrier_try_wait_parity(&bar[i], 0)) {}"
WAIT_FOR_EACH = COPIES.replace("INSIDE", WAIT).replace("OUTSIDE", "")
WAIT_FOR_ALL = COPIES.replace("INSIDE", "").replace("OUTSIDE", f"for (int i = 0; i < 3; i++) {WAIT}")
COPYING = Variants("k")
COPYING.add(WAIT_FOR_EACH)
COPYING.add(WAIT_FOR_ALL)


def checked(kernel, *args, **options):
    with smemkit.Device("cpu"):
        (launch,) = smemkit.check(kernel[1, 32], *args, **options).launches
    return launch


def test_idle_steps_are_the_tries_that_fail():
    launch = checked(smemkit.Kernel(WAITS), np.zeros(4, np.int32))
    assert [(wait.line, wait.passed, wait.idle) for wait in launch.waits] == [(9, 0, 3), (11, 1, 0)]
    assert launch.waits[0].text.startswith("y[i] =")
    assert launch.copies_in_flight == 0


def test_the_waits_of_many_lines():
    lines = "\n".join(["while (!ptx::mbarrier_try_wait_parity(&bar, 1)) {}"] * 200)
    text = f"""#include <cuda/ptx>
    #include <cstdint>
    namespace ptx = cuda::ptx;
    __global__ void waits()
    {{
        __shared__ uint64_t bar;
        if (threadIdx.x == 0)
            ptx::mbarrier_init(&bar, 1);
        __syncthreads();
        {lines}
    }}"""
    assert [(wait.passed, wait.idle) for wait in checked(smemkit.Kernel(text)).waits] == [(32, 0)] * 200


@pytest.mark.parametrize("completion", ["early", "late"])
@pytest.mark.parametrize(
    ("text", "copies", "number"), [(WAIT_FOR_EACH, 1, 256), (WAIT_FOR_ALL, 3, 448)], ids=["each", "all"]
)
def test_copies_in_flight_are_those_not_waited_for(text, copies, number, completion):
    launch = checked(COPYING[text], np.zeros(64, np.int32), np.zeros(1, np.int32), completion=completion)
    assert not launch.faults
    assert (launch.copies_in_flight, launch.bytes_in_flight) == (copies, number)
    assert sum(wait.passed for wait in launch.waits) == 3


def test_stages_of_a_ring_are_filled_ahead():
    case = read(TESTS / "right" / "bulk_ring.cu")
    report = case.check()
    (launch,) = report.launches
    assert (launch.copies_in_flight, launch.bytes_in_flight) == (3, 3 * 256 * 4)
    text = " ".join(str(report).split())  # lines are wrapped where a path is long
    assert "at most 3 asynchronous copies of 3,072 bytes in flight per block" in text
    assert "waits passed" in text
    page = report._repr_html_()
    assert "at most 3 asynchronous copies of 3,072 bytes in flight per block" in page
    assert "waits passed" in page
    found = report.to_dict()["launches"][0]
    assert found["bytes_in_flight"] == 3072
    assert set(found["waits"][0]) == {"file", "line", "text", "passed", "idle"}
    assert sum(wait["passed"] for wait in found["waits"]) == 2 * (16 + 16 * 128)


@pytest.mark.parametrize(("name", "stores"), [("bulk_ring", 8), ("cluster_reduction", 66)])
def test_what_an_mbarrier_does_is_no_load_and_no_store(name, stores):
    report = read(TESTS / "right" / f"{name}.cu").check(blocks="all")  # the numbers are Nsight Compute's
    assert (
        sum(line.requests for line in report.lines if (line.space, line.access) == ("shared", "store")) == stores
    )
    uses = [line for line in report.lines if (line.space, line.access) == ("shared", "atomic")]
    assert all("mbarrier" in line.text or "arrive" in line.text or "wait" in line.text for line in uses), report


QUEUES = """
#include <cuda_pipeline.h>
__global__ void k(const float4 *x, float4 *y)
{
    __shared__ float4 s[3][64];
    for (int i = 0; i < 3; i++) {
        __pipeline_memcpy_async(&s[i][threadIdx.x], &x[threadIdx.x], 16);
        __pipeline_commit();
        WAIT
    }
    __pipeline_wait_prior(0);
    y[threadIdx.x] = s[2][threadIdx.x];
}
"""


STAGES = {"": 3, "__pipeline_wait_prior(1);": 2, "__pipeline_wait_prior(0);": 1}
QUEUEING = Variants("k")
for wait in STAGES:
    QUEUEING.add(QUEUES.replace("WAIT", wait))


@pytest.mark.parametrize(("schedule", "seed"), [("serial", 0), ("random", 1)])
@pytest.mark.parametrize("completion", ["early", "late"])
@pytest.mark.parametrize(("wait", "stages"), STAGES.items())
@pytest.mark.covering
def test_copies_of_threads_are_in_flight_until_each_has_waited(wait, stages, completion, schedule, seed):
    kernel = QUEUEING[QUEUES.replace("WAIT", wait)]
    args = np.zeros(256, np.float32), np.zeros(256, np.float32)
    (launch,) = smemkit.check(kernel[1, 64], *args, completion=completion, schedule=schedule, seed=seed).launches
    assert not launch.faults
    assert (launch.copies_in_flight, launch.bytes_in_flight) == (64 * stages, 64 * 16 * stages)
