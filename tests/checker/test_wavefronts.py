"""Wavefronts of a warp's request to shared memory: hardware counters, textbook cases, rejected arguments."""

import json
import re

import ml_dtypes
import numpy as np
import pytest
from cases import ROOT
from tiers import times
from together import Variants

import smemkit

TRUTH = json.loads((ROOT / "tests" / "checker" / "bank_truth.json").read_text())
COPY_TRUTH = json.loads((ROOT / "tests" / "checker" / "copy_truth.json").read_text())
STMATRIX_TRUTH = json.loads((ROOT / "tests" / "checker" / "stmatrix_truth.json").read_text())


def lanes(stride, count=32, first=0):
    """The byte address of each lane."""
    return [first + stride * lane for lane in range(count)]


@pytest.mark.parametrize("op", ["load", "store"])
@pytest.mark.parametrize("size", [4, 8, 16])
def test_wavefronts_match_hardware_counts(op, size):
    rows = [row for row in TRUTH if (row["op"], row["size"]) == (op, size)]
    assert len(rows) == 40
    for row in rows:
        access = smemkit.wavefronts(row["addresses"], size, store=op == "store")
        assert (access.wavefronts, access.conflicts) == (row["wavefronts"], row["conflicts"]), row


COPY = r"""
__global__ void k(const char *x, const int *from, const int *to, unsigned active, unsigned read)
{
    __shared__ __align__(128) char s[8192];
    const int lane = threadIdx.x, taken = read >> lane & 1 ? SIZE : 0;
    const char *line = (const char *)(((unsigned long long)x + 127) / 128 * 128);
    const unsigned at = (unsigned)__cvta_generic_to_shared(&s[to[lane]]);
    if (active >> lane & 1)
        asm volatile("FORM.shared.global [%0], [%1], SIZETAKEN;" ::"r"(at), "l"(line + from[lane]), "r"(taken));
    asm volatile("cp.async.wait_all;");
}
"""


FORMS = [("cp.async.ca", 4), ("cp.async.ca", 8), ("cp.async.ca", 16), ("cp.async.cg", 16)]
FORMS += [("cp.async.cg, src-size", 16)]


def copy(form, size, source="line + from[lane]"):
    """The kernel with this form of a copy; of 'cp.async.cg' without a number of bytes to read."""
    text = COPY.replace("TAKEN", "" if form == "cp.async.cg" else ", %2").replace("SIZE", str(size))
    return text.replace("FORM", form.partition(",")[0]).replace("line + from[lane]", source)


WILD = [2**64 - 1024, 0x0020000000000000, 0xA5A5A5A5A5A5A5A4]
COPIES = Variants("k")
for form in FORMS:
    COPIES.add(copy(*form))
for address in WILD:
    COPIES.add(copy("cp.async.ca", 4, f"(const char *){address}ull"))


@pytest.mark.parametrize(("form", "size"), FORMS)
def test_wavefronts_of_copies_match_hardware_counts(form, size):
    truth = [row for row in COPY_TRUTH if (row["form"], row["size"]) == (form, size)]
    assert len(truth) == 90
    kernel = COPIES[copy(form, size)]
    x = np.zeros(1 << 20, np.int8)
    for row in truth[:: times(1, 18)]:
        active = sum(1 << lane for lane, at in enumerate(row["to"]) if at is not None)
        read = 0xFFFFFFFF - sum(1 << lane for lane in row["zeros"])
        at = [np.array([offset or 0 for offset in row[key]], np.int32) for key in ("from", "to")]
        report = smemkit.check(kernel[1, 32], x, *at, active, read)
        (line,) = (line for line in report.lines if (line.space, line.access) == ("shared", "store"))
        assert line.wavefronts == row["wavefronts"], row
        if row["conflicts"] is not None and set(row["zeros"]) in (set(), set(range(32))):
            assert line.conflicts == row["conflicts"], row


STMATRIX = r"""
__global__ void k(const int *rows)
{
    __shared__ __align__(128) char s[8192];
    const unsigned at = (unsigned)__cvta_generic_to_shared(&s[rows[threadIdx.x]]), word = 7;

    asm volatile("stmatrix.sync.aligned.m8n8.COUNT.shared.b16 [%0], {WORDS};" ::"r"(at), "r"(word));
}
"""


def stmatrix(count, trans):
    source = STMATRIX.replace("COUNT", f"x{count}.trans" if trans else f"x{count}")
    return source.replace("WORDS", ", ".join(["%1"] * count))


MATRICES = Variants("k")
for count in (1, 2, 4):
    for trans in (False, True):
        MATRICES.add(stmatrix(count, trans))


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_stmatrix_matches_hardware_counts(count, trans):
    assert len(STMATRIX_TRUTH) == 61
    kernel = MATRICES[stmatrix(count, trans)]
    for row in STMATRIX_TRUTH[:: times(1, 12)]:
        report = smemkit.check(kernel[1, 32], np.array(row["rows"], np.int32))
        (line,) = (line for line in report.lines if line.space == "shared")
        assert (line.access, line.requests) == ("store", 1)
        assert line.wavefronts == row["wavefronts"][f"x{count}"], row
        assert line.conflicts == line.wavefronts - count, row


def test_copies_of_half_a_line_take_twice_the_wavefronts_without_a_conflict():
    kernel = COPIES[copy("cp.async.cg", 16)]
    x, to = np.zeros(1 << 16, np.int8), np.arange(32, dtype=np.int32) * 16

    def copied(source):
        report = smemkit.check(kernel[1, 32], x, source.astype(np.int32), to, 0xFFFFFFFF, 0xFFFFFFFF)
        (line,) = (line for line in report.lines if (line.space, line.access) == ("shared", "store"))
        return line.wavefronts, line.conflicts, line.degree, line.advice

    assert copied(to) == (4, 0, 1, "")
    assert copied(to // 64 * 256 + to % 64) == (8, 0, 1, "")


def test_advice_for_a_copy_whose_lanes_read_a_column():
    kernel = COPIES[copy("cp.async.ca", 4)]
    to = np.arange(32, dtype=np.int32) * 4
    report = smemkit.check(kernel[1, 32], np.zeros(1 << 16, np.int8), to * 32, to, 0xFFFFFFFF, 0xFFFFFFFF)
    (line,) = (line for line in report.lines if (line.space, line.access) == ("shared", "store"))
    assert (line.wavefronts, line.conflicts, line.degree) == (32, 31, 32)
    assert "read from the same place of a line of 128 bytes" in line.advice


LOOP = r"""
#include <cuda_pipeline.h>
__global__ void k(const int *x, int first, int last)
{
    __shared__ __align__(128) int s[32];
    for (int i = first; i < last; i++) {
        const int taken = i % 2 ? 4 : 0; // zeros, then one element to all lanes
        const unsigned at = (unsigned)__cvta_generic_to_shared(&s[threadIdx.x]);
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(at), "l"(x), "r"(taken));
        asm volatile("cp.async.wait_all;");
    }
    __pipeline_memcpy_async(&s[threadIdx.x], &x[threadIdx.x], 4, 0);
}
"""


@pytest.mark.parametrize(
    ("first", "last", "wavefronts"), [(0, 1, 1), (1, 2, 32), (0, 2, 33), (1, 3, 33), (0, 4, 66)]
)
def test_copies_that_differ_only_in_what_they_read(first, last, wavefronts):
    report = smemkit.check(smemkit.Kernel(LOOP)[1, 32], np.zeros(64, np.int32), first, last)
    (line,) = (
        line for line in report.lines if (line.space, line.access) == ("shared", "store") and line.line == 9
    )
    assert line.wavefronts == wavefronts


@pytest.mark.parametrize("address", WILD)
def test_a_copy_from_a_wild_pointer(address):
    kernel = COPIES[copy("cp.async.ca", 4, f"(const char *){address}ull")]
    offsets = np.zeros(32, np.int32)
    report = smemkit.check(kernel[1, 32], np.zeros(64, np.int8), offsets, offsets, 1, 1)
    assert [fault.kind for fault in report.faults] == ["out_of_bounds"], report
    assert len([line for line in report.lines if line.space == "shared"]) == 1


def test_no_advice_of_copies_for_an_access_of_a_matrix():
    source = """
__global__ void k(float4 *y)
{
    __shared__ __align__(16) float4 matrix[64];
    matrix[threadIdx.x] = matrix[threadIdx.x + 32] = make_float4(0, 0, 0, 0);
    __syncwarp();
    y[threadIdx.x] = matrix[threadIdx.x / 2 % 4 + threadIdx.x / 8 * 8];
}"""
    report = smemkit.check(smemkit.Kernel(source)[1, 32], np.zeros(128, np.float32))
    assert "the copy" not in str(report)


@pytest.mark.parametrize(
    ("stride", "degree"), [(1, 1), (2, 2), (3, 1), (4, 4), (8, 8), (16, 16), (31, 1), (32, 32), (33, 1), (0, 1)]
)
@pytest.mark.parametrize("store", [False, True])
def test_strides_of_words(stride, degree, store):
    access = smemkit.wavefronts(lanes(4 * stride), store=store)
    assert (access.wavefronts, access.conflicts, access.degree, access.groups) == (degree, degree - 1, degree, 1)


@pytest.mark.parametrize(
    ("size", "stride", "wavefronts", "conflicts"),
    [(8, 1, 2, 0), (8, 2, 4, 2), (8, 16, 32, 30), (16, 1, 4, 0), (16, 2, 8, 4), (16, 8, 32, 28), (1, 1, 1, 0)],
)
def test_wider_and_narrower_accesses(size, stride, wavefronts, conflicts):
    access = smemkit.wavefronts(lanes(size * stride), size)
    assert (access.wavefronts, access.conflicts) == (wavefronts, conflicts)


def test_same_word_is_broadcast():
    assert smemkit.wavefronts([64] * 32) == smemkit.Access(1, 0, 1, 1, (0,) * 16 + (1,) + (0,) * 15)


def test_words_of_each_bank():
    assert smemkit.wavefronts(lanes(128)).banks == (32, *(0,) * 31)
    assert smemkit.wavefronts(lanes(4)).banks == (1,) * 32


def test_inactive_lanes_cost_nothing():
    assert smemkit.wavefronts([]) == smemkit.wavefronts([None] * 32) == smemkit.Access(0, 0, 0, 0, (0,) * 32)
    assert smemkit.wavefronts([0, None, 128]).degree == 2
    assert smemkit.wavefronts([None] * 16 + lanes(8, 16), 8).groups == 1


def test_bank_width():
    """Bytes 6 and 133 lie in one bank of 4 bytes, but not of 8."""
    assert smemkit.wavefronts([6, 133], 1).banks[1] == 2
    wide = smemkit.wavefronts([6, 133], 1, bank_width=8)
    assert (wide.banks[0], wide.banks[16], wide.degree) == (1, 1, 1)
    assert smemkit.wavefronts(lanes(8), 8, bank_width=8).wavefronts == 1


def test_sixteen_banks_process_half_warps():
    access = smemkit.wavefronts(lanes(4), banks=16)
    assert (access.wavefronts, access.conflicts, access.groups, len(access.banks)) == (2, 0, 2, 16)


def test_numpy_integers_are_addresses():
    assert smemkit.wavefronts(np.arange(32) * 128, np.int64(4), store=np.True_).degree == 32


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((lanes(4, 33),), {}, ValueError, "addresses: expected no more than 32, one per lane, got 33"),
        (([0, 4, 6],), {}, ValueError, "addresses: expected multiples of 4, the size, got 6 for lane 2"),
        (([-4],), {}, ValueError, "addresses: expected an integer from 0 to 2**64 - 1 or None, got -4 for lane 0"),
        (([0, 1.0],), {}, TypeError, "or None, got 1.0 for lane 1"),
        ((4,), {}, TypeError, "addresses: 'int' object is not iterable"),
        (([0], 3), {}, ValueError, "size: expected 1, 2, 4, 8 or 16 bytes, got 3"),
        (([0], "4"), {}, TypeError, "size: expected 1, 2, 4, 8 or 16 bytes, got '4'"),
        (([0],), {"banks": 33}, ValueError, "banks: expected 2, 4, 8, 16 or 32, got 33"),
        (([0],), {"bank_width": 16}, ValueError, "bank_width: expected 4 or 8 bytes, got 16"),
        (([0],), {"store": "yes"}, TypeError, "store: expected True or False, got 'yes'"),
    ],
)
def test_rejected_arguments(arguments, options, error, message):
    with pytest.raises(error, match=re.escape(message)):
        smemkit.wavefronts(*arguments, **options)


WMMA = """
#include <mma.h>
using namespace nvcuda;

__global__ void products(const {element} *x, {total} *y)
{{
    __shared__ __align__(32) {element} s[{rows} * {pitch}];
    wmma::fragment<wmma::matrix_a, {shape}, {element}, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, {shape}, {element}, wmma::{b_layout}> b;
    wmma::fragment<wmma::accumulator, {shape}, {total}> c;

    for (int i = threadIdx.x; i < {rows} * {pitch}; i += 32)
        s[i] = x[i];
    __syncwarp();
    wmma::fill_fragment(c, 0.0f);
    for (int i = 0; i < 3; i++) {{
        wmma::load_matrix_sync(a, s, {pitch}); // operand
        wmma::load_matrix_sync(b, x, {b_pitch}); // operand in global memory
        wmma::mma_sync(c, a, b, c);
    }}
    wmma::store_matrix_sync(y, c, {c_pitch}, wmma::{c_layout}); // result
}}
"""


def lines_of_products(shape=(16, 16, 16), pitch=24, b_layout="row_major", c_layout="mem_row_major", **types):
    """The report, and the lines of a load from shared memory, of one from global memory, and of a store."""
    m, n, k = shape
    types = {"element": "half", "total": "float"} | types
    pitches = {"pitch": pitch, "b_pitch": n if b_layout == "row_major" else k}
    pitches["c_pitch"] = n if c_layout == "mem_row_major" else m
    text = {"shape": f"{m}, {n}, {k}", "rows": m, "b_layout": b_layout, "c_layout": c_layout}
    kernel = smemkit.Kernel(WMMA.format(**text, **types, **pitches))
    x = np.ones(max(m * pitch, k * n), ml_dtypes.bfloat16 if "bfloat" in types["element"] else np.float16)
    y = np.zeros(m * n, np.float32 if types["total"] == "float" else np.float16)
    report = smemkit.check(kernel[1, 32], x, y)
    assert report.ok, report
    marks = "operand", "operand in global memory", "result"
    return [next(line for line in report.lines if line.text.endswith(f"// {mark}")) for mark in marks]


@pytest.mark.parametrize(("pitch", "wavefronts"), [(24, 4), (16, 8), (32, 16), (64, 32), (72, 4)])
@pytest.mark.parametrize("total", ["float", "half"])
@pytest.mark.parametrize("b_layout", ["row_major", "col_major"])
@pytest.mark.covering(1)
def test_fragments_of_halves_are_loaded_and_stored_as_on_sm_80(pitch, wavefronts, total, b_layout):
    """As ldmatrix from shared memory; by pairs of neighbours in global memory, and so is a sum by rows."""
    operand, in_global, result = lines_of_products(pitch=pitch, total=total, b_layout=b_layout)
    assert (operand.requests, operand.wavefronts, operand.space) == (3, 3 * wavefronts, "shared")
    assert (in_global.requests, in_global.sectors, in_global.space) == (12, 12 * 8, "global")
    assert (result.requests, result.sectors) == (4, 32)


@pytest.mark.parametrize("shape", [(32, 8, 16), (8, 32, 16)], ids=str)
@pytest.mark.parametrize("c_layout", ["mem_row_major", "mem_col_major"])
@pytest.mark.parametrize("element", ["half", "__nv_bfloat16"])
@pytest.mark.covering(1)
def test_fragments_of_other_shapes(shape, c_layout, element):
    """Four 8 x 8 matrices are one request of ldmatrix; a sum by columns is stored one by one."""
    m, n, k = shape
    operand, in_global, result = lines_of_products(shape, c_layout=c_layout, element=element)
    assert operand.requests == 3 * -(-m * k // 256)
    assert operand.wavefronts == 3 * m * k // 64
    assert in_global.requests == 3 * n * k // 64
    assert result.requests == m * n // 64 * (1 if c_layout == "mem_row_major" else 2)


@pytest.mark.parametrize("schedule", ["serial", "lockstep"])
def test_a_fragment_out_of_bounds_is_one_fault_that_names_the_element(schedule):
    source = WMMA.format(
        element="half", total="float", shape="16, 16, 16", rows=16, pitch=24, b_layout="row_major", b_pitch=16,
        c_layout="mem_col_major", c_pitch=16,
    )  # fmt: skip
    x, y = np.ones(384, np.float16), np.zeros(16 * 12, np.float32)
    report = smemkit.check(smemkit.Kernel(source)[1, 32], x, y, schedule=schedule)
    (fault,) = report.faults
    assert (fault.kind, source.splitlines()[fault.line - 1][-9:]) == ("out_of_bounds", "// result")
    assert "192 elements of 4 bytes" in str(fault)
    text = source.replace("load_matrix_sync(b, x, 16)", "load_matrix_sync(b, x + 192, 16)")
    report = smemkit.check(smemkit.Kernel(text)[1, 32], x, np.zeros(256, np.float32), schedule=schedule)
    (fault,) = report.faults
    assert fault.kind == "out_of_bounds" and "384 elements of 2 bytes" in str(fault)
