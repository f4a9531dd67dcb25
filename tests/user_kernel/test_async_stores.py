"""st.async, red.async and reductions of tensors, in PTX and in cuda::ptx, plain and checked."""

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from together import together

import smemkit

pytestmark = pytest.mark.usefixtures("compiled_when_used")

STORES = r"""
#include <cooperative_groups.h>
#include <cuda/ptx>
namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;
__global__ void __cluster_dims__(2, 1, 1) k(const int *x, int *y)
{
    __shared__ alignas(16) int s[64];
    __shared__ uint64_t full;
    const cg::cluster_group cluster = cg::this_cluster();
    const int t = threadIdx.x, other = cluster.block_rank() ^ 1;
    if (t == 0) {
        ptx::mbarrier_init(&full, 1);
        ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, 256);
    }
    s[t] = 40;
    cluster.sync();
    const int *v = x + blockIdx.x * 64 + t;
    unsigned to = __cvta_generic_to_shared(&s[t]), bar = __cvta_generic_to_shared(&full);
    asm("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(to) : "r"(other));
    asm("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(bar) : "r"(other));
    int *const there = cluster.map_shared_rank(&s[t], other);
    uint64_t *const full_there = cluster.map_shared_rank(&full, other);
    BODY
    while (!ptx::mbarrier_try_wait_parity(&full, 0)) {}
    y[blockIdx.x * 64 + t] = s[t];
    cluster.sync();
}
"""
TX = "shared::cluster.mbarrier::complete_tx::bytes"
BODIES = {
    "st": f'asm volatile("st.async.weak.{TX}.s32 [%0], %1, [%2];" :: "r"(to), "r"(*v), "r"(bar) : "memory");',
    "st v2": f'if (t % 2 == 0) asm volatile("st.async.{TX}.v2.b32 [%0], {{%1, %2}}, [%3];" :: "r"(to), "r"(v[0]), '
    '"r"(v[1]), "r"(bar) : "memory");',
    "st v4": f'if (t % 4 == 0) asm volatile("st.async.{TX}.v4.b32 [%0], {{%1, %2, %3, %4}}, [%5];" :: "r"(to), '
    '"r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]), "r"(bar) : "memory");',
    "st b64": f'if (t % 2 == 0) asm volatile("st.async.{TX}.b64 [%0], %1, [%2];" :: "r"(to), '
    '"l"(*(const long long *)v), "r"(bar) : "memory");',
    "cuda::ptx": "ptx::st_async(there, *v, full_there);",
    "cuda::ptx v4": "if (t % 4 == 0) { int four[] = {v[0], v[1], v[2], v[3]}; "
    "ptx::st_async(there, four, full_there); }",
    "red add": f'asm volatile("red.async.relaxed.cluster.{TX}.add.s32 [%0], %1, [%2];" :: "r"(to), "r"(*v), '
    '"r"(bar) : "memory");',
    "red max": "ptx::red_async(ptx::op_max, there, *v, full_there);",
    "red xor": "ptx::red_async(ptx::sem_relaxed, ptx::scope_cluster, ptx::space_cluster, ptx::op_xor_op, "
    "(unsigned *)there, (unsigned)*v, full_there);",
}
COMBINED = {"red add": np.add, "red max": np.maximum, "red xor": np.bitwise_xor}


@cache
def stores(*bodies):
    with smemkit.Device("cpu"):
        return smemkit.Kernel(together("k", [STORES.replace("BODY", body) for body in bodies]))


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.covering(1, most=4)
def test_registers_arrive_in_another_block(name):
    x, y = np.arange(256, dtype=np.int32), np.zeros(256, np.int32)
    launch = stores(*BODIES.values())[f"k{list(BODIES).index(name)}"][4, 64]
    launch(x, y)
    sent = x.reshape(2, 2, 64)[:, ::-1].reshape(-1)
    assert_array_equal(y, COMBINED[name](40, sent) if name in COMBINED else sent)
    for completion in ("early", "late", "random"):
        report = smemkit.check(launch, x, y, completion=completion)
        assert not report.faults, report


def test_a_read_before_the_bytes_have_come_is_told():
    x, y = np.arange(256, dtype=np.int32), np.zeros(256, np.int32)
    with smemkit.Device("cpu"):
        text = STORES.replace("BODY", BODIES["st"]).replace(
            "while (!ptx::mbarrier_try_wait_parity(&full, 0)) {}", ""
        )
        report = smemkit.check(smemkit.Kernel(text)[4, 64], x, y)
    assert "race" in {fault.kind for fault in report.faults}, report


WAIT = "    while (!ptx::mbarrier_try_wait_parity(&full, 0)) {}\n"
END = "    cluster.sync();\n}"


def test_a_block_that_has_waited_for_the_stores_of_many_threads_may_exit():
    """512 stores are in flight to each block."""
    text = STORES.replace("BODY", BODIES["cuda::ptx"]).replace(END, "}")
    text = text.replace("64", "512").replace("256", "2048").replace("uint512_t", "uint64_t")
    x, y = np.arange(1024, dtype=np.int32), np.zeros(1024, np.int32)
    with smemkit.Device("cpu"):
        both = smemkit.Kernel(together("k", [text, text.replace(WAIT, "")]))
        assert smemkit.check(both["k0"][2, 512], x, y).ok
        report = smemkit.check(both["k1"][2, 512], x, y)
    assert any("makes sure that it has not exited" in fault.message for fault in report.faults), report


def test_a_store_that_ends_its_thread_hides_no_access_of_another():
    body = "if (t == 0) ptx::st_async(there + 64, *v, full_there); if (t == 1) *there = 1;"
    text = STORES.replace("BODY", body).replace(WAIT, "").replace(END, "}")
    with smemkit.Device("cpu"):
        report = smemkit.check(smemkit.Kernel(text)[2, 64], np.zeros(128, np.int32), np.zeros(128, np.int32))
    assert "out_of_bounds" in {fault.kind for fault in report.faults}, report
    assert any("makes sure that it has not exited" in fault.message for fault in report.faults), report


RULES = [
    (BODIES["st b64"].replace("t % 2 == 0", "t % 2 == 1"), "to an address that is not a multiple of 8"),
    ("ptx::st_async(there, *v, &full);", "to another block than that of its mbarrier"),
    ("ptx::st_async((int *)y, *v, full_there);", "outside the cluster's shared memory"),
]


@pytest.mark.parametrize(("body", "message"), RULES)
def test_stores_that_break_a_rule(body, message):
    bodies = [other for other, _ in RULES]
    with pytest.raises(smemkit.Error, match=message):
        stores(*bodies)[f"k{bodies.index(body)}"][4, 64](
            np.zeros(257, np.int32), np.zeros(256, np.int32)
        )  # the last thread may read two


@pytest.mark.parametrize(
    "body",
    [f'asm volatile("red.async.relaxed.cluster.{TX}.add.f32 [%0], %1, [%2];" :: "r"(to), "f"(1.0f), "r"(bar));'],
)
@pytest.mark.usefixtures("compiled_at_once")
def test_reductions_that_ptx_has_not_are_refused_by_name(body):
    with pytest.raises(smemkit.CompileError, match=r"red\.async"):
        stores(body)


TENSOR = r"""
#include <cuda.h>
#include <cuda/ptx>
namespace ptx = cuda::ptx;
__global__ void k(const __grid_constant__ CUtensorMap map)
{
    __shared__ alignas(128) TYPE s[4][16];
    s[threadIdx.x / 16][threadIdx.x % 16] = (TYPE)(threadIdx.x % 7);
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
    if (threadIdx.x == 0) {
        REDUCE
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
    }
}
"""
PTX_REDUCE = (
    'asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.OP.tile.bulk_group [%0, {%1, %2}], [%3];"'
    ' :: "l"(&map), "r"(8), "r"(2), "r"((unsigned)__cvta_generic_to_shared(s)) : "memory");'
)
CPP_REDUCE = (
    "const int32_t at[] = {8, 2}; "
    "ptx::cp_reduce_async_bulk_tensor(ptx::space_global, ptx::space_shared, ptx::op_OP, &map, at, s);"
)


REDUCES = [PTX_REDUCE, CPP_REDUCE]
BOXES = [
    ("float32", "float", "add", np.add),
    ("int32", "int", "max", np.maximum),
    ("uint32", "unsigned", "min", np.minimum),
    ("int32", "int", "add", np.add),
]


@cache
def box_kernels():
    texts = [
        TENSOR.replace("TYPE", type_).replace("REDUCE", reduce.replace("OP", name))
        for reduce in REDUCES
        for _, type_, name, _ in BOXES
    ]
    with smemkit.Device("cpu"):
        return smemkit.Kernel(together("k", texts))


@pytest.mark.parametrize("reduce", [0, 1], ids=["ptx", "cuda::ptx"])
@pytest.mark.parametrize("box", range(4), ids=[f"{dtype}-{name}" for dtype, _, name, _ in BOXES])
def test_boxes_are_combined_with_a_tensor(reduce, box):
    dtype, _, _, op = BOXES[box]
    x = np.arange(8 * 32).reshape(8, 32).astype(dtype) % 11
    kernel = box_kernels()[f"k{4 * reduce + box}"]
    stored, want = (np.arange(64) % 7).reshape(4, 16).astype(dtype), x.copy()
    want[2:6, 8:24] = op(want[2:6, 8:24], stored)
    report = smemkit.check(kernel[1, 64], smemkit.TensorMap(x, (4, 16)))
    assert not report.faults, report
    kernel[1, 64](smemkit.TensorMap(x, (4, 16)))
    assert_array_equal(x, want)


def test_a_reduction_that_the_type_has_not():
    with smemkit.Device("cpu"):
        kernel = smemkit.Kernel(TENSOR.replace("TYPE", "float").replace("REDUCE", PTX_REDUCE.replace("OP", "max")))
    with pytest.raises(smemkit.Error, match="of elements whose type has no such reduction"):
        kernel[1, 64](smemkit.TensorMap(np.zeros((8, 32), np.float32), (4, 16)))
