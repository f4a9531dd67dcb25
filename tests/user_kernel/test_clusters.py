"""Clusters of blocks on the CPU device: barriers, shared memory of others, mbarriers and copies between blocks."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from together import Variants, compile_errors, together

import smemkit

pytestmark = pytest.mark.usefixtures("compiled_when_used")

COMMON = Path(__file__).resolve().parents[2] / "kernels" / "common"


def kernel(source):
    with smemkit.Device("cpu"):
        return smemkit.Kernel(source, options=[f"-I{COMMON}"])


SHAPES = """
#include <cooperative_groups.h>
#include <cuda/ptx>
namespace cg = cooperative_groups;
__global__ void k(int *x)
{
    const cg::cluster_group cluster = cg::this_cluster();
    const int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    unsigned rank, count, cx, nx, ix;
    asm("mov.u32 %0, %%cluster_ctarank; mov.u32 %1, %%cluster_nctarank; mov.u32 %2, %%clusterid.x;"
        " mov.u32 %3, %%nclusterid.x; mov.u32 %4, %%cluster_ctaid.y;"
        : "=r"(rank), "=r"(count), "=r"(cx), "=r"(nx), "=r"(ix));
    if (threadIdx.x == 0) {
        int *own = x + 8 * block;
        own[0] = rank, own[1] = count, own[2] = cx, own[3] = nx, own[4] = ix;
        own[5] = cluster.block_rank() == rank && cluster.num_blocks() == count && cluster.dim_blocks().y == 2 &&
                 cuda::ptx::get_sreg_cluster_ctarank() == rank && cuda::ptx::get_sreg_clusterid_x() == cx;
        own[6] = cluster.thread_rank(), own[7] = cluster.num_threads();
    }
}
"""


def test_where_a_block_is():
    x = np.zeros((3, 4, 6, 8), np.int32)
    kernel(SHAPES)[(6, 4, 3), 32, 0, None, (3, 2)](x)
    _, y, column = np.indices((3, 4, 6))
    assert_array_equal(x[..., 0], column % 3 + 3 * (y % 2))
    assert (x[..., 1] == 6).all()
    assert_array_equal(x[..., 2], column // 3)
    assert (x[..., 3] == 2).all()
    assert_array_equal(x[..., 4], y % 2)
    assert (x[..., 5] == 1).all()
    assert_array_equal(x[..., 6], 32 * x[..., 0])
    assert (x[..., 7] == 192).all()


RING = """
#include <cooperative_groups.h>
#include <cuda/ptx>
namespace cg = cooperative_groups;
__device__ int other_way(int *s, int rank, int i)
{
    unsigned at = (unsigned)__cvta_generic_to_shared(s + i), there;
    int value;
    asm volatile("mapa.shared::cluster.u32 %1, %2, %3; ld.shared::cluster.s32 %0, [%1];"
                 : "=r"(value), "=r"(there) : "r"(at), "r"(rank) : "memory");
    return value;
}
__global__ void CLUSTER k(const int *x, int *y, int *sum)
{
    __shared__ int first[3], own[64];
    extern __shared__ int more[];
    const cg::cluster_group cluster = cg::this_cluster();
    const int t = threadIdx.x, rank = cluster.block_rank(), next = (rank + 1) % cluster.num_blocks();
    const int i = blockIdx.x * 64 + t;
    if (rank % 2)
        first[t % 3] = 1; // the blocks meet their variables in different orders
    own[t] = x[i];
    more[t] = 10 * x[i];
    SYNC
    y[2 * i] = other_way(own, next, 63 - t);
    y[2 * i + 1] = *cluster.map_shared_rank(&more[t], next);
    if (t == 0 && cluster.query_shared_rank(cluster.map_shared_rank(own, next)) != next)
        y[2 * i] = -1;
    SYNC
    atomicAdd(cluster.map_shared_rank(&own[t], 0), rank + 1);
    SYNC
    if (rank == 0)
        sum[i] = own[t];
}
"""
SYNCS = {
    "group": "cluster.sync();",
    "tokens": "{ auto token = cluster.barrier_arrive(); cluster.barrier_wait(std::move(token)); }",
    "inline": 'asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;");',
    "split": 'asm volatile("barrier.cluster.arrive;"); __syncthreads(); asm volatile("barrier.cluster.wait;");',
    "cuda::ptx": "cuda::ptx::barrier_cluster_arrive(); cuda::ptx::barrier_cluster_wait();",
    "intrinsics": "__cluster_barrier_arrive(); __cluster_barrier_wait();",
}


def ring(sync, cluster=""):
    return RING.replace("CLUSTER", cluster).replace("SYNC", sync)


RINGS = Variants("k")
for barrier in (*SYNCS.values(), "__syncthreads();"):
    RINGS.add(ring(barrier))
RING_OF_TWO = RINGS.add(ring(SYNCS["group"], "__cluster_dims__(2, 1, 1)"))


@pytest.mark.parametrize("sync", SYNCS)
@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
@pytest.mark.covering(most=7)
def test_shared_memory_of_others(sync, size):
    text = ring(SYNCS[sync] if size > 1 else "__syncthreads();")  # a cluster of one has no barrier of its own here
    blocks = 2 * size
    x = np.random.default_rng(size).integers(0, 1000, (blocks, 64)).astype(np.int32)
    y, total = np.zeros((blocks, 64, 2), np.int32), np.zeros((blocks, 64), np.int32)
    RINGS[text][blocks, 64, 256, None, size](x, y, total)
    rolled = np.roll(x.reshape(2, size, 64), -1, axis=1).reshape(blocks, 64)
    assert_array_equal(y[..., 0], rolled[:, ::-1])
    assert_array_equal(y[..., 1], 10 * rolled)
    assert_array_equal(total[::size], x[::size] + size * (size + 1) // 2)


def test_cluster_dims_of_the_kernel():
    x, y, total = np.ones((4, 64), np.int32), np.zeros((4, 64, 2), np.int32), np.zeros((4, 64), np.int32)
    RINGS[RING_OF_TWO][4, 64, 256](x, y, total)
    assert (total[::2] == 4).all()
    for grid, cluster, message in (
        (4, 4, r"cluster: expected \(2, 1, 1\), the kernel's __cluster_dims__, got \(4, 1, 1\)"),
        (3, None, r"cluster: expected a divisor of the grid \(3, 1, 1\)"),
    ):
        with pytest.raises(ValueError, match=message):
            RINGS[RING_OF_TWO][grid, 64, 256, None, cluster](x, y, total)


WIDTH = """
#define PAIR(x) (x)
constexpr int TWO = 2;
namespace inner {
constexpr int FOUR = 4;
__global__ void __cluster_dims__(DIMS) k(int *x)
{
    unsigned count;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(count));
    x[blockIdx.x] = count;
}
"""
SIZE_OF_DIMS = {"2": 2, "TWO": 2, "FOUR, 1": 4, "(FOUR + TWO) / 3": 2, "PAIR(TWO), 1, 1": 2}


@cache
def widths():
    return kernel(together("k", [WIDTH.replace("DIMS", dims) for dims in SIZE_OF_DIMS]) + "}")


@pytest.mark.parametrize(("dims", "size"), SIZE_OF_DIMS.items())
@pytest.mark.covering(most=3)
def test_cluster_dims_may_be_names(dims, size):
    x = np.zeros(8, np.int32)
    named = widths()[f"inner::k{list(SIZE_OF_DIMS).index(dims)}"]
    named[8, 1](x)
    assert (x == size).all()
    report = smemkit.check(named[8, 1], x)
    assert report.launches[0].cluster == (size, 1, 1)
    assert f"cluster {size}" in str(report)


def test_cluster_dims_of_a_template():
    x = np.zeros(8, np.int32)
    text = WIDTH.replace("__global__", "template <int N> __global__") + "}"
    kernel(text.replace("DIMS", "TWO, 1, 1"))["inner::k<3>"][8, 1](x)
    assert (x == 2).all()
    with pytest.raises(ValueError, match=r"no parameters of its template in __cluster_dims__, got N"):
        kernel(text.replace("DIMS", "N"))["inner::k<2>"][8, 1](x)


def test_a_report_of_a_launch_without_clusters_names_none():
    plain = smemkit.Kernel("__global__ void k(int *x) { *x = 1; }")
    assert smemkit.check(plain[1, 1], np.zeros(1, np.int32)).launches[0].cluster is None


@pytest.mark.parametrize(
    ("cluster", "error", "message"),
    [
        (17, ValueError, "cluster: expected a number from 1 to 16, got 17"),
        ((8, 4), ValueError, "cluster: expected at most 16 blocks"),
        (3, ValueError, "cluster: expected a divisor of the grid"),
        ("2", TypeError, "cluster: expected int"),
    ],
)
def test_clusters_that_cannot_be(cluster, error, message):
    with pytest.raises(error, match=message):
        kernel("__global__ void k(int *x) {}")[(8, 4), 32, 0, None, cluster](np.zeros(1, np.int32))


REMOTE = """
#include "ptx/cp_async_bulk.cuh"
#include "ptx/mbarrier.cuh"
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__device__ unsigned window(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ unsigned mapped(const void *p, int rank)
{
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(window(p)), "r"(rank));
    return there;
}
__global__ void k(const float *x, float *y)
{
    __shared__ alignas(128) float s[64], got[64];
    __shared__ uint64_t full;
    const cg::cluster_group cluster = cg::this_cluster();
    const int t = threadIdx.x, rank = cluster.block_rank(), size = cluster.num_blocks();
    if (t == 0)
        ptx::mbarrier_init(&full, COUNT);
    s[t] = x[blockIdx.x * 64 + t];
    ptx::fence_proxy_async();
    cluster.sync();
    BODY
    while (!ptx::mbarrier_test_wait_parity(&full, 0)) {}
    y[blockIdx.x * 64 + t] = got[t];
    cluster.sync();
}
"""
ARRIVE = """
    if (t < 2)
        asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];"
                     :: "r"(mapped(&full, (rank + 1) % size)) : "memory");
    got[t] = s[t];
"""
COPY = """
    if (t == 0) {
        ptx::mbarrier_arrive_expect_tx(&full, 256);
        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], "
                     "256, [%2];"
                     :: "r"(mapped(got, (rank + 1) % size)), "r"(window(s)), "r"(mapped(&full, (rank + 1) % size))
                     : "memory");
    }
"""
MULTICAST = """
    if (t == 0) {
        ptx::mbarrier_arrive_expect_tx(&full, 256);
        if (rank == 1)
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                         "[%0], [%1], 256, [%2], %3;"
                         :: "r"(window(got)), "l"(x), "r"(window(&full)), "h"((unsigned short)MASK) : "memory");
    }
"""


def exchange(body, size, waits=True):
    text = REMOTE.replace("BODY", body).replace("COUNT", "2" if body == ARRIVE else "1")
    text = text.replace("MASK", str(2**size - 1))
    return text if waits else text.replace("while (!ptx::mbarrier_test_wait_parity(&full, 0)) {}", "")


EXCHANGES = [ARRIVE, COPY, MULTICAST]
REMOTES = Variants("k", options=[f"-I{COMMON}"])
for body in EXCHANGES:
    for text in exchange(body, 2), exchange(body, 4), exchange(body, 2, waits=False):
        REMOTES.add(text)


@pytest.mark.parametrize("body", EXCHANGES, ids=["arrive", "copy", "multicast"])
@pytest.mark.parametrize("size", [2, 4])
def test_mbarriers_and_copies_between_blocks(body, size):
    x, y = np.random.default_rng(1).random((8, 64), np.float32), np.zeros((8, 64), np.float32)
    REMOTES[exchange(body, size)][8, 64, 0, None, size](x, y)
    before = np.roll(x.reshape(-1, size, 64), 1, axis=1).reshape(8, 64)
    assert_array_equal(y, {ARRIVE: x, COPY: before, MULTICAST: np.tile(x[0], (8, 1))}[body])


FAULTS = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void k(int *x)
{
    __shared__ int s[32];
    const cg::cluster_group cluster = cg::this_cluster();
    const int rank = cluster.block_rank(), t = threadIdx.x;
    s[t] = rank;
    %s
}
"""


VARIANTS = Variants("k", options=[f"-I{COMMON}"])


def add(*bodies):
    """Has kernels with these bodies compiled with the others of this file. Returns the bodies."""
    for body in bodies:
        VARIANTS.add(FAULTS % body)
    return bodies if len(bodies) > 1 else bodies[0]


FAULTY = [
    ("if (rank) cluster.sync(); else if (t == 0) cluster.barrier_arrive(); if (!rank && !t) "
     "cluster.barrier_arrive();", "of a thread that has arrived already"),
    ("cluster.barrier_wait();", "wait of a thread that has not arrived"),
    ("if (rank == 0) { __syncthreads(); if (t) __syncthreads(); } else cluster.sync();", "barrier divergence"),
    ("x[t] = *cluster.map_shared_rank(s, 2);", "an address in block 2 of a cluster of 2"),
    ("x[t] = *cluster.map_shared_rank(x, 1);", "of an address outside shared memory"),
    ("int *there = cluster.map_shared_rank(s, 1); if (rank == 0) { for (int i = 0; i < 100000; i++) "
     "__nanosleep(1); x[t] = there[t]; }", "illegal access"),
    ("if (rank == 0) { for (int i = 0; i < 100000; i++) __nanosleep(1); "
     "x[t] = *cluster.map_shared_rank(s, 1); }", "illegal access"),
    ('asm volatile("trap;");', "trap"),
]  # fmt: skip


add(*(body for body, _ in FAULTY))
ONE_MORE = add("cluster.sync(); if (rank) x[t] = *cluster.map_shared_rank(&s[t], 0) + 1; cluster.sync();")


@pytest.mark.parametrize(("body", "message"), FAULTY)
def test_faults(body, message):
    launch = VARIANTS[FAULTS % body][4, 32, 0, None, 2]
    with pytest.raises(smemkit.Error, match=message):
        launch(np.zeros(64, np.int32))
    x = np.zeros(32, np.int32)  # the next launch works
    VARIANTS[FAULTS % ONE_MORE][2, 32, 0, None, 2](x)
    assert (x == 1).all()
    with pytest.raises(smemkit.Error, match=message):
        launch(np.zeros(64, np.int32))
    kernel("__global__ void k(int *x) { x[blockIdx.x] = 2; }")[32, 1](x)  # nor is one without clusters resumed
    assert (x == 2).all()


SOME_EXIT = add(
    "if (rank == 1 && t < 16) return; cluster.sync(); x[32 * rank + t] = cluster.map_shared_rank(s, 1)[31]; "
    "cluster.sync();"
)


def test_threads_that_have_exited_are_not_awaited():
    x = np.zeros(64, np.int32)
    VARIANTS[FAULTS % SOME_EXIT][2, 32, 0, None, 2](x)
    assert_array_equal(x, np.repeat([1, 1, 0, 1], [16, 16, 16, 16]))


ONE_BARRIER = add("cluster.sync();")


def test_a_barrier_without_a_cluster():
    with pytest.raises(smemkit.Error, match="in a launch without clusters"):
        VARIANTS[FAULTS % ONE_BARRIER][2, 32](np.zeros(64, np.int32))


OF_ONE_BLOCK = VARIANTS.add(FAULTS % "cluster.sync(); x[threadIdx.x] = threadIdx.x; cluster.sync();")
DECLARED_OF_ONE = VARIANTS.add(OF_ONE_BLOCK.replace("__global__ void", "__global__ void __cluster_dims__(1)"))


@pytest.mark.parametrize("declared", [True, False])
def test_a_cluster_of_one_block(declared):
    launch = VARIANTS[DECLARED_OF_ONE][1, 32] if declared else VARIANTS[OF_ONE_BLOCK][1, 32, 0, None, 1]
    x = np.zeros(64, np.int32)
    launch(x)
    assert_array_equal(x[:32], np.arange(32))
    assert smemkit.check(launch, x).ok


def test_a_copy_of_another_block_that_is_read_too_early():
    """By a block whose threads have started no copies."""
    source = """
#include <cooperative_groups.h>
#include <cuda_pipeline.h>
__global__ void __cluster_dims__(2) early(const float *x, float *y)
{
    __shared__ float s[32];
    auto cluster = cooperative_groups::this_cluster();
    if (cluster.block_rank() == 0) {
        __pipeline_memcpy_async(&s[threadIdx.x], &x[threadIdx.x], 4);
        __pipeline_commit();
    }
    cluster.sync();
    if (cluster.block_rank() == 1)
        y[threadIdx.x] = cluster.map_shared_rank(s, 0)[threadIdx.x];
    cluster.sync();
    if (cluster.block_rank() == 0)
        __pipeline_wait_prior(0);
}
"""
    report = smemkit.check(kernel(source)[2, 32], np.zeros(32, np.float32), np.zeros(32, np.float32))
    assert [(fault.kind, fault.hazard) for fault in report.faults] == [("race", "RAW")], report


def check(body, **options):
    """The report on a kernel with this body."""
    return smemkit.check(VARIANTS[FAULTS % body][4, 32, 0, None, 2], np.zeros(64, np.int32), **options)


RIGHT = add(
    "cluster.sync(); const int other = cluster.map_shared_rank(s, rank ^ 1)[31 - t]; cluster.sync();"
    "if (blockIdx.x == 0) x[t] = other;"
)


@pytest.mark.parametrize("options", [{}, {"schedule": "random", "seed": 1}, {"schedule": "lockstep"}])
def test_a_right_exchange_has_no_fault(options):
    report = check(RIGHT, **options)
    assert not report.faults, report


FOUND = [
    ("const int o = cluster.map_shared_rank(s, rank ^ 1)[t]; cluster.sync(); if (o == 9) x[t] = o;", "race",
     "nothing makes sure that it has begun"),
    ("cluster.sync(); const int o = cluster.map_shared_rank(s, rank ^ 1)[t]; if (o == 9) x[t] = o;", "race",
     "nothing makes sure that it has not exited"),
    ("cluster.sync(); if (rank) cluster.map_shared_rank(s, 0)[t] = 5; else if (s[t] == 9) x[t] = 1; "
     "cluster.sync();", "race", "and nothing orders the two"),
    ('asm volatile("barrier.cluster.arrive.relaxed; barrier.cluster.wait;"); const int o = '
     "cluster.map_shared_rank(s, rank ^ 1)[t]; cluster.sync(); if (o == 9) x[t] = o;", "race",
     "and nothing orders the two"),
    ("cluster.sync(); if (rank == 0) cluster.map_shared_rank(s, 1)[t + 1] = 0; cluster.sync();",
     "out_of_bounds", ""),
    ("cluster.sync(); if (rank == 0) { for (int i = 0; i < 100000; i++) __nanosleep(1); "
     "if (cluster.map_shared_rank(s, 0) == x) x[t] = 1; } ", None, ""),
]  # fmt: skip


add(*(body for body, *_ in FOUND))


@pytest.mark.parametrize(("body", "kind", "message"), FOUND)
def test_what_the_checker_finds(body, kind, message):
    report = check(body)
    assert {fault.kind for fault in report.faults} == ({kind} if kind else set()), report
    assert any(message in fault.message for fault in report.faults) or not kind, report
    # a relaxed arrival orders no accesses, but the wait shows that all blocks have begun
    assert "relaxed" not in body or not any("has begun" in fault.message for fault in report.faults), report
    if "makes sure" in message:
        assert "Put cluster.sync()" in report.faults[0].fix


@pytest.mark.parametrize("body", EXCHANGES, ids=["arrive", "copy", "multicast"])
@pytest.mark.parametrize("completion", ["early", "late"])
def test_checks_of_mbarriers_and_copies(body, completion):
    x, y = np.random.default_rng(1).random((8, 64), np.float32), np.zeros((8, 64), np.float32)
    right, wrong = (REMOTES[exchange(body, 2, waits)][8, 64, 0, None, 2] for waits in (True, False))
    report = smemkit.check(right, x, y, completion=completion)
    assert not report.faults, report
    report = smemkit.check(wrong, x, y, completion=completion)
    assert body == ARRIVE or "race" in {fault.kind for fault in report.faults}, report


WITHOUT_END = {
    waits: exchange(MULTICAST, 2, waits).replace("    cluster.sync();\n}", "}") for waits in (True, False)
}
for text in WITHOUT_END.values():
    REMOTES.add(text)


@pytest.mark.parametrize("completion", ["early", "late"])
def test_a_block_that_has_waited_for_a_copy_may_exit(completion):
    """The copy of another block has ended then, although its thread may have more to do."""
    x, y = np.ones((8, 64), np.float32), np.zeros((8, 64), np.float32)
    assert smemkit.check(REMOTES[WITHOUT_END[True]][8, 64, 0, None, 2], x, y, completion=completion).ok
    report = smemkit.check(REMOTES[WITHOUT_END[False]][8, 64, 0, None, 2], x, y, completion=completion)
    assert any("makes sure that it has not exited" in fault.message for fault in report.faults), report


REDUCED = """
#include "ptx/cp_async_bulk.cuh"
#include "ptx/mbarrier.cuh"
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void k(const unsigned *x, unsigned *y)
{
    __shared__ alignas(16) unsigned s[64], sum[64];
    __shared__ uint64_t full;
    const cg::cluster_group cluster = cg::this_cluster();
    const int t = threadIdx.x, rank = cluster.block_rank(), size = cluster.num_blocks();
    const unsigned to = (unsigned)__cvta_generic_to_shared(cluster.map_shared_rank(sum, 0));
    const unsigned at = (unsigned)__cvta_generic_to_shared(cluster.map_shared_rank(&full, 0));
    if (t == 0) {
        ptx::mbarrier_init(&full, 1);
        ptx::mbarrier_arrive_expect_tx(&full, 256 * size);
    }
    s[t] = x[blockIdx.x * 64 + t];
    sum[t] = 100;
    ptx::fence_proxy_async();
    cluster.sync();
    if (t == 0)
        asm volatile("cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.OP "
                     "[%0], [%1], 256, [%2];"
                     :: "r"(to), "r"((unsigned)__cvta_generic_to_shared(s)), "r"(at) : "memory");
    if (rank == 0) {
        while (!ptx::mbarrier_test_wait_parity(&full, 0)) {}
        y[blockIdx.x / size * 64 + t] = sum[t];
    }
    cluster.sync();
}
"""


REDUCTIONS = {"add.u32": np.add, "max.u32": np.maximum, "xor.b32": np.bitwise_xor}
LACKING_REDUCTIONS = ["add.s64", "add.f32", "min.u64", "and.b64", "add.noftz.f16"]


@cache
def reductions():
    return kernel(together("k", [REDUCED.replace("OP", what) for what in REDUCTIONS]))


@cache
def errors():
    """The compiler's messages about the reductions that PTX lacks."""
    return compile_errors("k", [REDUCED.replace("OP", what) for what in LACKING_REDUCTIONS], [f"-I{COMMON}"])


@pytest.mark.parametrize(("what", "combined"), REDUCTIONS.items())
def test_reductions_into_a_block_of_the_cluster(what, combined):
    x, y = np.random.default_rng(4).integers(0, 200, (8, 64)).astype(np.uint32), np.zeros((2, 64), np.uint32)
    launch = reductions()[f"k{list(REDUCTIONS).index(what)}"][8, 64, 0, None, 4]
    launch(x, y)
    assert_array_equal(y, combined.reduce(x.reshape(2, 4, 64), axis=1, initial=100))
    report = smemkit.check(launch, x, y)
    assert not report.faults, report


@pytest.mark.parametrize("what", LACKING_REDUCTIONS)
@pytest.mark.usefixtures("compiled_at_once")
def test_reductions_that_ptx_lacks_in_shared_memory(what):
    assert f"bytes.{what}" in errors()[LACKING_REDUCTIONS.index(what)].splitlines()[0]


SIZES = """
#define C 2
#define PAIR __cluster_dims__(C, 1, 1)
#define WIDE(n) PAIR_OR(n)
#define PAIR_OR(n) __launch_bounds__(32) __cluster_dims__(n)
#define BODY unsigned n; asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(n)); x[blockIdx.x] = n;
#define NONE
__global__ void __cluster_dims__(C) two(int *x) { BODY }
#undef C
#define C 4
__global__ void __cluster_dims__(C) four(int *x) { BODY }
__global__ void PAIR also_four(int *x) { BODY }
#undef C
__global__ void plain(int *x) { BODY }
__global__ void NONE none(int *x) { BODY }
__global__ void WIDE(8) eight(int *x) { BODY }
WIDE(2) __global__ void first(int *x) { BODY }
__global__ void
#if __CUDACC_VER_MAJOR__ > 99
__cluster_dims__(2)
#else
__cluster_dims__(4) // a comment (
#endif
chosen(int *x) { BODY }
#undef PAIR
#define PAIR
__global__ void PAIR empty(int *x) { BODY }
__global__ void PAIR PAIR_OR(2) declared(int *);
__global__ void declared(int *x) { BODY }
"""


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("two", 2),
        ("four", 4),
        ("also_four", 4),
        ("plain", 1),
        ("none", 1),
        ("eight", 8),
        ("first", 2),
        ("chosen", 4),
        ("empty", 1),
        ("declared", 2),
    ],
)
def test_cluster_dims_are_those_at_the_kernel(name, size):
    x = np.zeros(8, np.int32)
    kernel(SIZES)[name][8, 1](x)
    assert (x == size).all()


BY_MACROS = """
constexpr int N = 2;
#define PAIR(n) __cluster_dims__(n)
#define SIZE N
#define DEFINE(name) __global__ void __cluster_dims__(2) name(int *x) { *x = 1; }
#define PROTOTYPE(name) __global__ void __cluster_dims__(2) name(int *x)
#define ATTRIBUTE(n) __attribute__((cluster_dims(n)))
"""


@pytest.mark.parametrize("dims", ["PAIR(N)", "PAIR(SIZE)", "__cluster_dims__(SIZE)"])
def test_cluster_dims_of_a_template_by_a_macro(dims):
    text = f"{BY_MACROS} template <int N> __global__ void {dims} k(int *x) {{ *x = 1; }}"
    with pytest.raises(ValueError, match="no parameters of its template in __cluster_dims__, got N, on the CPU"):
        kernel(text)["k<4>"][4, 1](np.zeros(1, np.int32))


@pytest.mark.parametrize("text", ["DEFINE(k)", "PROTOTYPE(k) { *x = 1; }"])
def test_cluster_dims_of_a_kernel_that_a_macro_defines(text):
    with pytest.raises(ValueError, match="k: expected no __cluster_dims__ in a macro that defines a kernel"):
        smemkit.Kernel(BY_MACROS + text, name="k")[4, 1](np.zeros(1, np.int32))


@pytest.mark.parametrize("attribute", ["__attribute__((cluster_dims(2)))", "ATTRIBUTE(2)"])
def test_the_attribute_cluster_dims_is_refused(attribute):
    text = f"{BY_MACROS} __global__ void {attribute} k(int *x) {{ *x = 1; }}"
    with pytest.raises(ValueError, match="expected __cluster_dims__, got the attribute cluster_dims"):
        kernel(text)[4, 1](np.zeros(1, np.int32))


@pytest.mark.parametrize("special", ["__cluster_dims__(4) k<int>", "k<int>", "k"])
def test_cluster_dims_of_a_specialised_template_are_refused(special):
    text = "template <class T> __global__ void __cluster_dims__(2) k(T *x) { *x = 1; }\n"
    text += f"template <> __global__ void {special}(int *x) {{ *x = 1; }}"
    with pytest.raises(
        ValueError, match="no __cluster_dims__ of a template that is specialised, on the CPU device"
    ):
        kernel(text)["k<int>"][4, 1](np.zeros(1, np.int32))
    x = np.zeros(1, np.int32)
    kernel("#define IGNORED(n)\n" + text.replace("__cluster_dims__", "IGNORED"))["k<int>"][4, 1](x)
    assert x[0] == 1


def test_cluster_dims_of_a_template_whose_parameters_a_macro_names():
    text = (
        "\n#define TEMPLATE template <int N>\nTEMPLATE __global__ void __cluster_dims__(%s) k(int *x) { *x = N; }"
    )
    x = np.zeros(1, np.int32)
    kernel(text % 2)["k<7>"][4, 1](x)
    assert x[0] == 7
    with pytest.raises(ValueError, match="no parameters of its template in __cluster_dims__, got N"):
        kernel("constexpr int N = 2;" + text % "N")["k<4>"][4, 1](x)


def test_a_parameter_may_be_called_cluster_dims():
    x = np.zeros(1, np.int32)
    kernel("__global__ void k(int *x, int cluster_dims) { *x = cluster_dims; }")[1, 1](x, 3)
    assert x[0] == 3


def test_an_error_in_cluster_dims_names_its_line():
    text = "\n__global__ void __cluster_dims__(nowhere)\nk(int *x) { *x = 1; }\n"
    text += "__global__ void last(int *x) {}" + 6 * "\n"
    with pytest.raises(smemkit.CompileError, match=r"kernel\.cu:2: .*'nowhere'"):
        kernel(text)["k"][4, 1](np.zeros(1, np.int32))
    kernel(text)["last"][1, 1](np.zeros(1, np.int32))
