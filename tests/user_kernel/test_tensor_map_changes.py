"""Tensor maps that a kernel changes: tensormap.replace, tensormap.cp_fenceproxy and fence.proxy.tensormap."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from together import Variants

import smemkit
from smemkit.checker.bulk_fixes import _map_operand

pytestmark = pytest.mark.usefixtures("compiled_when_used")

# each block reads the corner of one of three matrices, by a copy of the launch's map that it adapts
KERNEL = r"""
#include <cuda.h>
#include <cuda/ptx>
#include <cstdint>
namespace ptx = cuda::ptx;
__device__ unsigned window(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
extern "C" __global__ void corners(const __grid_constant__ CUtensorMap pattern, const float *x, const float *y,
                                   const float *z, const int *shapes, CUtensorMap *maps, float *out)
{
    __shared__ alignas(128) CUtensorMap changed;
    __shared__ alignas(128) float tile[8][8];
    __shared__ uint64_t full;
    CUtensorMap *map = &maps[blockIdx.x];
    const float *matrix = blockIdx.x == 0 ? x : blockIdx.x == 1 ? y : z;
    const int rows = shapes[blockIdx.x * 2], columns = shapes[blockIdx.x * 2 + 1];
    const unsigned long long row_bytes = columns * 4ull;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(window(&full)));
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    CHANGE
    if (threadIdx.x == 0) {
        ACQUIRE
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 256;" :: "r"(window(&full)) : "memory");
        COPY
        AFTER
    }
    __syncthreads();
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;"
                     "selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(window(&full)) : "memory");
    for (int i = threadIdx.x; i < 64; i += blockDim.x)
        out[blockIdx.x * 64 + i] = tile[i / 8][i % 8];
}
"""
REPLACE_BY_ASM = """
        asm volatile("tensormap.replace.tile.global_address.SPACE.b1024.b64 [%0], %1;"
                     :: "CONSTRAINT"(MAP), "l"(matrix) : "memory");
        asm volatile("tensormap.replace.tile.global_dim.SPACE.b1024.b32 [%0], 0, %1;"
                     :: "CONSTRAINT"(MAP), "r"(columns) : "memory");
        asm volatile("tensormap.replace.tile.global_dim.SPACE.b1024.b32 [%0], 1, %1;"
                     :: "CONSTRAINT"(MAP), "r"(rows) : "memory");
        asm volatile("tensormap.replace.tile.global_stride.SPACE.b1024.b64 [%0], 0, %1;"
                     :: "CONSTRAINT"(MAP), "l"(row_bytes) : "memory");
"""
IN_SHARED = {"SPACE": "shared::cta", "CONSTRAINT": "r", "MAP": "window(&changed)"}
IN_GLOBAL = {"SPACE": "global", "CONSTRAINT": "l", "MAP": "map"}
REPLACE_BY_FUNCTIONS = """
        ptx::tensormap_replace_global_address(ptx::space_shared, &changed, matrix);
        ptx::tensormap_replace_global_dim(ptx::space_shared, &changed, ptx::n32_t<0>(), columns);
        ptx::tensormap_replace_global_dim(ptx::space_shared, &changed, ptx::n32_t<1>(), rows);
        ptx::tensormap_replace_global_stride(ptx::space_shared, &changed, ptx::n32_t<0>(), row_bytes);
"""
BY_WARP = """
    if (threadIdx.x < 32) {
        if (threadIdx.x == 0) {
            changed = pattern; REPLACE
        }
        __syncwarp();
        RELEASE
    }
"""
BY_THREAD = """
    if (threadIdx.x == 0) {
        *map = pattern; REPLACE
        RELEASE
    }
    __syncthreads();
"""
RELEASE_BY_ASM = """asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu"
                     ".sync.aligned [%0], [%1], 128;" :: "l"(map), "r"(window(&changed)) : "memory");"""
RELEASE_BY_FUNCTION = """ptx::tensormap_cp_fenceproxy(ptx::sem_release, ptx::scope_gpu, map, &changed,
                                                 ptx::n32_t<128>());"""
FENCE = 'asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");'
ACQUIRE_BY_ASM = (
    """asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(map) : "memory");"""
)
ACQUIRE_BY_FUNCTION = (
    """ptx::fence_proxy_tensormap_generic(ptx::sem_acquire, ptx::scope_gpu, map, ptx::n32_t<128>());"""
)
COPY_BY_ASM = """asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                     " [%0], [%1, {%2, %3}], [%4];"
                     :: "r"(window(tile)), "l"(map), "r"(0), "r"(0), "r"(window(&full)) : "memory");"""
COPY_BY_FUNCTION = """const int corner[2] = {0, 0};
        ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, tile, map, corner, &full);"""


def replace_by_asm(space):
    text = REPLACE_BY_ASM
    for word, by in space.items():
        text = text.replace(word, by)
    return text


ASM = {
    "CHANGE": BY_WARP,
    "REPLACE": replace_by_asm(IN_SHARED),
    "RELEASE": RELEASE_BY_ASM,
    "ACQUIRE": ACQUIRE_BY_ASM,
    "COPY": COPY_BY_ASM,
    "AFTER": "",
}
FUNCTIONS = {
    **ASM,
    "REPLACE": REPLACE_BY_FUNCTIONS,
    "RELEASE": RELEASE_BY_FUNCTION,
    "ACQUIRE": ACQUIRE_BY_FUNCTION,
    "COPY": COPY_BY_FUNCTION,
}
GLOBAL = {**ASM, "CHANGE": BY_THREAD, "REPLACE": replace_by_asm(IN_GLOBAL), "RELEASE": FENCE}
STYLES = {"asm": ASM, "functions": FUNCTIONS, "global": GLOBAL}
SHAPES = ((5, 4), (8, 8), (3, 12))


def source(style, **changes):
    text = KERNEL
    for word, by in {**STYLES[style], **changes}.items():
        text = text.replace(word, by)
    return text


RIGHT = Variants("corners")
FAULTY = Variants("corners")  # what a check finds
MISUSED = Variants("corners")  # what a launch refuses
for style in STYLES:
    RIGHT.add(source(style))


def arguments(device):
    """The kernel's arguments, and the corners that it should find."""
    matrices = [1 + np.arange(np.prod(shape), dtype=np.float32).reshape(shape) for shape in SHAPES]
    want = np.zeros((3, 8, 8), np.float32)
    for corner, matrix in zip(want, matrices, strict=True):
        inside = matrix[:8, :8]
        corner[: inside.shape[0], : inside.shape[1]] = inside
    on_device = [smemkit.asarray(x, device=device) for x in (*matrices, np.array(SHAPES, np.int32).ravel())]
    map_ = smemkit.TensorMap(smemkit.zeros((8, 8), np.float32, device=device), (8, 8))
    out = smemkit.zeros((3, 8, 8), np.float32, device=device)
    return (map_, *on_device, np.zeros(3, "V128"), out), want


def checked(kernel, **options):
    args, _ = arguments("cpu")
    return smemkit.check(kernel[3, 64], *args, **options)


@pytest.mark.parametrize("style", STYLES)
def test_a_map_that_each_block_changes(device, style):
    args, want = arguments(device)
    with smemkit.Device(device):
        RIGHT[source(style)][3, 64](*args)
    assert_array_equal(args[-1].numpy(), want)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("completion", ["early", "late", "random"])
@pytest.mark.parametrize("schedule", ["serial", "lockstep"])
@pytest.mark.covering
def test_changed_maps_have_no_fault(style, completion, schedule):
    report = checked(RIGHT[source(style)], completion=completion, schedule=schedule)
    assert report.ok and not report.faults, report


BY_ANOTHER = f"{BY_WARP} __syncthreads(); if (threadIdx.x == 40) {{ {ACQUIRE_BY_ASM} }}"
ORDERED, UNORDERED = (
    FAULTY.add(source("asm", CHANGE=BY_ANOTHER + barrier, ACQUIRE="")) for barrier in ("__syncthreads();", "")
)


def test_another_thread_of_the_block_may_acquire():
    assert not checked(FAULTY[ORDERED]).faults
    assert checked(FAULTY[UNORDERED]).faults


LATE_CHANGE = f"if (threadIdx.x == 0) {{ {ACQUIRE_BY_ASM} }}" + BY_THREAD.replace(
    "threadIdx.x == 0", "threadIdx.x == 40"
)
OTHER_MAP = ACQUIRE_BY_ASM.replace("(map)", "(&maps[(blockIdx.x + 1) % 3])")
MISSING = {  # name → style, changes, the fence that is missing
    "no acquire": ("asm", {"ACQUIRE": ""}, "acquire"),
    "no acquire, by functions": ("functions", {"ACQUIRE": ""}, "acquire"),
    "acquire of another map": ("asm", {"ACQUIRE": OTHER_MAP}, "acquire"),
    "acquire after the copy": ("asm", {"ACQUIRE": "", "AFTER": ACQUIRE_BY_ASM}, "acquire"),
    "acquire before the change": ("asm", {"ACQUIRE": "", "CHANGE": ACQUIRE_BY_ASM + BY_WARP}, "acquire"),
    "another thread's acquire before the change": ("global", {"ACQUIRE": "", "CHANGE": LATE_CHANGE}, "acquire"),
    "no release": ("global", {"RELEASE": ""}, "release"),
    "release before the change": ("global", {"RELEASE": "", "CHANGE": FENCE + BY_THREAD}, "release"),
    "another thread releases": ("global", {"RELEASE": "} if (threadIdx.x == 32) {" + FENCE}, "release"),
}
for style, changes, _ in MISSING.values():
    FAULTY.add(source(style, **changes))


@pytest.mark.parametrize("case", MISSING)
@pytest.mark.covering(most=4)
def test_a_missing_fence_is_found(case):
    style, changes, fence = MISSING[case]
    report = checked(FAULTY[source(style, **changes)])
    (fault,) = report.faults
    assert (fault.kind, fault.hazard, fault.severity) == ("race", "proxy", "error")
    assert f"no fence.proxy.tensormap::generic.{fence}" in fault.message, report
    assert "fence.proxy.tensormap" in fault.meaning and f"generic.{fence}.gpu" in fault.fix


@pytest.mark.parametrize("case", ["no acquire", "no acquire, by functions", "no release"])
def test_the_fix_of_a_missing_fence(case):
    style, changes, _ = MISSING[case]
    text = source(style, **changes)
    (fault,) = checked(smemkit.Kernel(text)).faults
    mended = smemkit.checker.edits.apply({fault.file: text}, [fault.fix])[fault.file]
    assert mended != text
    report = checked(smemkit.Kernel(mended))
    assert not report.faults, report


LANES_DO_NOT_WAIT = FAULTY.add(source("asm", CHANGE=BY_WARP.replace("__syncwarp();", "")))
CHANGED_AGAIN = FAULTY.add(source("global", AFTER="*map = pattern;"))


def test_lanes_wait_for_the_lane_that_has_changed_the_map():
    report = checked(FAULTY[LANES_DO_NOT_WAIT])
    assert {(fault.kind, fault.variable) for fault in report.faults} == {("race", "changed")}, report


def test_a_map_is_not_changed_while_a_copy_may_read_it():
    report = checked(FAULTY[CHANGED_AGAIN])
    assert {(fault.hazard, fault.variable.partition("[")[0]) for fault in report.faults} == {("WAR", "maps")}, (
        report
    )


CONSTANT = ("elemtype", "interleave_layout", "swizzle_mode", "fill_mode")  # PTX takes no register for them


def replaced(field, value, ordinal=None, type="b32"):
    constraint = "n" if field in CONSTANT else "l" if type == "b64" else "r"
    where = "[%0], " + (f"{ordinal}, " if ordinal is not None else "")
    return (
        f'asm volatile("tensormap.replace.tile.{field}.shared::cta.b1024.{type} {where}%1;" :: '
        f'"r"(window(&changed)), "{constraint}"({value}) : "memory");'
    )


WRONG = {  # name → statement, what the message says
    "address": (
        replaced("global_address", "(size_t)matrix + 4", type="b64"),
        "of an address that is not a multiple",
    ),
    "rank": (replaced("rank", 2), "no elements in dimension 2|of 2 dimensions with a tensor map of 3"),
    "fewer dimensions": (replaced("rank", 0), "of 2 dimensions with a tensor map of 1"),
    "too many dimensions": (replaced("rank", 5), "tile.rank by 5: the CPU device supports values below 5"),
    "no elements": (replaced("global_dim", 0, 1), "of no elements in dimension 1"),
    "stride": (replaced("global_stride", "24ull", 0, "b64"), "a stride of 24 bytes in dimension 1"),
    "stride of dimension 4": (
        replaced("global_stride", "32ull", 4, "b64"),
        "of dimension 4: expected 0 to 3",
    ),
    "box": (replaced("box_dim", 0, 0), "a box of 0 elements in dimension 0"),
    "large box": (replaced("box_dim", 257, 0), "by 257: the CPU device supports values below 257"),
    "short rows": (replaced("box_dim", 3, 0), "rows of 12 bytes in its box"),
    "element stride": (replaced("element_stride", 2, 0), "an element stride of 2 in dimension 0"),
    "swizzle": (
        replaced("swizzle_mode", 1) + replaced("box_dim", 16, 0),
        "rows of 64 bytes in its box, where the swizzle has 32",
    ),
    "fill": (
        replaced("elemtype", 2) + replaced("fill_mode", 1),
        "whose fill is NaN, which its elements do not have",
    ),
    "type": (replaced("elemtype", 13), r"by \.b4x16, which the CPU device does not have"),
    "no type": (replaced("elemtype", 16), "by 16, which is no type"),
    "interleave": (replaced("interleave_layout", 1), "by 1: the CPU device supports values below 1"),
    "no map": (
        "memset(&changed, 1, 128);" + replaced("rank", 1),
        "128 bytes that are neither a tensor map nor zeros",
    ),
    "map of zeros": (
        "memset(&changed, 0, 128);" + replaced("rank", 1),
        "with a tensor map of elements of an unknown type",
    ),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.covering(most=4)
def test_a_map_that_breaks_a_rule_is_refused(case):
    statement, message = WRONG[case]
    args, _ = arguments("cpu")
    kernel = smemkit.Kernel(source("asm", REPLACE=replace_by_asm(IN_SHARED) + statement))
    with pytest.raises(smemkit.Error, match=message):
        kernel[3, 64](*args)


MISUSES = [
    ({"COPY": COPY_BY_ASM.replace('"l"(map)', '"l"(&changed)')}, "a tensor map in shared memory"),
    ({"ACQUIRE": ACQUIRE_BY_ASM.replace('"l"(map)', '"l"(&changed)')}, "where it needs global memory"),
    ({"ACQUIRE": ACQUIRE_BY_ASM.replace('"l"(map)', '"l"((char *)map + 8)')}, "not a multiple of 64"),
    ({"RELEASE": RELEASE_BY_ASM.replace("128", "64")}, "tensormap.cp_fenceproxy of 64 bytes, not of 128"),
    ({"ACQUIRE": ACQUIRE_BY_ASM.replace("128", "64")}, "fence.proxy.tensormap of a number of bytes other"),
    ({"RELEASE": "if (threadIdx.x < 16) {" + RELEASE_BY_ASM + "}"}, "16 of 64 threads wait at"),
    ({"REPLACE": replace_by_asm({**IN_GLOBAL, "MAP": "&changed"})}, "in shared memory, where it needs global"),
]
for changes, _ in MISUSES:
    MISUSED.add(source("asm", **changes))


@pytest.mark.parametrize(("changes", "message"), MISUSES)
def test_misuse_is_refused(changes, message):
    args, _ = arguments("cpu")
    with pytest.raises(smemkit.Error, match=message):
        MISUSED[source("asm", **changes)][3, 64](*args)


def filled(number):
    change = f"{replaced('elemtype', number)}{replaced('fill_mode', int(number == 7))}"
    return source("asm", REPLACE=replace_by_asm(IN_SHARED) + change)


for number in (2, 3, 7):
    RIGHT.add(filled(number))


def test_types_and_fills(device):
    args, want = arguments(device)
    args[-1].fill(-1)
    for number, holds in (2, 0), (3, 0), (7, np.nan):
        with smemkit.Device(device):
            RIGHT[filled(number)][3, 64](*args)
        assert_array_equal(args[-1].numpy(), np.where(want == 0, np.float32(holds), want))
        args[-1].fill(-1)


# block 0 copies by a map that block 1 has written; each of two threads stores by a map of its own
BETWEEN_BLOCKS = r"""
#include <cuda.h>
#include <cuda/ptx>
#include <cuda/atomic>
#include <cstdint>
namespace ptx = cuda::ptx;
__global__ void handed_over(const __grid_constant__ CUtensorMap pattern, CUtensorMap *map, int *flag, float *out)
{
    __shared__ alignas(128) float tile[8][8];
    __shared__ uint64_t full;
    const int corner[2] = {0, 0};
    if (threadIdx.x > 0)
        return;
    cuda::atomic_ref<int, cuda::thread_scope_device> ready(*flag);
    if (blockIdx.x == 1) {
        *map = pattern;
        ptx::fence_proxy_tensormap_generic(ptx::sem_release, ptx::scope_gpu);
        ready.store(1, cuda::memory_order_release);
        return;
    }
    ptx::mbarrier_init(&full, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    EARLY
    while (!ready.load(cuda::memory_order_acquire))
        ;
    ACQUIRE
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, sizeof tile);
    ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, tile, map, corner, &full);
    while (!ptx::mbarrier_try_wait_parity(&full, 0))
        ;
    out[0] = tile[0][0];
}
"""
STORES = r"""
#include <cuda.h>
#include <cuda/ptx>
namespace ptx = cuda::ptx;
__global__ void stores(const __grid_constant__ CUtensorMap pattern, CUtensorMap *maps)
{
    __shared__ alignas(128) float tile[8][8];
    const int corner[2] = {0, 0}, t = threadIdx.x;
    tile[t / 8][t % 8] = 0;
    ptx::fence_proxy_async(ptx::space_shared);
    if (t % 32 == 0) {
        maps[t / 32] = pattern;
        ptx::fence_proxy_tensormap_generic(ptx::sem_release, ptx::scope_gpu);
    }
    __syncthreads();
    if (t == 0) {
        ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, &maps[0], corner, tile);
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
    }
    if (t == 32) {
        ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, &maps[1], corner, tile);
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
    }
}
"""


def acquired(where):
    text = BETWEEN_BLOCKS
    for place in "ACQUIRE", "EARLY":
        text = text.replace(place, ACQUIRE_BY_FUNCTION if place == where else "")
    return text


HANDED_OVER = Variants("handed_over")
for where in "nowhere", "ACQUIRE", "EARLY":
    HANDED_OVER.add(acquired(where))


@pytest.mark.parametrize("where", ["nowhere", "ACQUIRE", "EARLY"])
def test_a_map_of_another_block_is_acquired_after_its_release(where):
    map_ = smemkit.TensorMap(np.ones((8, 8), np.float32), (8, 8))
    args = map_, np.zeros(1, "V128"), np.zeros(1, np.int32), np.zeros(1, np.float32)
    report = smemkit.check(HANDED_OVER[acquired(where)][2, 32], *args)
    if where == "ACQUIRE":
        assert not report.faults, report
    else:
        (fault,) = report.faults
        assert "no fence.proxy.tensormap::generic.acquire" in fault.message
        assert "generic.acquire.gpu" in fault.fix


def test_each_copy_with_a_map_that_was_not_acquired_is_told():
    args = smemkit.TensorMap(np.ones((8, 8), np.float32), (8, 8)), np.zeros(2, "V128")
    report = smemkit.check(smemkit.Kernel(STORES)[1, 64], *args)
    assert len({fault.line for fault in report.faults if fault.hazard == "proxy"}) == 2, report


@pytest.mark.parametrize(
    ("text", "map_"),
    [
        ('asm volatile("cp.async.bulk.tensor…" :: "r"(to), "l"((uint64_t)map), "l"(policy));', "(uint64_t)map"),
        ('asm volatile("cp.async.bulk.tensor…" :: "l"(&maps[index(3)]), "l"(policy));', "&maps[index(3)]"),
        (
            "ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, to, &maps[f(0)], at, &full);",
            "&maps[f(0)]",
        ),
        ("cp_async_bulk_tensor(space_global, space_shared, &map, at, from);", "&map"),
        ("cp_reduce_async_bulk_tensor(space_global, space_shared, op_add, map, at, from);", "map"),
        ("copy(map);", ""),
    ],
)
def test_the_fix_finds_the_map_of_a_copy(text, map_):
    assert _map_operand(text) == map_
