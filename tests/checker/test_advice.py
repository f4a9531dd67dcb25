"""The advice that a report gives about a line, for each pattern of addresses. It must not invent patterns."""

import dataclasses
import json
import random
import re

import numpy as np
import pytest
from cases import ROOT
from together import together

import smemkit
from smemkit.checker.banks import Pattern, bank_map, find_pattern
from smemkit.checker.lines import LineReport, advise

TRUTH = json.loads((ROOT / "tests" / "checker" / "bank_truth.json").read_text())
LANES = range(32)
SCATTERED = [4 * word for word in random.Random(1).sample(range(4096), 32)]


def shared_line(example, text="v = s[i];", size=4, access="load", variable=""):
    """A line that makes one request of shared memory."""
    cost = smemkit.wavefronts(example, size, store=access != "load")
    numbers = {"wavefronts": cost.wavefronts, "conflicts": cost.conflicts, "degree": cost.degree}
    return LineReport(
        "k.cu", 3, text, "shared", access, 1, size=size, variable=variable, example=tuple(example), **numbers
    )


def global_line(example, text="v = x[i];", size=4, access="load"):
    """A line that makes one request of global memory."""
    bytes_ = {a + byte for a in example if a is not None for byte in range(size)}
    numbers = {"sectors": len({byte // 32 for byte in bytes_}), "ideal_sectors": -(-len(bytes_) // 32)}
    return LineReport("k.cu", 3, text, "global", access, 1, size=size, example=tuple(example), **numbers)


COLUMN = "out[i] = tile[tx][ty + j];"


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        (
            shared_line([128 * t for t in LANES], COLUMN, variable="tile"),
            "32-way: rows are 32 words apart, so a column lies in one bank; pad the row to 33",
        ),
        (
            shared_line([-128 * t + 3968 for t in LANES], COLUMN, variable="tile"),
            "32-way: rows are 32 words apart, so a column lies in one bank; pad the row to 33",
        ),
        (
            shared_line([256 * t for t in LANES], COLUMN, size=8),
            "16-way: rows are 32 elements of 8 bytes apart, so a column lies in 2 banks; pad the row to 33",
        ),
        (
            shared_line([512 * t for t in LANES], COLUMN, size=16),
            "8-way: rows are 32 elements of 16 bytes apart, so a column lies in 4 banks; pad the row to 33",
        ),
        (
            shared_line([64 * t for t in LANES], COLUMN, size=2),
            "16-way: rows are 64 bytes apart, so a column lies in 2 banks; pad the row to 33",
        ),
        (  # 16 x 16 threads: a warp reads two columns of 16
            shared_line([64 * (t % 16) + 4 * (t // 16) for t in LANES], COLUMN),
            "8-way: rows are 16 words apart, so a column lies in 2 banks; pad the row to 18",
        ),
        (
            shared_line([4 * (t % 16) + 128 * (t // 16) for t in LANES], "tile[ty][tx] = 0;", access="store"),
            "2-way: the warp covers 2 rows of 16 lanes, and rows are 32 words apart, so that they use the "
            "same banks; pad the row to 48",
        ),
        (
            shared_line([8 * t for t in LANES], "s[2 * tid] += s[2 * tid + 1];"),
            "2-way: neighbouring lanes are 2 words apart, so 32 lanes share 16 banks; let neighbouring lanes take "
            "neighbouring elements, or make it 3 words",
        ),
        (  # every second lane is inactive, as in the first step of a reduction
            shared_line([256 * t if t % 2 == 0 else None for t in LANES], "s[64 * tid] = 0;"),
            "16-way: neighbouring lanes are 64 words apart, so 16 lanes share one bank; let neighbouring lanes "
            "take neighbouring elements, or make it 65 words",
        ),
        (
            shared_line([16 * t for t in LANES], "particles[threadIdx.x].mass = 1.0f;"),
            "4-way: neighbouring lanes are 4 words apart, so 32 lanes share 8 banks; keep an array for each field "
            "instead of an array of structures",
        ),
        (
            shared_line([32 * t for t in LANES], size=16),
            "2-way: neighbouring lanes are 2 elements of 16 bytes apart, so 32 lanes share 16 banks; let "
            "neighbouring lanes take neighbouring elements, or make it 3 elements of 16 bytes",
        ),
        (shared_line([0, 384]), "2-way: lanes 0 and 1 need words of one bank, 96 words apart"),
        (
            global_line([132 * t for t in LANES], "out[x * n + y] = v;", access="store"),
            "32 sectors per request where 4 would do: neighbouring lanes are 132 bytes apart, so 4 of a sector's "
            "32 bytes are used; let threadIdx.x run along the row, or copy rows to a tile in shared memory and "
            "read columns there",
        ),
        (
            global_line([8 * t for t in LANES]),
            "8 sectors per request where 4 would do: neighbouring lanes are 8 bytes apart, so 16 of a sector's 32 "
            "bytes are used; let neighbouring lanes take neighbouring elements",
        ),
        (
            global_line([12 * t for t in LANES], "p[i].x += 1.5f;"),
            "12 sectors per request where 4 would do: neighbouring lanes are 12 bytes apart, so 10 of a sector's "
            "32 bytes are used; keep an array for each field (structure of arrays), or load whole structures as "
            "float4",
        ),
        (
            global_line([4 * t + 4 for t in LANES]),
            "5 sectors per request where 4 would do: the lanes take neighbouring elements, but start 4 bytes past "
            "the start of a sector; pad rows to a multiple of 8 elements, or accept it: L1 keeps the rest for the "
            "next warp",
        ),
        (
            global_line([4 * (t % 16) + 132 * (t // 16) for t in LANES]),
            "5 sectors per request where 4 would do: the warp takes pieces of 64 bytes, 132 bytes apart, and some "
            "begin inside a sector; start each row at a multiple of 32 bytes",
        ),
        (
            global_line([4 * (t % 4) + 1024 * (t // 4) for t in LANES]),
            "8 sectors per request where 4 would do: the warp takes pieces of 16 bytes, 1,024 bytes apart, each "
            "less than a sector of 32 bytes; make the block at least a sector wide",
        ),
        (
            global_line([0, 4096]),
            "2 sectors per request where 1 would do: of the warp only 2 lanes took part in the example",
        ),
    ],
)
def test_patterns(line, advice):
    assert advise(line) == advice


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_suggested_padding_removes_the_conflict(size, width):
    line = shared_line([size * width * t for t in LANES], COLUMN, size=size)
    if line.conflicts:
        padded = int(re.search(r"pad the row to (\d+)", advise(line))[1])
        assert smemkit.wavefronts([size * padded * t for t in LANES], size).conflicts == 0


@pytest.mark.parametrize(
    "line",
    [
        *(shared_line([size * t for t in LANES], size=size) for size in (1, 2, 4, 8, 16)),
        shared_line([132 * t for t in LANES], COLUMN),
        shared_line([0] * 32),
        shared_line([]),
        *(global_line([size * t for t in LANES], size=size) for size in (1, 2, 4, 8, 16)),
        global_line([64] * 32),
        global_line([4 * t for t in LANES], access="atomic"),
        global_line([4 * (t % 8) + 512 * (t // 8) for t in LANES]),
    ],
    ids=lambda line: f"{line.space}-{line.size}",
)
def test_no_advice_for_efficient_accesses(line):
    assert line.advice == ""
    assert not line.wasteful


@pytest.mark.parametrize("line", [shared_line([4] * 32, access="atomic"), global_line([4] * 32, access="atomic")])
def test_atomics_on_one_address(line):
    assert advise(line).startswith(
        "32 lanes update one address, and the hardware does it one after the other; reduce"
    )


@pytest.mark.parametrize(
    "text",
    [
        "ptx::mbarrier_arrive(&full);",
        "while (!full.try_wait(token))",
        'asm("tensormap.replace…")',
        "full.wait(token);",
    ],
)
def test_no_advice_for_what_one_thread_does_for_others(text):
    waits = dataclasses.replace(shared_line([4] * 32, access="atomic"), text=text)
    elected = dataclasses.replace(
        shared_line([4], access="atomic"), text=text, requests=80, lanes=80, ideal_requests=3, warps=1
    )
    assert (waits.advice, elected.advice) == ("", "")
    for other in "*s += 1;", "s[i] = wait_cycles(i);", "atomicAdd(&mbarriers, 1);":
        assert dataclasses.replace(elected, text=other).divergent


@pytest.mark.parametrize(
    ("line", "word"),
    [
        (shared_line(SCATTERED), "follow no pattern that padding would fix"),
        (shared_line(SCATTERED, access="atomic"), "as a histogram of data does; a copy of the bins"),
        (global_line(SCATTERED), "follow no pattern (an index that comes from data?)"),
    ],
)
def test_scattered_addresses_are_named_as_such(line, word):
    assert word in advise(line)
    assert " pad the row" not in advise(line)


def test_named_lanes_share_a_bank():
    line = shared_line(SCATTERED)
    lanes, bank = re.search(r"lanes ([\d, …]+) meet in bank (\d+)", advise(line)).groups()
    lanes = [int(lane) for lane in lanes.split(", ") if lane != "…"]
    assert len({SCATTERED[lane] for lane in lanes}) == len(lanes) > 1
    assert {SCATTERED[lane] // 4 % 32 for lane in lanes} == {int(bank)}


def test_advice_without_example_addresses():
    line = LineReport("k.cu", 1, "", "shared", "load", 1, 8, 7, 8)
    assert advise(line) == "8-way: lanes of one request need 8 different words of one bank"
    line = LineReport("k.cu", 1, "", "global", "load", 10, sectors=80, ideal_sectors=40)
    assert advise(line) == "8 sectors per request where 4 would do: the lanes' addresses are not known"


@pytest.mark.parametrize(
    "pattern",
    [
        *(Pattern(stride) for stride in (0, 4, 12, 128, -4)),
        Pattern(4, 16, 128),
        Pattern(64, 16, 4),
        Pattern(0, 16, 4),
        Pattern(4, 10, 400, 2),
    ],
)
@pytest.mark.parametrize("active", [LANES, range(1, 31), [t for t in LANES if t % 5]])
def test_patterns_are_found(pattern, active):
    found = find_pattern(pattern.addresses(list(active)))
    assert found.addresses(list(active)) == pattern.addresses(list(active))
    assert (found.stride, found.period, found.pitch) == (pattern.stride, pattern.period, pattern.pitch)


@pytest.mark.parametrize("example", [[], [0, 4], [None] * 32, SCATTERED, [t * t * 4 for t in LANES]])
def test_addresses_without_a_pattern(example):
    assert find_pattern(example) is None


def test_bank_map_matches_hardware_counts():
    for row in TRUTH:
        store = row["op"] == "store"
        groups = bank_map(row["addresses"], row["size"], store=store)
        cost = smemkit.wavefronts(row["addresses"], row["size"], store=store)
        assert sum(map(len, groups)) == row["wavefronts"]
        assert (len(groups), max(map(len, groups), default=0)) == (cost.groups, cost.degree)
        served = [sum(bool(wave[bank]) for group in groups for wave in group) for bank in range(32)]
        assert tuple(served) == cost.banks


def test_lanes_sharing_a_word_share_a_bank_map_cell():
    ((wave,),) = bank_map([0, 0, 4, None, 6], 2)
    assert wave[:3] == [(0, 1), (2, 4), ()]


def test_lanes_of_16_bytes_are_served_in_groups_of_8():
    groups = bank_map([16 * t for t in LANES], 16)
    assert [len(group) for group in groups] == [1] * 4
    assert groups[1][0] == [(lane,) for lane in range(8, 16) for _ in range(4)]


# ---- tiles of tensor cores ----

TILE = r"""
__global__ void k(const short *x, int *y)
{
    __shared__ __align__(128) short s[64 * WIDTH];
    const int t = threadIdx.x;
    unsigned a[4];
    for (int i = t; i < 64 * COLUMNS; i += 32) {
        const int row = i FIRST 64, column = i SECOND 64;
        const unsigned to = (unsigned)__cvta_generic_to_shared(&s[row * WIDTH + (SWIZZLE) * 8]);
        asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" :: "r"(to), "l"(&x[i * 8])); // copy
    }
    asm volatile("cp.async.wait_all;");
    __syncwarp();
    for (int i = 0; i < COLUMNS; i += 2) {
        const int row = t % 16, column = i + t / 16;
        const unsigned at = (unsigned)__cvta_generic_to_shared(&s[row * WIDTH + (SWIZZLE) * 8]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" // load
                     : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(at));
        __syncwarp();
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" // store
                     :: "r"(at), "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]) : "memory");
    }
}
"""


def tile_source(width, swizzle):
    names = {"WIDTH": str(width // 2), "COLUMNS": str(width // 16 // 2 * 2), "SWIZZLE": swizzle}
    names |= {"FIRST": "%", "SECOND": "/"}
    return re.sub("|".join(names), lambda name: names[name[0]], TILE)


def tile_lines(kernel, width):
    """The counts of copies, loads and stores of a tile with rows of `width` bytes, by the marks of their lines."""
    report = smemkit.check(kernel[1, 32], np.zeros(64 * width, np.int16), np.zeros(1, np.int32))
    assert report.ok, report
    return {line.text.rpartition("// ")[2]: line for line in report.lines if line.space == "shared"}


@pytest.mark.parametrize("width", [128, 32, 64, 256, 384])
@pytest.mark.covering(1, most=2)
def test_suggested_swizzle_of_a_tile_removes_the_conflicts(width):
    plain, padded = tile_source(width, "column"), tile_source(width + 16, "column")
    kernels = smemkit.Kernel(together("k", [plain, padded]))
    lines = tile_lines(kernels["k0"], width)
    assert set(lines) == {"copy", "load", "store"}
    for line in lines.values():
        advice = advise(line)
        formula = re.search(r"XOR the row into the 16-byte column \((.*?)\)", advice)[1]
        assert f"rows are {width} bytes apart" in advice
        assert "4 wavefronts per request, no conflicts" in advice
    swizzled = smemkit.Kernel(tile_source(width, formula))
    for changed in (tile_lines(swizzled, width), tile_lines(kernels["k1"], width + 16)):  # or the padding
        for line in changed.values():
            assert (line.wavefronts, line.conflicts) == (4 * line.requests, 0)


def test_padding_of_a_wmma_tile_suits_its_leading_dimension():
    text = "nvcuda::wmma::load_matrix_sync(a, s, 64);"
    advice = advise(shared_line([128 * (t // 2) + 16 * (t % 2) for t in LANES], text, size=2))
    assert int(re.search(r"pad the row to (\d+)", advice)[1]) % 8 == 0
