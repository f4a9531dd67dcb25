"""The fixes that a report proposes: applied mechanically, each makes its kernel silent; and what they say."""

import json
import re
import time

import numpy as np
import pytest
from kernel_files import TESTS, read
from together import Kernels, Variants, together

import smemkit
from smemkit.checker.edits import Edit, Fix, apply

# These need the author's judgement: a report says what to do, and proposes no edits.
BY_HAND = re.findall(
    r"\w+",
    """
    barrier_counts_warps barrier_id_of_both_halves barrier_ids_collide barrier_token_late
    mbarrier_init_by_all mbarrier_parity_not_flipped mbarrier_wrong_parity
    wmma_leading_dimension wmma_odd_rows wmma_rows_overlap
    bulk_bytes_short bulk_misaligned bulk_no_wait bulk_released_early bulk_store_read_back
    barrier_after_break barrier_in_loop bins_of_signed_chars bytes_before_floats carved_misaligned
    carved_overlap consumer_only_arrives copy_past_row divided_by_zero failed_assert flag_never_set
    float4_from_second grid_barrier_count group_sync_in_branch int_from_bytes local_overrun lock_not_released
    mbarrier_after_inval mbarrier_count mbarrier_init_twice mbarrier_too_many mma_half_warp
    matmul_no_guard named_barrier_count named_barrier_for_both named_barrier_of_lanes named_barrier_zero
    negative_index neighbour_never_done no_return overlapping_outputs
    pipeline_early_release pipeline_no_wait pipeline_without_roles
    reset_by_every_block reverse_in_place row_overrun same_output shuffle_from_exited stale_maximum
    stencil_in_place swapped_extents syncthreads_for_grid table_never_set tile_edge transpose_in_place
    transposed_tile two_names_one_memory unknown_code volatile_flag volatile_warp_reduction writes_constant
    wrong_pitch zeroed_by_neighbour cluster_exits_early cluster_no_first_sync cluster_slot_reused wgmma_no_fence
    cluster_arrives_at_exited multicast_not_expected store_async_bytes store_async_no_wait
    wgmma_no_wait wgmma_operand_overwritten wgmma_stage_released_early wgmma_three_warps wgmma_tile_overwritten
    cluster_arrives_relaxed setmaxnreg_budget setmaxnreg_one_warp
    """,
)
FAULTY = [read(path) for path in sorted((TESTS / "faulty").glob("*.cu")) if not path.stem.endswith(".fixed")]


def fixed_check(case, report, **options):
    """The report on a kernel after the edits of another report."""
    fixes = [fault.fix for fault in report.faults if fault.fix]
    file = next((edit.file for fix in fixes for edit in fix.edits), "")
    text = case.path.read_text()
    text = apply({file: text}, fixes)[file] if file else text
    shared = max([case.shared, *(fix.shared_bytes or 0 for fix in fixes)])
    return case.check(source=text, shared=shared, **options)


@pytest.mark.parametrize("case", [pytest.param(case, id=case.path.stem) for case in FAULTY])
@pytest.mark.covering(1, most=6)
def test_proposed_fix_makes_the_kernel_silent(case, monkeypatch):
    monkeypatch.setenv("SMEMKIT_WATCHDOG", "1" if case.fault[0] == "hang" else "20")
    report = case.check()
    mechanical = any(fault.fix and (fault.fix.edits or fault.fix.shared_bytes) for fault in report.faults)
    assert mechanical == (case.path.stem not in BY_HAND), report
    assert all(fault.fix for fault in report.faults), report
    if mechanical:
        after = fixed_check(case, report)
        others = set(case.fault[1:])  # kinds of faults that the file names besides the one that is fixed
        assert {fault.kind for fault in after.faults if fault.severity == "error"} <= others, f"{report}\n{after}"


FLOATS = (np.zeros(8192, np.float32),)
KERNELS = Kernels()  # those whose fixes are not applied


def check(source, *shape, **options):
    return check_kernel(smemkit.Kernel(source), *shape, **options)


def check_kernel(kernel, grid=1, block=64, shared=0, arguments=FLOATS, **options):
    return smemkit.check(kernel[grid, block, shared], *arguments, **options)


def check_fixed(source, report, grid=1, block=64, arguments=FLOATS):
    file = report.faults[0].file
    text = apply({file: source}, [fault.fix for fault in report.faults])[file]
    return check(text, grid, block, arguments=arguments)


TREE = """__global__ void tree(float *x)
{
    __shared__ float s[128];
    int t = threadIdx.x;
    s[t] = x[t];
    for (int stride = 64; stride > 0; stride /= 2)
        if (t < stride)
            s[t] += s[t + stride];
    if (t == 0)
        x[0] = s[0];
}
"""


def test_tree_without_barriers_gets_them_outside_the_if():
    report = check(TREE, block=128)
    (fault,) = report.faults
    assert "Put __syncthreads() before line 7, at the start of the loop body, outside the `if`" in fault.fix
    assert check_fixed(TREE, report, block=128).ok


MATMUL = """__global__ void matmul(float *a, float *b, float *c, int n)
{
    __shared__ float as[16][16], bs[16][16];
    int tx = threadIdx.x, ty = threadIdx.y;
    float sum = 0;
    for (int k = 0; k < n; k += 16) {
        as[ty][tx] = a[ty * n + k + tx];
        bs[ty][tx] = b[(k + ty) * n + tx];
        BARRIER
        for (int i = 0; i < 16; i++)
            sum += as[ty][i] * bs[i][tx];
    }
    c[ty * n + tx] = sum;
}
"""
MATRICES = (*(np.ones((32, 32), np.float32) for _ in range(3)), 32)


def test_forgotten_second_barrier_is_one_fault_with_its_place():
    source = MATMUL.replace("BARRIER", "__syncthreads();")
    report = check(source, block=(16, 16), arguments=MATRICES)
    (fault,) = report.faults
    assert "Put __syncthreads() after line 11, at the end of the loop body" in fault.fix
    assert not fault.warp_synchronous
    assert fault.knock_on
    assert "The same fix removes race" in str(report)
    assert check_fixed(source, report, block=(16, 16), arguments=MATRICES).ok


def test_matmul_without_barriers_needs_two():
    source = MATMUL.replace("BARRIER", "")
    report = check(source, block=(16, 16), arguments=MATRICES)
    assert len(report.faults) == 2, report
    assert check_fixed(source, report, block=(16, 16), arguments=MATRICES).ok


def test_branch_that_some_threads_do_not_enter_is_ended_before_the_barrier():
    source = """__global__ void k(float *x)
{
    __shared__ float s[64];
    int t = threadIdx.x;
    if (t < 50) {
        s[t] = x[t];
        x[t] = s[49 - t];
    }
}
"""
    report = check(source)
    (fault,) = report.faults
    assert "End the `if` of line 5 after line 6, put __syncthreads() there" in fault.fix
    assert check_fixed(source, report).ok


KERNELS.add("""
__global__ void returns_early(float *x)
{
    __shared__ float s[64];
    int t = threadIdx.x;
    if (t >= 50)
        return;
    s[t] = x[t];
    x[t] = s[49 - t];
}
""")


def test_return_before_a_missing_barrier_keeps_the_fix_to_words():
    (fault,) = check_kernel(KERNELS["returns_early"]).faults
    assert not fault.fix.edits
    assert "leave early" in fault.fix


def test_divergent_shuffle_is_about_lanes_and_not_barriers_of_the_block():
    source = """__global__ void k(float *x)
{
    float v = x[threadIdx.x];
    if (threadIdx.x % 32 < 16) {
        v += __shfl_xor_sync(0xffffffff, v, 8);
    }
    __syncthreads();
    x[threadIdx.x] = v;
}
"""
    report = check(source)
    (fault,) = report.faults
    assert fault.title == "warp divergence"
    assert "__ballot_sync" in fault.fix
    assert "__syncthreads" not in fault.fix + fault.meaning
    assert check_fixed(source, report).ok


KERNELS.add("""
__global__ void reverse(float *x)
{
    extern __shared__ float s[];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = s[63 - threadIdx.x];
}
""")


def test_a_launch_with_too_little_dynamic_shared_memory_is_given_the_bytes():
    report = check_kernel(KERNELS["reverse"])
    (fault,) = report.faults
    assert "no dynamic shared memory" in fault.fix
    assert "--shared 256" in fault.fix
    assert "if (" not in fault.fix
    assert check_kernel(KERNELS["reverse"], shared=fault.fix.shared_bytes).ok


KERNELS.add("""
__global__ void early_return(float *x)
{
    if (threadIdx.x >= 50)
        return;
    __syncthreads();
    x[threadIdx.x] = 1;
}
__global__ void divergent_barrier(float *x)
{
    if (threadIdx.x >= 50)
        __syncthreads();
    x[threadIdx.x] = 1;
}
""")


def test_early_return_is_distinguished_from_a_divergent_barrier():
    (fault,) = check_kernel(KERNELS["early_return"]).faults
    assert fault.title == "early return before a barrier"
    for words in ("programming guide", "Volta", "strict"):
        assert words in fault.meaning
    (other,) = check_kernel(KERNELS["divergent_barrier"]).faults
    assert other.title == "barrier divergence"


STORED = {"1": "warning", "n": "warning", "t": "error", "blockIdx.x": "warning"}
STORE = "__global__ void k(float *x, int n) {\n int t = threadIdx.x;\n x[0] = VALUE;\n}"
STORES = Variants("k")
for value in STORED:
    STORES.add(STORE.replace("VALUE", value))


@pytest.mark.parametrize(("value", "severity"), STORED.items())
def test_same_value_stores_by_one_instruction_are_warnings(value, severity):
    kernel = STORES[STORE.replace("VALUE", value)]
    report = check_kernel(kernel, arguments=(np.zeros(64, np.float32), 3))
    assert {fault.severity for fault in report.faults} == {severity}
    assert report.ok == (severity == "warning")
    between = check_kernel(kernel, grid=2, block=1, arguments=(np.zeros(64, np.float32), 3))
    expected = "error" if value == "blockIdx.x" else severity if value != "t" else "warning"
    assert {fault.severity for fault in between.faults} <= {expected, "error"}


KERNELS.add("""
__global__ void all_store(float *x)
{
    __shared__ int s;
    s = 1;
    x[threadIdx.x] = s;
}
__global__ void some_store(float *x)
{
    __shared__ int s;
    if (threadIdx.x < 7) s = 1;
    x[threadIdx.x] = s;
}
""")


def test_reading_a_value_that_all_store_is_a_warning():
    report = check_kernel(KERNELS["all_store"])
    assert report.ok, report
    assert {fault.severity for fault in report.faults} == {"warning"}
    other = check_kernel(KERNELS["some_store"])
    assert not other.ok


def test_step_in_two_loops_gets_its_barrier_in_the_loop_that_all_run():
    source = """__global__ void k(float *x)
{
    __shared__ float s[128];
    for (int i = threadIdx.x; i < 128; i += 64)
        s[i] = x[i];
    for (int stride = 64; stride > 0; stride /= 2) {
        for (int i = threadIdx.x; i < stride; i += 64)
            s[i] += s[stride + i];
    }
    if (threadIdx.x == 0)
        x[0] = s[0];
}
"""
    report = check(source)
    (fault,) = report.faults
    assert "before line 7, at the start of the loop body" in fault.fix
    assert check_fixed(source, report).ok


KERNELS.add("""
__global__ void interleaved(float *x)
{
    int i = threadIdx.x;
    if (i % 2)
        x[i] = 1;
    else
        x[i] = 2;
}
""")


def test_interleaved_branches_are_divergent_and_not_misaligned():
    report = check_kernel(KERNELS["interleaved"])
    assert "divergent warps at" in report.headline
    assert "16 of 32 lanes active" in report.headline
    assert "sectors" not in report.headline
    for line in report.lines:
        assert line.divergent
        assert "past the start of a sector" not in line.advice


KERNELS.add("""
__global__ void one_a_block(float *x) { x[blockIdx.x] = 1; }
""")


def test_verdict_says_how_many_blocks_it_is_based_on():
    assert check_kernel(KERNELS["one_a_block"], grid=4000, block=1).headline.startswith(
        "no faults in 16 of 4,000 blocks"
    )
    assert check_kernel(KERNELS["one_a_block"], grid=7, block=1).headline.startswith("no faults in 7 blocks")


def test_json_has_the_fix():
    report = check(TREE, block=128)
    found = json.loads(json.dumps(report.to_dict()))["launches"][0]["faults"]
    assert found[0]["edits"][0].keys() == {"file", "line", "kind", "text"}
    assert found[0]["rule"].startswith("race-")
    assert all(isinstance(fault["knock_on"], list) for fault in found)


def test_edits_of_several_fixes_are_applied_together():
    first = Fix("", (Edit("k.cu", 1, "insert_after", "b"), Edit("k.cu", 3, "replace", "")))
    second = Fix("", (Edit("k.cu", 2, "replace", "C"), Edit("k.cu", 1, "insert_after", "b")))
    assert apply({"k.cu": "a\nc\nd\ne", "other.cu": "x"}, [first, second]) == {
        "k.cu": "a\nb\nC\ne",
        "other.cu": "x",
    }


# ---- reads out of bounds ----


def bounds_faults(kernel, *arguments):
    report = check_kernel(kernel, block=32, arguments=arguments)
    return report, [fault for fault in report.faults if fault.kind == "out_of_bounds"]


KERNELS.add("""
__global__ void index(const unsigned *x, float *y)
{
    int j = x[threadIdx.x + 4096];
    y[j] = 1;
}
""")


@pytest.mark.parametrize("length", [64, 4, 1])
def test_a_thread_continues_after_a_read_out_of_bounds(length):
    """Near the array, and in the guard pages around it."""
    report, faults = bounds_faults(KERNELS["index"], np.zeros(length, np.uint32), np.zeros(64, np.float32))
    first = KERNELS.line("int j", "index")
    assert [fault.line for fault in faults] == [first, first + 1], report
    assert "reads" in faults[0].message
    assert "writes" in faults[1].message


KERNELS.add("""
__global__ void shared_index(const unsigned *x, float *y)
{
    __shared__ int s[32];
    s[threadIdx.x] = 0;
    int j = *(s + 32 + threadIdx.x * 512);
    y[j] = 1;
}
""")


def test_a_read_of_shared_memory_out_of_bounds_gives_poison():
    report, faults = bounds_faults(KERNELS["shared_index"], np.zeros(4, np.uint32), np.zeros(64, np.float32))
    first = KERNELS.line("int j", "shared_index")
    assert {first, first + 1} <= {fault.line for fault in faults}, report


KERNELS.add("""
__global__ void bound(const unsigned *x, float *y)
{
    unsigned n = x[4096 + threadIdx.x];
    for (unsigned i = 0; i < n; i++)
        y[threadIdx.x] += 1;
}
""")


def test_poison_as_the_bound_of_a_loop_ends(monkeypatch):
    monkeypatch.setenv("SMEMKIT_WATCHDOG", "20")
    report, faults = bounds_faults(KERNELS["bound"], np.zeros(64, np.uint32), np.zeros(64, np.float32))
    assert [fault.kind for fault in report.faults] == ["out_of_bounds"], report
    assert faults[0].line == KERNELS.line("unsigned n", "bound")


LOOPS = together(
    "k",
    [
        f"__global__ void k(const unsigned *x, float *y)\n{{\n{bound}\n"
        f"for (unsigned i = 0; i < n; i++) {{ {barrier}; y[threadIdx.x] += 1; }}\n}}\n"
        for bound in (
            "unsigned n = x[4096];",
            "__shared__ unsigned n; if (!threadIdx.x) n = x[4096];\n__syncthreads();",
        )
        for barrier in ("__syncthreads()", "__syncwarp()", "")
    ],
)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("k0", id="own-__syncthreads"),
        pytest.param("k1", id="own-__syncwarp"),
        pytest.param("k2", id="own-none"),
        pytest.param("k3", id="shared-__syncthreads"),
        pytest.param("k4", id="shared-__syncwarp", marks=pytest.mark.slow),
        pytest.param("k5", id="shared-none"),
    ],
)
def test_a_loop_whose_bound_is_poison_ends(name, monkeypatch):
    monkeypatch.setenv("SMEMKIT_WATCHDOG", "20")
    line = LOOPS[: LOOPS.index("x[4096]", LOOPS.index(f"{name}("))].count("\n") + 1
    began = time.monotonic()
    launch = smemkit.Kernel(LOOPS)[name][1, 32]
    report = smemkit.check(launch, np.zeros(64, np.uint32), np.zeros(64, np.float32))
    assert [(fault.kind, fault.line) for fault in report.faults] == [("out_of_bounds", line)], report
    assert time.monotonic() - began < 10


WAITS = {
    "its own": "unsigned n = x[64];\nwhile (atomicAdd((unsigned *)y, 0u) != n) ;",
    "a flag": "if (threadIdx.x == 0) {\nunsigned n = x[64];\nfor (unsigned i = 0; i < n; i++) y[0] += 1;\n"
    "arrived = 1;\n}\nelse while (*(volatile unsigned *)&arrived == 0) ;",
    "two reads of a line": "unsigned n = x[64] | (unsigned)(y + 1)[63];\n"
    "while (atomicAdd((unsigned *)y, 0u) != n) ;",
}
WAITING = "__device__ unsigned arrived;\n__global__ void k(const unsigned *x, float *y) {\nBODY\n}"
WAITS_FOR_POISON = Variants("k")
for body in WAITS.values():
    WAITS_FOR_POISON.add(WAITING.replace("BODY", body))


@pytest.mark.parametrize("name", WAITS)
def test_a_wait_for_poison_is_folded_under_the_read(name):
    """Of others for a thread that was terminated, or of the thread itself, unless it is terminated first."""
    kernel = WAITS_FOR_POISON[WAITING.replace("BODY", WAITS[name])]
    report = smemkit.check(kernel[1, 32], np.zeros(64, np.uint32), np.zeros(64, np.float32))
    assert {fault.kind for fault in report.faults} == {"out_of_bounds"}, report
    waits = [consequence for fault in report.faults for consequence in fault.knock_on]
    assert len(waits) == 1 or (not waits and name != "a flag")
    for wait in waits:
        assert wait.kind == "hang"
        assert {wait.other_line} == {fault.line for fault in report.faults}
        assert "The same fix removes endless wait" in " ".join(str(report).split())


KERNELS.add("""
__global__ void others_wait(const unsigned *x, float *y)
{
    if (threadIdx.x == 31)
        y[0] = x[4096];
    while (((volatile float *)y)[1] == 0 && threadIdx.x < 31)
        ;
}
__global__ void reads_on(const unsigned *x, float *y)
{
    int i = 0;
    while (x[i] != 7u)
        i++;
    y[0] = i;
}
""")


def test_a_wait_of_a_thread_without_poison_is_a_fault_of_its_own():
    report, _ = bounds_faults(KERNELS["others_wait"], np.zeros(64, np.uint32), np.zeros(64, np.float32))
    assert [fault.kind for fault in report.faults] == ["out_of_bounds", "hang"], report


def test_a_loop_that_only_reads_out_of_bounds_ends():
    report, _ = bounds_faults(KERNELS["reads_on"], np.zeros(64, np.uint32), np.zeros(64, np.float32))
    assert [fault.kind for fault in report.faults] == ["out_of_bounds"], report


def test_guards_are_back_after_a_check():
    source = "__global__ void k(const unsigned *x, float *y) { y[threadIdx.x] = x[4096 + threadIdx.x]; }"
    kernel = smemkit.Kernel(source)[1, 32]
    for _ in range(2):
        assert not smemkit.check(kernel, np.zeros(64, np.uint32), np.zeros(64, np.float32)).ok
        x, y = (smemkit.zeros(64, dtype=dtype, device="cpu") for dtype in (np.uint32, np.float32))
        smemkit.check(kernel, x, y)
        with pytest.raises(smemkit.Error, match="past the end"):
            kernel(x, y)


@pytest.mark.parametrize("name", ["pipeline_prior_off_by_one", "async_copy_no_wait"])
def test_a_copy_that_is_read_too_early_is_one_fault(name):
    """Also where another thread's copy is complete by then: it stands where it was issued, before the read."""
    report = read(TESTS / "faulty" / f"{name}.cu").check()
    (fault,) = report.faults
    assert {related.hazard for related in (fault, *fault.knock_on)} == {"RAW"}, report


def test_fixes_of_copies_do_not_edit_comments():
    source = """
#include <cuda_pipeline.h>
__global__ void k(const float *x, float *y)
{
    __shared__ float s[64];
    __pipeline_memcpy_async(&s[threadIdx.x], &x[threadIdx.x], 4);
    __pipeline_commit();
    // here one should wait(1) for it
    __syncthreads();
    y[threadIdx.x] = s[63 - threadIdx.x];
}
"""
    report = smemkit.check(smemkit.Kernel(source)[1, 64], np.zeros(64, np.float32), np.zeros(64, np.float32))
    assert "in flight" not in report.faults[0].fix
    assert all("wait(0)" not in edit.text for edit in report.faults[0].fix.edits)
