"""Kernels in PTX give NumPy's numbers, in each spelling: inline PTX, kernels/common/ptx, the library's."""

import re
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from together import together

import smemkit

TESTS = Path(__file__).resolve().parents[1]
COMMON = TESTS.parent / "kernels" / "common"

COPY = """
#include <cuda_pipeline.h>
#include "ptx/cp_async.cuh"
__global__ void reversed(const float *x, float *y, int taken)
{
    __shared__ float s[64];
    const int t = threadIdx.x;
    s[t] = -1;
    %s
    __syncthreads();
    y[t] = s[63 - t];
}
"""
COPIES = {
    "inline": 'asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2; cp.async.commit_group; '
    'cp.async.wait_group 0;" :: "r"((unsigned)__cvta_generic_to_shared(&s[t])), "l"(&x[t]), '
    '"r"(t < taken ? 4 : 0) : "memory");',
    "ours": "ptx::cp_async_ca<4>(&s[t], &x[t], t < taken ? 4 : 0); ptx::cp_async_commit_group(); "
    "ptx::cp_async_wait_group<0>();",
    "library": "__pipeline_memcpy_async(&s[t], &x[t], 4, t < taken ? 0 : 4); __pipeline_commit(); "
    "__pipeline_wait_prior(0);",
}


def kernel(source):
    with smemkit.Device("cpu"):
        return smemkit.Kernel(source, options=[f"-I{COMMON}"])


def spelled(name, template, spellings):
    """The kernels of all spellings of a template, by spelling."""
    kernels = kernel(together(name, [template % code for code in spellings.values()]))
    return {spelling: kernels[f"{name}{i}"] for i, spelling in enumerate(spellings)}


@cache
def copies():
    return spelled("reversed", COPY, COPIES)


@pytest.mark.parametrize("spelling", COPIES)
def test_copies(spelling):
    x, y = np.random.default_rng(1).random(64, np.float32), np.zeros(64, np.float32)
    launch = copies()[spelling][1, 64]
    launch(x, y, 40)
    assert_array_equal(y, np.where(np.arange(64) < 40, x, 0)[::-1])
    assert smemkit.check(launch, x, y, 40).ok


BARRIER = """
#include <cuda/barrier>
#include <cuda/ptx>
#include "ptx/mbarrier.cuh"
__global__ void sums(const int *x, int *y, int phases)
{
    __shared__ int s[64];
    %s
    const int t = threadIdx.x;
    if (t == 0)
        %s;
    __syncthreads();
    int sum = 0;
    for (int i = 0; i < phases; i++) {
        s[t] = x[i * 64 + t];
        %s
        sum += s[63 - t];
        %s
    }
    y[t] = sum;
}
"""
INLINE_WAIT = (
    'asm volatile("{ .reg .pred p; .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0];\\n'
    'WAIT: mbarrier.test_wait.shared.b64 p, [%0], state; @!p bra WAIT; }" :: "r"(b) : "memory");'
)
OUR_WAIT = "for (uint64_t state = ptx::mbarrier_arrive(&b); !ptx::mbarrier_test_wait(&b, state);) {}"
BARRIERS = {
    "inline": (
        "__shared__ uint64_t b_; const unsigned b = (unsigned)__cvta_generic_to_shared(&b_);",
        'asm volatile("mbarrier.init.shared.b64 [%0], 64;" :: "r"(b))',
        INLINE_WAIT,
        INLINE_WAIT,
    ),
    "ours": ("__shared__ uint64_t b;", "ptx::mbarrier_init(&b, 64)", OUR_WAIT, OUR_WAIT),
    "library": (
        "__shared__ cuda::barrier<cuda::thread_scope_block> b;",
        "init(&b, 64)",
        "b.arrive_and_wait();",
        "b.wait(b.arrive());",
    ),
    "cuda::ptx": (
        "__shared__ uint64_t b;",
        "cuda::ptx::mbarrier_init(&b, 64)",
        "{ uint64_t state = cuda::ptx::mbarrier_arrive(&b); while (!cuda::ptx::mbarrier_try_wait(&b, state)) {} }",
        "cuda::ptx::mbarrier_arrive(cuda::ptx::sem_release, cuda::ptx::scope_cta, cuda::ptx::space_shared, &b); "
        "while (!cuda::ptx::mbarrier_try_wait_parity(cuda::ptx::sem_acquire, cuda::ptx::scope_cta, &b, 1)) {}",
    ),
    "the library's object by cuda::ptx": (
        "__shared__ cuda::barrier<cuda::thread_scope_block> b;",
        "init(&b, 64)",
        "b.arrive_and_wait();",
        "cuda::ptx::mbarrier_arrive(cuda::device::barrier_native_handle(b), 1); b.wait_parity(1);",
    ),
}


@cache
def mbarriers():
    return spelled("sums", BARRIER, BARRIERS)


@pytest.mark.parametrize("spelling", BARRIERS)
def test_mbarriers(spelling):
    x, y = np.arange(192, dtype=np.int32).reshape(3, 64), np.zeros(64, np.int32)
    launch = mbarriers()[spelling][1, 64]
    launch(x, y, 3)
    assert_array_equal(y, x.sum(axis=0)[::-1])
    for schedule in ("serial", "random"):
        report = smemkit.check(launch, x, y, 3, schedule=schedule)
        assert report.ok, report


HANGS = {
    "a count of one too many": ("mbarrier_count.cu", "", "", "phase 0 (parity 0)", "1 of 65"),
    "the parity of the next phase": (
        *("mbarrier_no_wait.fixed.cu", "p, [%0], 0;", "p, [%0], 1;"),
        *("phase 1 (parity 1)", "64 of 64"),
    ),
}


@pytest.mark.parametrize("case", HANGS.values(), ids=HANGS)
def test_an_endless_wait_names_the_phase_and_its_arrivals(case):
    file, old, new, phase, arrivals = case
    launch = kernel((TESTS / "faulty" / file).read_text().replace(old, new))[1, 64]
    x, y = np.zeros((2, 64), np.float32)
    expected = f"for {phase} of an mbarrier, which still expects {arrivals} arrivals"
    with pytest.raises(smemkit.Error, match=re.escape(expected)):
        launch(x, y)
    (fault,) = (fault for fault in smemkit.check(launch, x, y, schedule="lockstep").faults if fault.kind == "hang")
    assert expected in fault.message
    assert "Compare the arrivals of a phase with the count of mbarrier.init" in fault.fix


def test_an_endless_wait_elsewhere_names_no_mbarrier():
    text = (TESTS / "faulty" / "mbarrier_no_wait.fixed.cu").read_text()
    launch = kernel(text.replace("y[t] =", "if (t == 62) while (*(volatile float *)y == 0);\n    y[t + 1] ="))[
        1, 64
    ]
    x, y = np.zeros((2, 65), np.float32)
    for schedule in ("serial", "lockstep", "random"):
        (fault,) = (
            fault for fault in smemkit.check(launch, x, y, schedule=schedule).faults if fault.kind == "hang"
        )
        assert "mbarrier" not in fault.message
        assert "a flag that no thread sets" in fault.fix


PRODUCT = """
#include <cuda_fp16.h>
#include <cuda/ptx>
#include "ptx/ldmatrix.cuh"
#include "ptx/mma.cuh"
// c = a @ b.T of (16, 16) and (8, 16) halves
__global__ void product(const uint4 *a, const uint4 *b, float *c)
{
    __shared__ uint4 s[48];
    const int lane = threadIdx.x;
    s[lane] = a[lane];
    if (lane < 16)
        s[32 + lane] = b[lane];
    __syncwarp();
    uint32_t x[4], y[2];
    float sum[4] = {};
    const void *const row = &s[lane %% 16 * 2 + lane / 16], *const column = &s[32 + lane %% 8 * 2 + lane / 8 %% 2];
    %s
    for (int i = 0; i < 4; i++)
        c[(lane / 4 + i / 2 * 8) * 8 + lane %% 4 * 2 + i %% 2] = sum[i];
}
"""
PRODUCTS = {
    "inline": """
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "l"(__cvta_generic_to_shared(row)));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(y[0]), "=r"(y[1]) : "l"(__cvta_generic_to_shared(column)));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};" : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));""",
    "ours": "ptx::ldmatrix_x4(x, row); ptx::ldmatrix_x2(y, column); ptx::mma_m16n8k16_f32_f16(sum, x, y, sum);",
    "cuda::ptx": "cuda::ptx::ldmatrix_m8n8(cuda::ptx::space_shared, x, (const half *)row); "
    "cuda::ptx::ldmatrix_m8n8(cuda::ptx::space_shared, y, (const half *)column); "
    "ptx::mma_m16n8k16_f32_f16(sum, x, y, sum);",
}


@cache
def products():
    return spelled("product", PRODUCT, PRODUCTS)


@pytest.mark.parametrize("spelling", PRODUCTS)
def test_products(spelling):
    random = np.random.default_rng(2)
    a, b = (random.integers(-9, 10, (rows, 16)).astype(np.float16) for rows in (16, 8))
    c = np.zeros((16, 8), np.float32)
    launch = products()[spelling][1, 32]
    launch(a.view(np.uint32), b.view(np.uint32), c)
    assert_array_equal(c, a.astype(np.float32) @ b.T.astype(np.float32))
    report = smemkit.check(launch, a.view(np.uint32), b.view(np.uint32), c)
    assert report.ok, report
    loads = [line for line in report.lines if line.access == "load" and line.space == "shared"]
    assert sum(line.wavefronts for line in loads) == 8 + 4  # rows of 32 bytes: two-way conflicts


def test_matmul_in_stages():
    random = np.random.default_rng(3)
    a, b = (random.integers(-9, 10, (64, 64)).astype(np.float16) for _ in range(2))
    c = np.zeros((64, 64), np.float32)
    launch = kernel(TESTS / "right" / "matmul_ldmatrix_stages.cu")[2, 128]
    launch(a, b, c)
    assert_array_equal(c, a.astype(np.float32) @ b.T.astype(np.float32))
    report = smemkit.check(launch, a, b, c)
    assert all(line.conflicts == 0 for line in report.lines if line.space == "shared"), report


COST = """
#include <cstdint>
__global__ void by_mma(const float *x, float *c, int n)
{
    const unsigned a[4] = {0x3c003c00, 0x40003c00, 0x3c004000, 0x44003c00}, b[2] = {0x3c003c00, 0x40003c00};
    float s[4] = {};
    for (int i = 0; i < n; i++)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                     "{%8, %9}, {%0, %1, %2, %3};" : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    c[threadIdx.x] = s[0] + s[1] + s[2] + s[3];
}
__global__ void by_loop(const float *x, float *c, int n)
{
    float s0 = 0, s1 = 0, s2 = 0, s3 = 0, a[2][16], b[2][16];
    for (int k = 0; k < 16; k++)
        a[0][k] = x[k], a[1][k] = x[k + 16], b[0][k] = x[k + 32], b[1][k] = x[k + 48];
    for (int i = 0; i < n; i++)
        for (int k = 0; k < 16; k++) {
            s0 += a[0][k] * b[0][k], s1 += a[0][k] * b[1][k];
            s2 += a[1][k] * b[0][k], s3 += a[1][k] * b[1][k];
        }
    c[threadIdx.x] = s0 + s1 + s2 + s3;
}
"""


@pytest.mark.slow
def test_an_mma_costs_at_most_three_times_its_multiply_adds():
    x, c, shortest = np.ones(64, np.float32), np.zeros(32, np.float32), {}
    with smemkit.Device("cpu"):
        launches = {name: smemkit.Kernel(COST, name)[1, 32] for name in ("by_mma", "by_loop")}
    for _ in range(200):
        for name, launch in launches.items():
            start = time.perf_counter()
            launch(x, c, 1500)
            shortest[name] = min(time.perf_counter() - start, shortest.get(name, np.inf))
    assert shortest["by_mma"] <= 3 * shortest["by_loop"], shortest


FUNCTIONS = """
#include <cuda/ptx>
namespace ptx = cuda::ptx;
__global__ void functions(unsigned *y)
{
    __shared__ unsigned s[32];
    const unsigned lane = ptx::get_sreg_laneid();
    unsigned *own = y + 20 * ptx::get_sreg_tid_x();
    bool valid;
    *own++ = ptx::get_sreg_lanemask_lt() + ptx::get_sreg_warpid();
    *own++ = ptx::get_sreg_ntid_x() + 100 * ptx::get_sreg_nctaid_y() + ptx::get_sreg_cluster_nctarank();
    *own++ = ptx::bfind(40u);
    *own++ = ptx::bfind(-5) + ptx::bfind_shiftamt(1ull);
    *own++ = ptx::bmsk_clamp(4, 8);
    *own++ = ptx::shl(3u, lane) + ptx::shl(1u, 40);
    *own++ = ptx::shr(-16, 2);
    *own++ = ptx::prmt(0x33221100, 0x77665544, 0x7410);
    *own++ = ptx::prmt_f4e(0x33221100, 0x77665544, 1);
    *own++ = ptx::shfl_sync_idx(lane, 3, 31, ~0u);
    *own++ = ptx::shfl_sync_down(lane, valid, 1, 31, ~0u) + 100 * valid;
    *own++ = ptx::shfl_sync_up(lane, 1, 0, ~0u) + ptx::shfl_sync_bfly(lane, 1, 31, ~0u);
    *own++ = ptx::elect_sync(~0u);
    s[lane] = lane;
    ptx::fence(ptx::sem_acq_rel, ptx::scope_cta);
    ptx::fence_proxy_alias();
    ptx::prefetch_L2(y);
    __syncwarp();
    *own++ = s[31 - lane];
    if (lane == 7)
        ptx::exit();
    *own = 1;
}
"""


def test_functions_of_cuda_ptx():
    y = np.zeros((32, 20), np.uint32)
    kernel(FUNCTIONS)[1, 32](y)
    lane = np.arange(32)
    want = np.zeros((32, 20), np.uint32)
    columns = [
        *((1 << lane) - 1, 32 + 100 + 1, 5, 2 + 63, 0xFF0, 3 << lane & 0xFFFFFFFF, 0xFFFFFFFC),
        *(0x77441100, 0x44332211, 3, np.where(lane < 31, lane + 101, 31)),
        *(np.maximum(lane - 1, 0) + (lane ^ 1), lane == 0, 31 - lane, lane != 7),
    ]
    for number, column in enumerate(columns):
        want[:, number] = column
    assert_array_equal(y, want)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("cuda::ptx::st_bulk(x, 4);", "cuda::ptx::st_bulk needs hardware"),
        ("cuda::ptx::tcgen05_alloc(x, 4);", "cuda::ptx::tcgen05_alloc needs hardware"),
        ("cuda::ptx::no_such_instruction(x);", "no_such_instruction"),
    ],
)
def test_unknown_functions_of_cuda_ptx_are_named(call, expected):
    source = "#include <cuda/ptx>\n__global__ void k(int *x)\n{\n    " + call + "\n}"
    with pytest.raises(smemkit.CompileError, match=expected) as caught:
        kernel(source)
    assert str(caught.value).startswith("kernel.cu:4: ")


SPACES = """
__constant__ int fixed[4];
__device__ int global_sum;
__device__ int spaces(const void *p)
{
    unsigned global, shared, cta, cluster, local, constant;
    asm("{ .reg .pred p; isspacep.global p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(global) : "l"(p));
    asm("{ .reg .pred p; isspacep.shared p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(shared) : "l"(p));
    asm("{ .reg .pred p; isspacep.shared::cta p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(cta) : "l"(p));
    asm("{ .reg .pred p; isspacep.shared::cluster p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(cluster) : "l"(p));
    asm("{ .reg .pred p; isspacep.local p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(local) : "l"(p));
    asm("{ .reg .pred p; isspacep.const p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(constant) : "l"(p));
    const int asked = __isGlobal(p) + 2 * __isShared(p) + 8 * __isClusterShared(p) + 16 * __isLocal(p)
        + 32 * __isConstant(p);
    const int told = global + 2 * shared + 8 * cluster + 16 * local + 32 * constant;
    return asked == told && shared == cta ? told : -1;
}
__global__ void which(int *x, int other)
{
    __shared__ int own;
    int here = threadIdx.x;
    x[0] = spaces(x);
    x[1] = spaces(&global_sum);
    x[2] = spaces(&own);
    x[3] = spaces(__cluster_map_shared_rank(&own, other ? 1 - __clusterRelativeBlockRank() : 0));
    x[4] = spaces(&here);
    x[5] = spaces(fixed);
}
"""


def test_address_spaces():
    """PTX ISA, "isspacep": shared memory of another block of the cluster is in shared::cluster only."""
    x = np.zeros(6, np.int32)
    which = kernel(SPACES)
    which[2, 1, 0, None, 2](x, 1)
    assert x.tolist() == [1, 1, 2 + 8, 8, 16, 32]
    which[1, 1](x, 0)
    assert x.tolist() == [1, 1, 2 + 8, 2 + 8, 16, 32]


PRODUCT_OF_DOUBLES = """
#include "ptx/mma.cuh"
__global__ void product(const double *a, const double *b, double *c)
{
    const int group = threadIdx.x / 4, t = threadIdx.x % 4;
    const double *upper = &a[group * 8 + t], *lower = upper + 8 * 8;
    const double of_a[4] = {upper[0], lower[0], upper[4], lower[4]};
    const double of_b[2] = {b[t * 8 + group], b[(t + 4) * 8 + group]};
    double sum[4];
    for (int i = 0; i < 4; i++)
        sum[i] = c[(group + i / 2 * 8) * 8 + 2 * t + i % 2];
    ptx::mma_m16n8k8_f64(sum, of_a, of_b, sum);
    for (int i = 0; i < 4; i++)
        c[(group + i / 2 * 8) * 8 + 2 * t + i % 2] = sum[i];
}
"""


@pytest.mark.parametrize("arch", [800, 900])
def test_a_product_of_float64_is_one_instruction_or_four(arch):
    options = [] if arch == 900 else [f"-D__CUDA_ARCH__={arch}"]  # 900 is what it is without an option
    product = smemkit.Kernel(PRODUCT_OF_DOUBLES, options=[f"-I{COMMON}", *options])
    rng = np.random.default_rng(arch)
    a, b, c = (rng.integers(-9, 10, shape).astype(np.float64) for shape in ((16, 8), (8, 8), (16, 8)))
    expected = a @ b + c
    product[1, 32](a, b, c)
    assert_array_equal(c, expected)
