"""smemkit.check: its counts, its samples of blocks, its schedules, what it must not change, and rejected
arguments."""

import math
import subprocess
import threading
from functools import partial

import numpy as np
import pytest
from cases import run_python
from tiers import times
from together import Kernels

import smemkit
from smemkit.checker import check as check_module
from smemkit.checker import source_lines

KERNELS = Kernels()
MATRIX = np.arange(1024 * 1024, dtype=np.float32).reshape(1024, 1024)


def totals(report, space, access, what):
    return sum(getattr(line, what) for line in report.lines if (line.space, line.access) == (space, access))


def line_of(report, text):
    (line,) = {(line.file, line.line) for line in report.lines if text in line.text}
    return line


# ---- counts that the hardware's counters confirm (Nsight Compute on an H200) ----


@pytest.mark.parametrize(
    ("kernel", "loads", "conflicts", "stores"),
    [("unpadded", 1_048_576, 1_015_808, 32_768), ("padded", 32_768, 0, 32_768)],
)
def test_transpose_has_the_hardwares_wavefronts(kernel, loads, conflicts, stores):
    """Of 1024 × 1024 elements; each quarter of them has a quarter of the wavefronts."""
    n = times(1024, 512)
    part = 1024**2 // n**2
    report = smemkit.check(smemkit.transpose, MATRIX[:n, :n], kernel=kernel, blocks="all")
    assert report.ok, report
    assert totals(report, "shared", "load", "wavefronts") == loads // part
    assert totals(report, "shared", "load", "conflicts") == conflicts // part
    assert totals(report, "shared", "store", "wavefronts") == stores // part
    assert totals(report, "shared", "store", "conflicts") == 0
    for access in "load", "store":
        assert totals(report, "global", access, "sectors") == n * n * 4 // 32


def test_tree_reduction_has_the_hardwares_wavefronts():
    report = smemkit.check(smemkit.sum, np.ones(2560, np.int32), kernel="tree", block_size=256, blocks="all")
    first = report.launches[0]
    assert first.blocks == first.blocks_checked == 10
    assert len(report.launches) == 2
    assert sum(line.conflicts for line in first.lines) == 0
    # Sums of integers have 64 bits, so that 16 lanes fill the banks. First 8 warps store with 2 wavefronts each.
    # Then 4, 2 and 1 warps add, with 2 wavefronts each. From stride 16 on at most half a warp adds, and 1
    # wavefront is enough.
    adds = 2 * (4 + 2 + 1) + 5
    stores = [line.wavefronts for line in first.lines if (line.space, line.access) == ("shared", "store")]
    loads = [line.wavefronts for line in first.lines if (line.space, line.access) == ("shared", "load")]
    assert sum(stores) == 10 * (8 * 2 + adds)
    assert sum(loads) == 10 * (2 * adds + 1)


KERNELS.add("""
__global__ void barriers(int *x, int n)
{
    for (int i = 0; i < n; i++)
        __syncthreads();
    x[blockIdx.x * blockDim.x + threadIdx.x] = __syncthreads_count(1);
}
""")


def test_barriers_are_counted_per_block_and_not_per_thread():
    report = smemkit.check(KERNELS["barriers"][3, 70], np.zeros(210, np.int32), 4)
    assert report.launches[0].barriers == 3 * 5
    assert report.to_dict()["launches"][0]["barriers"] == 15
    assert (
        smemkit.check(KERNELS["barriers"][40, 32], np.zeros(1280, np.int32), 0, blocks=4).launches[0].barriers == 4
    )


KERNELS.add("""
__global__ void tree(const float *x, float *y)
{
    __shared__ float s[256];
    const int t = threadIdx.x;
    s[t] = x[blockIdx.x * 256 + t];
    __syncthreads();
    for (int stride = 128; stride > 0; stride /= 2) {
        if (t < stride)
            s[t] += s[t + stride];
        __syncthreads();
    }
    if (t == 0)
        y[blockIdx.x] = s[0];
}
""")


def test_tree_of_floats_takes_25_load_and_20_store_wavefronts_a_block():
    report = smemkit.check(KERNELS["tree"][3, 256], np.ones(768, np.float32), np.zeros(3, np.float32))
    assert report.ok, report
    assert totals(report, "shared", "load", "wavefronts") == 3 * 25
    assert totals(report, "shared", "store", "wavefronts") == 3 * 20


KERNELS.add("""
__global__ void strided_copy(const float *x, float *y, int stride)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i * stride];
}
""")


@pytest.mark.parametrize(("stride", "sectors"), [(1, 4), (2, 8), (4, 16), (32, 32)])
def test_strided_copies_touch_the_hardwares_sectors(stride, sectors):
    report = smemkit.check(
        KERNELS["strided_copy"][4, 64], np.ones(256 * stride, np.float32), np.zeros(256, np.float32), stride
    )
    (load,) = [line for line in report.lines if line.access == "load"]
    assert (load.requests, load.sectors, load.ideal_sectors) == (8, 8 * sectors, 8 * 4)


KERNELS.add("""
__global__ void vector_copy(const float4 *x, float4 *y)
{
    const float4 v = __ldg(&x[threadIdx.x]);
    __stcs(&y[threadIdx.x], v);
}
""")


def test_vector_access_with_cache_hint_counts_once():
    lines = smemkit.check(KERNELS["vector_copy"][1, 32], np.ones(128, np.float32), np.zeros(128, np.float32)).lines
    load, store = (KERNELS.line(text, "vector_copy") for text in ("__ldg", "__stcs"))
    assert [(line.line, line.access, line.requests, line.sectors) for line in lines] == [
        (load, "load", 1, 16),
        (store, "store", 1, 16),
    ]


KERNELS.add("""
__global__ void skip(const float *x, float *y)
{
    const int t = threadIdx.x;
    float sum = 0;
    for (int i = 0; i < 8; i++) {
        if ((t + i) % 2)
            continue;
        sum += x[i * 32 + t];
    }
    y[t] = sum;
}
""")


def test_divergent_lanes_are_requests_of_their_own():
    """Half of the lanes skip each iteration: eight requests of 16 lanes, not four of 32."""
    report = smemkit.check(KERNELS["skip"][1, 32], np.ones(256, np.float32), np.zeros(32, np.float32))
    (load,) = [line for line in report.lines if line.access == "load"]
    assert load.requests == 8


for name, statement in (
    ("store_at", "mine[x[t] % 8] = t"),
    ("add_at", "atomicAdd(&mine[x[t] % 8], 1)"),
    ("add_by_pointer", "mine[*(x + t)] += 1"),
):
    KERNELS.add(f"""
__global__ void {name}(const int *x, int *y)
{{
    __shared__ int mine[32];
    const int t = threadIdx.x;
    {statement};
    __syncthreads();
    y[t] = mine[t];
}}
""")


@pytest.mark.parametrize("name", ["store_at", "add_at", "add_by_pointer"])
def test_an_index_is_read_once(name):
    """g++ compares it with the array's length, for which it would read memory that is const once more."""
    report = smemkit.check(KERNELS[name][1, 32], np.arange(32, dtype=np.int32), np.zeros(32, np.int32))
    loads = [line for line in report.lines if line.access == "load" and line.space == "global"]
    assert [load.requests for load in loads] == [1]


KERNELS.add("""
__global__ void rows(const float *x, float *y, int n)
{
    float sum = 0;
    for (int i = 0; i < (threadIdx.x % 2 ? n : n / 2); i++)
        sum += x[i];
    y[threadIdx.x] = sum;
}
""")


def test_access_logs_beyond_their_capacity_are_merged():
    """A thread's log holds some thousand accesses. When it is full, its accesses are merged."""
    report = smemkit.check(KERNELS["rows"][1, 64], np.ones(10_000, np.float32), np.zeros(64, np.float32), 10_000)
    assert report.ok, report
    (load,) = [line for line in report.lines if line.access == "load"]
    assert load.requests == 2 * 10_000
    assert load.sectors == load.ideal_sectors == 2 * 10_000


def test_pages_of_the_checkers_memory_are_mapped_once():
    """A page that is read before it is written is mapped twice, and the second time interrupts other threads."""
    resource = pytest.importorskip("resource")
    x, bytes_per_word, page = np.ones((512, 512), np.float32), 120, resource.getpagesize()

    def page_faults():
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        smemkit.check(smemkit.transpose, x, kernel="padded", blocks="all", device="cpu")
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    page_faults()
    assert page_faults() < 1.3 * 2 * x.size * bytes_per_word / page


# ---- sampled blocks ----


def test_large_grids_are_sampled_and_the_report_says_so():
    blocks = times(1024, 256)
    x = np.ones((8 * math.isqrt(blocks),) * 2, np.float32)
    report = smemkit.check(smemkit.matmul, x, x, kernel="tiled", tile=8)
    (launch,) = report.launches
    assert (launch.blocks_checked, launch.blocks) == (16, blocks)
    which = "the first and the last, and others between them with their neighbours"
    assert f"16 of {blocks:,} blocks were checked: {which}" in " ".join(str(report).split())
    everything = smemkit.check(smemkit.matmul, x, x, kernel="tiled", tile=8, blocks="all").launches[0]
    assert everything.blocks_checked == blocks
    for some, all_of_them in zip(launch.lines, everything.lines, strict=True):
        assert some.requests * blocks == 16 * all_of_them.requests
    assert smemkit.check(smemkit.matmul, x, x, tile=8, blocks=3).launches[0].blocks_checked == 3


KERNELS.add("""
__global__ void count_blocks(int *n) { if (threadIdx.x == 0) atomicAdd(n, 1); }
""")


def test_cooperating_blocks_are_all_checked():
    report = smemkit.check(KERNELS["count_blocks"][500, 32], np.zeros(1, np.int32))
    assert report.ok, report
    assert report.launches[0].blocks_checked == 500
    report = smemkit.check(smemkit.sum, np.ones(40_000, np.float32), kernel="atomic")
    assert [launch.blocks_checked for launch in report.launches] == [launch.blocks for launch in report.launches]


@pytest.mark.parametrize("index", [0, 63, 64, -1])
def test_the_rows_whose_blocks_are_all_checked(index):
    """Each row of the kernel table has a byte of its own, however many rows there are."""
    from smemkit import _core

    rows = _core.kernel_rows()
    mine = next(i for i, row in enumerate(rows) if (row["op"], row["name"]) == ("transpose", "padded"))
    index = [i for i in range(len(rows)) if i != mine][index]
    x = np.ones((320, 320), np.float32)

    def checked(*chosen):
        flags = bytes(i in chosen for i in range(len(rows)))
        run = partial(smemkit.transpose, x, kernel="padded", device="cpu")
        return [launch["blocks_checked"] for launch in _core.checked(run, 1, 0, 0, flags, 1)]

    assert smemkit.check(smemkit.transpose, x, kernel="padded").ok  # loads the checked kernels
    assert checked(index) == checked() == [1]
    assert checked(index, mine)[0] > 1
    with pytest.raises(ValueError, match=f"all_blocks_rows: expected {len(rows)} bytes"):
        _core.checked(lambda: None, 1, 0, 0, b"1", 1)


def test_an_operation_of_several_launches_reports_each():
    report = smemkit.check(smemkit.sum, np.ones(70_000, np.float32), kernel="tree", block_size=256)
    assert [launch.blocks for launch in report.launches] == [274, 2, 1]


def test_neighbours_are_among_the_blocks_of_a_sample():
    """Most races between blocks are races between neighbours."""
    kernel = smemkit.Kernel("""
        __global__ void smooth(float *u)
        {
            const int i = blockIdx.x * blockDim.x + threadIdx.x + 1;
            const float mean = (u[i - 1] + u[i + 1]) / 2;
            __syncthreads();
            u[i] = mean;
        }""")
    report = smemkit.check(kernel[2000, 32], np.ones(2000 * 32 + 2, np.float32))
    assert report.launches[0].blocks_checked == 16
    assert any(fault.kind == "race" and fault.other_block for fault in report.faults), report


KERNELS.add("""
__global__ void mark(int *seen)
{
    int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    if (block == 0 || block == 99)
        seen[100] = block;
    else
        seen[block] = 1;
}
""")


@pytest.mark.parametrize("blocks", [1, 2, 3, 4, 5, 16, 99, 100, 200])
@pytest.mark.parametrize("grid", [(100,), (10, 10), (1, 100), (4, 5, 5)])
def test_samples_have_the_requested_size_and_both_ends(grid, blocks):
    report = smemkit.check(KERNELS["mark"][grid, 1], np.zeros(100, np.int32), blocks=blocks)
    assert report.launches[0].blocks_checked == min(blocks, 100)
    outside = [fault for fault in report.faults if fault.kind == "out_of_bounds"]
    assert sum(fault.count for fault in outside) == min(blocks, 2)


# ---- schedules ----

ORDER = """
__global__ void last_wins(int *winner)
{
    atomicExch(winner, (int)threadIdx.x);
}
"""
KERNELS.add("""
__global__ void volatile_reduce(const float *x, float *y)
{
    __shared__ volatile float s[64];
    const int t = threadIdx.x;
    s[t] = x[t];
    s[t + 32] = x[t + 32];
    s[t] += s[t + 32];
    s[t] += s[t + 16];
    s[t] += s[t + 8];
    s[t] += s[t + 4];
    s[t] += s[t + 2];
    s[t] += s[t + 1];
    assert(t || s[0] == 64);
    y[t] = s[0];
}
""")


def test_lockstep_runs_warp_synchronous_code_like_old_gpus():
    kernel = KERNELS["volatile_reduce"]
    arguments = np.ones(64, np.float32), np.zeros(32, np.float32)
    for schedule, traps in {"lockstep": False, "serial": True}.items():
        report = smemkit.check(kernel[1, 32], *arguments, schedule=schedule)
        assert any(fault.kind == "trap" for fault in report.faults) is traps, report
        races = [fault for fault in report.faults if fault.kind == "race"]
        assert races and all(fault.warp_synchronous for fault in races), report


KERNELS.add("""
__global__ void order(int *next, int *turn)
{
    turn[threadIdx.x] = atomicAdd(next, 1);
    if (threadIdx.x == 0 && turn[0] != 0)
        __trap();
}
""")


def test_random_schedules_depend_on_the_seed_alone():
    def first_is_late(seed):
        report = smemkit.check(
            KERNELS["order"][1, 64], np.zeros(1, np.int32), np.zeros(64, np.int32), schedule="random", seed=seed
        )
        return not report.ok

    verdicts = [first_is_late(seed) for seed in range(12)]
    assert any(verdicts)
    assert verdicts == [first_is_late(seed) for seed in range(12)]


KERNELS.add("""
__global__ void horner(const float *c, float *y, int n)
{
    float a = 0;
    for (int i = 0; i < n; i++)
        a = a * c[0] + c[1];
    y[threadIdx.x] = a;
}
""")


def test_loop_over_the_same_words_is_not_a_hang():
    report = smemkit.check(
        KERNELS["horner"][1, 64], np.ones(2, np.float32) / 2, np.zeros(64, np.float32), times(1_000_000, 200_000)
    )
    assert report.ok, report


# ---- what it must not change ----


KERNELS.add("""
__global__ void clear(float *x) { x[threadIdx.x] = 0; }
""")


def test_check_does_not_change_arguments():
    x, out = np.ones(32, np.float32), np.full((8, 8), 7, np.float32)
    on_device = smemkit.asarray(x, device="cpu")
    assert smemkit.check(KERNELS["clear"][1, 32], x).ok
    assert smemkit.check(KERNELS["clear"][1, 32], on_device).ok
    assert smemkit.check(smemkit.transpose, np.ones((8, 8), np.float32), out=out).ok
    assert (x == 1).all() and (out == 7).all() and (on_device.numpy() == 1).all()


def test_operands_that_overlap_overlap_in_the_check_as_well():
    memory = smemkit.asarray(np.arange(64 * 64 + 16, dtype=np.float32), device="cpu")
    x, y = memory[16:].reshape(64, 64), memory[:-16].reshape(64, 64)
    alone = smemkit.check(smemkit.transpose, x, out=x.copy())
    overlapping = smemkit.check(smemkit.transpose, x, out=y)
    assert alone.ok and overlapping.ok
    assert len(overlapping.launches) > len(alone.launches)  # the result is computed elsewhere, and copied


def test_square_transposed_in_place_is_checked_in_place():
    x = smemkit.asarray(np.arange(80 * 128, dtype=np.float32).reshape(80, 128), device="cpu")
    square = x[:, 16:96]
    report = smemkit.check(smemkit.transpose, square, out=square, blocks="all")
    assert report.ok and [launch.kernel for launch in report.launches] == ["transpose_vectors_in_place"]
    np.testing.assert_array_equal(x.numpy().ravel(), np.arange(80 * 128))


def test_copies_have_strides_and_alignment_of_the_operands():
    x = smemkit.asarray(np.ones((64, 65), np.float32), device="cpu")
    for view in (x, x.T, x[:, 1:33], x[::-2]):
        (copy,) = check_module._copies([view])
        assert copy.strides == view.strides
        assert (copy.address - view.address) % 256 == 0


def test_plain_launches_of_other_threads_are_not_traced():
    stop, wrong = threading.Event(), []

    def work():
        while not stop.is_set():
            if smemkit.sum(np.ones(1000, np.float32), device="cpu") != 1000:
                wrong.append(1)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(times(10, 4)):
            assert len(smemkit.check(smemkit.transpose, MATRIX[:64, :64]).launches) in (1, 2)
    finally:
        stop.set()
        thread.join()
    assert not wrong


def test_checks_of_several_threads_do_not_mix():
    found = {}

    def check(rows):
        report = smemkit.check(smemkit.transpose, np.ones((rows, 32), np.float32), kernel="naive")
        found[rows] = totals(report, "global", "load", "requests")

    threads = [threading.Thread(target=check, args=(32 * i,)) for i in range(1, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {32 * i: 32 * i for i in range(1, 6)}


KERNELS.add("""
__global__ void some(float *x, int n) { x[blockIdx.x * 32 + threadIdx.x] = n / (blockIdx.x - 1); }
""")


def test_fault_ends_only_its_block():
    report = smemkit.check(KERNELS["some"][3, 32], np.zeros(96, np.float32), 7)
    (fault,) = report.faults
    assert (fault.kind, fault.block) == ("trap", (1, 0, 0))
    assert report.launches[0].blocks_checked == 3
    assert smemkit.check(smemkit.sum, np.ones(100, np.float32)).ok


# ---- rejected arguments ----


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (
            (smemkit.transpose, MATRIX),
            {"schedule": "parallel"},
            "schedule: expected one of serial, lockstep, random",
        ),
        ((smemkit.transpose, MATRIX), {"seed": -1}, "seed: expected an integer from 0 to 2**64 - 1, got -1"),
        (
            (smemkit.transpose, MATRIX),
            {"blocks": 0},
            "blocks: expected 'auto', 'all' or a positive integer, got 0",
        ),
        ((smemkit.transpose, MATRIX), {"blocks": "some"}, "got 'some'"),
        (
            (smemkit.transpose, MATRIX),
            {"device": "cuda:0"},
            "device: a check runs on the CPU device, got 'cuda:0'",
        ),
        ((smemkit.matmul, MATRIX, MATRIX), {"kernel": "sequential"}, "which is plain C"),
        (
            (np.transpose, MATRIX),
            {},
            "target: expected an operation of smemkit, kernel[grid, block] or a chain of launches",
        ),
        ((smemkit.transpose, MATRIX), {"color": "red"}, "color"),
        ((smemkit.transpose,), {}, "missing a required argument: 'x'"),
        ((smemkit.Kernel(ORDER), MATRIX), {}, "a Kernel without a launch"),
        ((smemkit.Kernel(ORDER)[1, 32], np.zeros(1, np.int32)), {"tile": 3}, "takes no options of an operation"),
        ((smemkit.Kernel(ORDER)[1, 32], np.zeros(1)), {}, "winner: expected"),
    ],
)
def test_refusals(arguments, options, message):
    with pytest.raises((TypeError, ValueError), match=None) as error:
        smemkit.check(*arguments, **options)
    assert message in str(error.value)


def test_a_check_inside_a_check_is_refused():
    from smemkit import _core

    with pytest.raises(RuntimeError, match="check: checks cannot be nested"):
        _core.checked(lambda: smemkit.check(smemkit.sum, np.ones(10, np.float32)), 0, 0, 0, None, 1)
    assert smemkit.check(smemkit.sum, np.ones(10, np.float32)).ok


def test_line_tables_are_kept_in_the_cache(monkeypatch, tmp_path):
    def lines():
        source_lines._line_table.cache_clear()
        report = smemkit.check(smemkit.transpose, MATRIX[:40, :40], kernel="padded")
        return [(line.file, line.line, line.access, line.text) for line in report.lines]

    monkeypatch.setenv("SMEMKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(source_lines, "_LARGE_PROGRAM", 1 << 40)
    expected = lines()
    assert len(expected) == len(set(expected)) == 4
    assert not list(tmp_path.glob("cache/*.npz"))  # a small one's is not kept
    monkeypatch.setattr(source_lines, "_LARGE_PROGRAM", 100)
    assert lines() == expected
    (entry,) = tmp_path.glob("cache/*.npz")
    with monkeypatch.context() as patch:
        patch.setattr(source_lines._LineTable, "_rows", None)  # must not be called
        assert lines() == expected
    entry.write_bytes(entry.read_bytes()[:-100])
    assert lines() == expected
    with np.load(entry) as written_again:
        assert written_again["rows"].size
    monkeypatch.setenv("SMEMKIT_CACHE", "/dev/null/nowhere")
    assert lines() == expected


# ---- launches ----


KERNELS.add("""
struct corner { long row, column; };
__global__ void takes_a_corner(float *x, corner first) { x[first.row + threadIdx.x] = first.column; }
""")


def test_a_structure_passed_by_value_is_no_access():
    first = np.array((1, 2), dtype=[("row", "i8"), ("column", "i8")])[()]
    report = smemkit.check(KERNELS["takes_a_corner"][1, 32], np.zeros(64, np.float32), first)
    assert report.ok, report
    assert [(line.access, line.requests) for line in report.lines] == [("store", 1)]


# ---- guard pages that a check has read ----

NO_PROTECTION = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/mman.h>

/* What takes the access to mapped pages away fails, as it does when a process has too many mappings. */
void *mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset)
{
    void *(*real)(void *, size_t, int, int, int, off_t) = dlsym(RTLD_NEXT, "mmap");
    if (protection == PROT_NONE && flags & MAP_FIXED)
        return MAP_FAILED;
    return real(at, bytes, protection, flags, file, offset);
}
int mprotect(void *at, size_t bytes, int protection)
{
    int (*real)(void *, size_t, int) = dlsym(RTLD_NEXT, "mprotect");
    return protection == PROT_NONE ? -1 : real(at, bytes, protection);
}
"""
READS_GUARDS = """
import numpy as np
import smemkit

for body in "x[0] = x[64];", "extern __shared__ float s[]; x[0] = s[1 << 14];":
    kernel = smemkit.Kernel("__global__ void k(float *x) { " + body + " }")
    try:
        print(smemkit.check(kernel[1, 1, 64], np.zeros(64, np.float32)).faults[0].kind)
    except smemkit.Error as error:
        print(error)
"""


def test_guards_that_cannot_be_restored_are_an_error(tmp_path, capsys):
    (tmp_path / "shim.c").write_text(NO_PROTECTION)
    shim = tmp_path / "shim.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", shim, tmp_path / "shim.c", "-ldl"], check=True)
    with smemkit.Device("cpu"):
        exec(READS_GUARDS, {})
    assert capsys.readouterr().out.splitlines() == ["out_of_bounds"] * 2
    refused = run_python("-c", READS_GUARDS, SMEMKIT_DEVICE="cpu", LD_PRELOAD=str(shim))
    refusals = ["refuses to protect the guard pages" in line for line in refused.stdout.splitlines()]
    assert refusals == [True] * 2, refused.stderr
