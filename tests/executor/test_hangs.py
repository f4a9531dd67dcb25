"""Endless waits are reported at once, and finite ones are not: what the threads do decides, not the time."""

import numpy as np
import pytest
from tiers import times
from together import Variants

import smemkit

SCHEDULES = ("serial", "lockstep", "random")

# name: grid, block, source
ENDLESS_WAITS = {
    "a flag that nobody sets": (2, 32, "while (atomicAdd(&x[0], 0) == 0);"),
    "a lock that is kept": (1, 64, "while (atomicCAS(&x[0], 0, 1) != 0); x[1 + threadIdx.x] = 1;"),
    "half of a warp": (1, 32, "if (threadIdx.x < 16) while (atomicAdd(&x[0], 0) == 0); __syncthreads();"),
}
ENDLESS_COLLECTIVES = {
    "a vote on a flag": (2, 64, "while (!__any_sync(~0u, atomicAdd(&x[0], 0)));"),
    "a vote on a plain load": (2, 32, "while (!__any_sync(~0u, *(volatile int *)&x[0]));"),
    "two collectives": (
        1,
        48,
        "unsigned mask = __activemask(); int v = threadIdx.x; do v = __shfl_xor_sync(mask, v, 1);"
        "while (__ballot_sync(mask, atomicAdd(&x[0], 0)) == 0); x[1] = v;",
    ),
    "each half of a warp": (
        1,
        32,
        "unsigned mask = threadIdx.x < 16 ? 0xffff : 0xffff0000; while (!__any_sync(mask, atomicAdd(&x[0], 0)));",
    ),
    "a flag after a shuffle": (
        1,
        64,
        "int v = __shfl_down_sync(~0u, threadIdx.x, 1); while (atomicAdd(&x[0], 0) == 0); x[1] = v;",
    ),
}
VOLATILE = "__global__ void wait(int *x) { while (*(volatile int *)x == 0); }"
GRID_BARRIER = """
__global__ void wait(int *x)
{
    if (threadIdx.x == 0) {
        atomicAdd(x, 1);
        while (atomicAdd(x, 0) < gridDim.x)
            ;
    }
    __syncthreads();
}
"""
FINITE_WAITS = {
    "a counter in a register": (2, 2, "int n = 0; while (atomicAdd(&x[0], 0) == 0 && n++ < 50000);"),
    "a counter in global memory": (
        1,
        32,
        "while (atomicAdd(&x[0], 0) == 0) if (x[1 + threadIdx.x]++ == 5000) atomicExch(&x[0], 1);",
    ),
    "a counter in shared memory": (
        1,
        32,
        "__shared__ int n[32]; n[threadIdx.x] = 0;"
        "while (atomicAdd(&x[0], 0) == 0) if (n[threadIdx.x]++ == 5000) atomicExch(&x[0], 1);",
    ),
    "a variable": (
        1,
        32,
        "while (atomicAdd(&x[0], 0) == 0) if (threadIdx.x == 7 && n++ == 20000) atomicExch(&x[0], 1);",
    ),
    "a clock": (2, 2, "auto t = clock64(); while (atomicAdd(&x[0], 0) == 0 && clock64() - t < 600000000);"),
    "the clock of C": (2, 2, "auto t = clock(); while (atomicAdd(&x[0], 0) == 0 && clock() - t < 600000000);"),
    "a clock and a sleep": (2, 2, "clock_t t = clock(); while (clock() - t < 600000000) __nanosleep(100);"),
    "a vote that one lane ends": (
        2,
        64,
        "int n = 0; while (!__any_sync(~0u, threadIdx.x % 32 == 0 && n > 100000)) n++; x[1 + threadIdx.x] = n;",
    ),
    "a vote on a flag and a counter": (
        2,
        32,
        "for (int n = 0; !__any_sync(~0u, atomicAdd(&x[0], 0) || (threadIdx.x == 3 && n > 100000)); n++);",
    ),
    "a vote of lanes that count differently": (
        1,
        32,
        "int n = 0, m = threadIdx.x ? 997 : 101; while (!__all_sync(~0u, n == m - 1)) n = n + 1 == m ? 0 : n + 1;",
    ),
    "a shuffled counter": (
        1,
        32,
        "int n = 0; while (__shfl_sync(~0u, n, 7) < 200000 && !atomicAdd(&x[0], 0)) n += threadIdx.x == 7;",
    ),
    "a slow block": (
        2,
        1,
        "if (blockIdx.x == 1) while (atomicAdd(&x[0], 0) == 0); else {"
        "float a = x[1]; for (int i = 0; i < 300000; i++) a = a / 2 + x[2]; if (a > -1) atomicExch(&x[0], 1); }",
    ),
    "a lock that one block keeps taking": (
        2,
        1,
        "for (int n = 0; n < 300;) { while (atomicCAS(&x[0], 0, 1)); __threadfence();"
        "if (blockIdx.x == 0) n = ++x[1]; else n = x[1]; __threadfence(); atomicExch(&x[0], 0); }",
    ),
}

# a lane whose log is full while the others wait for it in a loop at a lower address, and the endless twin
WAITS_FOR_A_LANE = """
__global__ void wait(int *x)
{
    __shared__ int arrived;
    if (threadIdx.x == 0)
        arrived = 0;
    __syncwarp();
    if (threadIdx.x != 5) {
        while (atomicAdd(&arrived, 0) == 0)
            ;
    } else {
        int sum = 0;
        for (int i = 0; i < 3000; i++)
            sum += x[i % 256];
        x[0] = sum;
        atomicExch(&arrived, STORED);
    }
}
"""


@pytest.fixture(autouse=True)
def no_watchdog(monkeypatch):
    """Disables the watchdog, and lets two blocks run at once."""
    monkeypatch.setenv("SMEMKIT_WATCHDOG", "0")
    before = smemkit.get_num_threads()
    smemkit.set_num_threads(2)
    yield
    smemkit.set_num_threads(before)


def wait(body):
    return smemkit.Kernel(f"__device__ int n; __global__ void wait(int *x) {{ {body} }}")


ENDLESS = Variants("wait")
for _, _, body in (*ENDLESS_WAITS.values(), *ENDLESS_COLLECTIVES.values()):
    ENDLESS.add(f"__global__ void wait(int *x) {{ {body} }}")


def endless_wait(body):
    return ENDLESS[f"__global__ void wait(int *x) {{ {body} }}"]


def hangs(launch, schedule):
    report = smemkit.check(launch, np.zeros(256, np.int32), schedule=schedule)
    return [fault.message for fault in report.faults if fault.kind == "hang"]


@pytest.mark.parametrize(
    "schedule",
    ["serial", pytest.param("lockstep", marks=pytest.mark.slow), pytest.param("random", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("name", ENDLESS_WAITS)
@pytest.mark.covering(most=1)
def test_check_reports_endless_wait(name, schedule):
    grid, block, body = ENDLESS_WAITS[name]
    messages = hangs(endless_wait(body)[grid, block], schedule)
    assert any("repeat the same reads forever" in message for message in messages)


@pytest.mark.parametrize("name", ENDLESS_WAITS)
def test_launch_reports_endless_wait(name):
    grid, block, body = ENDLESS_WAITS[name]
    launch = endless_wait(body)[grid, block]
    with smemkit.Device("cpu"), pytest.raises(smemkit.Error, match="repeat the same reads forever"):
        launch(np.zeros(256, np.int32))


@pytest.mark.parametrize("name", ENDLESS_COLLECTIVES)
@pytest.mark.covering(most=1)
def test_endless_collectives_are_reported(name):
    grid, block, body = ENDLESS_COLLECTIVES[name]
    launch = endless_wait(body)[grid, block]
    with smemkit.Device("cpu"), pytest.raises(smemkit.Error, match="repeat the same reads forever"):
        launch(np.zeros(256, np.int32))
    assert any("repeat the same reads forever" in message for message in hangs(launch, "serial"))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_check_reports_endless_volatile_wait(schedule):
    assert hangs(smemkit.Kernel(VOLATILE)[2, 32], schedule)


def test_grid_barrier_with_non_resident_blocks():
    launch, message = (
        smemkit.Kernel(GRID_BARRIER)[16, 64],
        "14 blocks have not begun, because this device runs 2 at once",
    )
    assert any(message in hang for hang in hangs(launch, "serial"))
    with smemkit.Device("cpu"), pytest.raises(smemkit.Error, match=message):
        launch(np.zeros(1, np.int32))
    assert not hangs(smemkit.Kernel(GRID_BARRIER)[2, 64], "serial")


@pytest.mark.parametrize("name", FINITE_WAITS)
@pytest.mark.covering(most=2)
def test_finite_wait_is_not_reported(name):
    grid, block, body = FINITE_WAITS[name]
    launch = wait(body)[grid, block]
    for schedule in times(SCHEDULES, SCHEDULES[:1]):
        assert not hangs(launch, schedule)
    with smemkit.Device("cpu"):
        launch(np.zeros(256, np.int32))


def test_a_counter_that_only_one_lane_has_is_progress():
    """The other lanes repeat themselves; half a second is longer than an endless wait takes to be found."""
    with smemkit.Device("cpu"):
        wait("int n = 0; while (!__any_sync(~0u, threadIdx.x == 7 && ++n > 700000));")[1, 32](
            np.zeros(1, np.int32)
        )


IN_THE_C_LIBRARY = """
extern "C" __device__ int pthread_mutex_lock(void *mutex);
extern "C" __device__ int pthread_mutex_timedlock(void *mutex, const void *until);
__device__ long mutex[8];
__device__ int step;
__global__ void k(int *x)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 2;
    pthread_mutex_lock(mutex);
    step = 1;
    pthread_mutex_timedlock(mutex, &until); // longer than the watchdog's limit
    step = 2;
    while (x[0] == 0)
        ;
}
"""


def test_an_abort_waits_until_the_thread_is_in_the_kernel_where_it_holds_no_lock(monkeypatch):
    monkeypatch.setenv("SMEMKIT_WATCHDOG", "0.2")
    kernel = smemkit.Kernel(IN_THE_C_LIBRARY)
    with pytest.raises(smemkit.Error, match="time limit exceeded"):
        kernel[1, 1](np.zeros(1, np.int32))
    assert kernel.constants["step"] == 2


@pytest.mark.parametrize("stored", [0, 1])
def test_lanes_wait_for_one_whose_log_is_full(stored):
    launch = smemkit.Kernel(WAITS_FOR_A_LANE.replace("STORED", str(stored)))[1, 32]
    messages = hangs(launch, "serial")
    assert len(messages) == (stored == 0)
    assert all("repeat the same reads forever" in message for message in messages)
