"""Registers, spills and shared memory of matmul's kernels, and the least time that an H200 needs: in float32, or
in what a kernel's tensor cores take.

    python tests/tools/resources.py                    all whose blocks have tiles, at n = 4096, as Markdown
    python tests/tools/resources.py pipelined simt     some of them
    python tests/tools/resources.py --log FILE         requires that none spills, but for those in SPILLS, in a
                                                       build with NVCC_APPEND_FLAGS='-Xptxas -v'

nvcc compiles each kernel's file for sm_90a, which takes minutes where it has many dtypes, and reports registers,
spills and shared memory. The rest comes from the checker's counts and smemkit/measure/prediction.py. Needs nvcc
and an importable smemkit.
"""

import argparse
import importlib
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import smemkit
from smemkit.bench.suites import usual_dtype
from smemkit.measure.prediction import DMMA, FMA, IMMA, MMA, TF32, WGMMA, predict
from smemkit.measure.records import recorded

ROOT = Path(__file__).resolve().parents[2]
COUNTED = {"float16": (256, 256, 128), "int8": (256, 256, 256)}  # whole tiles; of other dtypes 128
MULTIPLIERS = {"float16": MMA, "float32": TF32, "int8": IMMA, "float64": DMMA}  # of kernels of tensor cores
TYPES = {"float32": "float", "float16": "__half", "float64": "double", "int8": "signed char"}
# functions that may spill: regular expressions that match their signatures, and why
SPILLS = {
    r"matmul_simt<.*, false>": "measured, see simt.cuh",
    r"matmul_mma<.*split_products, true, false,": "10 registers, of A across k and B along it: runs only if named",
    r"matmul_stream_k<false>": "a few registers, loaded once per pair of tiles, where rows are not aligned",
    r"matmul_doubles<step_tiles<double, 128, 1, true, true, ": "2 registers, loaded once per tile",
    r"matmul_wgmma_half<step_tiles<.*, 2> >": "the return address of a division, 2 registers, once per tile",
    r"matmul_columns_by_vector<complex<double>": "7 registers, loaded once per 128 elements of k",
    r"matmul_tiny<complex<": "around the division of the block's index; without it up to 30 % longer (16 x 16)",
}
SHAPE = (4096, 4096, 4096)
FMA_RUNGS = ("thread_row", "thread_tile", "vectorized", "warp_tile")
SEVERAL_PRODUCTS = (
    "mma_split",
    "wgmma_split",
    "wgmma_split_small",
    "wgmma_single",
    "wgmma_digits",
    "wgmma_digits_small",
)
WITHOUT = ("sequential", "matvec", "tiny", *SEVERAL_PRODUCTS)  # tiles, or one product per pair of elements
HEAD = (
    "kernel",
    "tile",
    "threads",
    "shared bytes",
    "registers",
    "spilled bytes",
    "least ms",
    "limit",
    "recorded ms",
)
ladder = importlib.import_module("smemkit.ladder")  # smemkit.ladder is the function


@dataclass(frozen=True)
class Resources:
    """What ptxas reports of a kernel; bytes. None: the report has no such line."""

    registers: int | None
    shared: int
    spilled: int | None


def functions(text):
    """Yields the demangled signature and the resources of each kernel in the output of ``-Xptxas -v``. In that of
    a parallel build, lines of several kernels may be mixed."""
    text = subprocess.run(["c++filt"], input=text, capture_output=True, text=True, check=True).stdout
    property_lines = r"Function properties for (.*)\n.*\b(\d+) bytes spill stores, (\d+) bytes spill loads"
    spilled = {}
    for name, stores, loads in re.findall(property_lines, text):
        spilled[name] = max(spilled.get(name, 0), int(stores) + int(loads))
    entries = [(re.match("'(.*)' for", entry)[1], entry) for entry in text.split("Compiling entry function ")[1:]]
    kernels = {name for name, _ in entries}
    for name, entry in entries:
        used = re.findall(r"Used (\d+) registers", entry)
        of_file = entry.partition("bytes gmem")[0]  # with this the next file's report begins
        called = {function for function, *_ in re.findall(property_lines, of_file)} - kernels
        yield (
            name,
            Resources(
                int(used[0]) if len(used) == 1 else None,
                int((re.search(r"(?<!cumulative )(\d+) bytes smem", entry) or (0, 0))[1]),
                spilled[name] + sum(spilled[function] for function in called) if name in spilled else None,
            ),
        )


def parse(text, tile=None, dtype="float32"):
    """The most that an instance of a matmul kernel in this dtype uses, from the output of ``-Xptxas -v``; of a
    kernel with several tiles, the instance with this one."""
    others = "|".join(name for name in [*TYPES.values(), "__nv_bfloat16", "complex"] if name != TYPES[dtype])
    instance = rf"(?=.*\b{TYPES[dtype]}\b)" + (rf"(?=.*\b{tile}\b)" if tile else "")
    if dtype != "float16":  # whose sums are in float32
        instance += rf"(?!.*\b({others})\b)"
    kernel = re.compile(rf"(void )?matmul_(?!add_slices|store_)\w+\b{instance}")
    found = [used for name, used in functions(text) if kernel.match(name)]
    if not found:
        raise ValueError(f"ptxas reports no kernel in {dtype}:\n{text}")
    return Resources(*(max(getattr(used, name) for used in found) for name in Resources.__dataclass_fields__))


def spilling(text):
    """What spills in matmul and SPILLS does not have, which rungs of FP32 units have too many registers for two
    blocks of 256 threads, and whose products on tensor cores wait for each other: a line per function."""
    found = [(name, used) for name, used in functions(text) if re.match(r"(void )?matmul_", name)]
    if not found:
        raise ValueError("ptxas reports no kernel of matmul")
    rung = re.compile(rf"(void )?matmul_({'|'.join(FMA_RUNGS)})\b")
    demangled = subprocess.run(["c++filt"], input=text, capture_output=True, text=True, check=True).stdout
    return [
        *(
            f"wgmma is serialised: {name}"
            for name in re.findall(r"wgmma.* serialized .* function '(.*)'", demangled)
        ),
        *(
            f"{used.spilled} bytes: {name}"
            for name, used in found
            if used.spilled and not any(re.search(pattern, name) for pattern in SPILLS)
        ),
        *(
            f"{used.registers} registers: {name}"
            for name, used in found
            if rung.match(name) and not 0 < (used.registers or 0) <= 128
        ),
        *(f"nothing is reported of the spills of {name}" for name, used in found if used.spilled is None),
    ]


def compiled(row):
    """What ptxas reports of a row of the kernel table."""
    command = [
        "nvcc",
        "-gencode=arch=compute_90a,code=sm_90a",
        "-std=c++17",
        "-Xptxas",
        "-v",
        "-Ikernels",
        "-cubin",
        "-o",
        "/dev/null",
    ]
    done = subprocess.run(
        [*command, f"kernels/{row.file}"], cwd=ROOT, stderr=subprocess.PIPE, text=True, check=True
    )
    return parse(done.stderr, row.sizes[0] if row.sizes else None, usual_dtype(row))


def cells(row, records):
    """A row of the table."""
    dtype = usual_dtype(row)
    counted, multiplier = COUNTED.get(dtype, (128, 128, 128)), FMA
    if "mma" in row.name:
        multiplier = WGMMA if "wgmma" in row.name else MULTIPLIERS[dtype]
    elif row.name == "persistent":
        multiplier = WGMMA
    operands = ladder._operands("matmul", counted, dtype)
    report = smemkit.check(smemkit.matmul, *operands, kernel=row.name)
    work = ladder.product_work(report, counted, SHAPE, itemsize=operands[0].itemsize, multiplier=multiplier)
    prediction = predict(work)
    measured = records and multiplier is FMA and records.row(row.name)
    launch, used = report.launches[0], compiled(row)
    tile = f"{counted[0] // launch.grid[1]} x {counted[1] // launch.grid[0]}"
    shared = launch.shared_bytes or used.shared
    times = f"{1e3 * prediction.seconds:.2f}", prediction.limit, f"{measured['us'] / 1e3:.2f}" if measured else ""
    return row.name, tile, launch.block[0] * launch.block[1], shared, used.registers, used.spilled, *times


def main():
    rows = {row.name: row for row in smemkit.kernels("matmul") if row.name not in WITHOUT}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *rows], metavar="kernel", help="default: all")
    parser.add_argument("--log", type=Path, metavar="FILE", help="require that no others spill in a build")
    options = parser.parse_args()
    if options.log:
        found = spilling(options.log.read_text())
        print(
            "\n".join(["functions that spill, or have too many registers:", *found])
            if found
            else "no kernel of matmul spills, but for those in SPILLS"
        )
        return bool(found)
    names = options.names or rows
    records = next(iter(recorded("matmul", SHAPE)), None)
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}")
    for name in names:
        print(f"| {' | '.join(map(str, cells(rows[name], records)))} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
