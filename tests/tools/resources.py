"""Registers, spills and shared memory of matmul's kernels, and the least time that an H200 needs: in float32, or
in float16 where that is what tensor cores take.

    python tests/tools/resources.py                    all whose blocks have tiles, at n = 4096, as Markdown
    python tests/tools/resources.py pipelined simt     some of them

nvcc compiles each kernel's file for sm_90a, which takes minutes where it has many dtypes, and reports registers,
spills and shared memory. The rest comes from the checker's counts and smemkit/measure/prediction.py. Needs nvcc
and an importable smemkit.
"""

import argparse
import importlib
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import smemkit
from smemkit.bench.suites import usual_dtype
from smemkit.measure.prediction import FMA, MMA, WGMMA, predict
from smemkit.measure.records import recorded

ROOT = Path(__file__).resolve().parents[2]
COUNTED = {"float32": (128, 128, 128), "float16": (256, 256, 128)}  # whole tiles
SHAPE = (4096, 4096, 4096)
WITHOUT_TILES = ("sequential", "matvec", "tiny")
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
    """What ptxas reports of a kernel; bytes."""

    registers: int
    shared: int
    spilled: int


def parse(text, tile=None, dtype="float32"):
    """The most that an instance of a matmul kernel in this dtype uses, from the output of ``-Xptxas -v``; of a
    kernel with several tiles, the instance with this one."""
    element = {"float32": "f", "float16": "6__half"}[dtype]
    instance = f"I{element}Li{tile}E" if tile else f"I{element}"
    kernel = rf"_Z\d+matmul_(?!add_slices)[a-z_]+(?:{instance}|ILb|PKf)"  # of no template: pointers to float
    found = [
        Resources(
            int(re.search(r"Used (\d+) registers", entry)[1]),
            int((re.search(r"(?<!cumulative )(\d+) bytes smem", entry) or (0, 0))[1]),
            sum(map(int, re.findall(r"(\d+) bytes spill", entry))),
        )
        for entry in text.split("Compiling entry function ")[1:]
        if re.match(f"'{kernel}", entry)
    ]
    if not found:
        raise ValueError(f"ptxas reports no kernel in {dtype}:\n{text}")
    return Resources(
        *(max(getattr(instance, name) for instance in found) for name in Resources.__dataclass_fields__)
    )


def compiled(row):
    """What ptxas reports of a row of the kernel table."""
    command = [
        "nvcc",
        "-arch=sm_90a",
        "-std=c++17",
        "-O3",
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
    counted, multiplier = COUNTED[dtype], FMA
    if dtype == "float16":
        multiplier = WGMMA if row.needs == "sm_90a" else MMA
    operands = ladder._operands("matmul", counted, dtype)
    report = smemkit.check(smemkit.matmul, *operands, kernel=row.name)
    work = ladder.product_work(report, counted, SHAPE, itemsize=operands[0].itemsize, multiplier=multiplier)
    prediction = predict(work)
    measured = records and multiplier is FMA and records.row(row.name)
    launch, used = report.launches[0], compiled(row)
    tile = f"{counted[0] // launch.grid[1]} x {counted[1] // launch.grid[0]}"
    times = f"{1e3 * prediction.seconds:.2f}", prediction.limit, f"{measured['us'] / 1e3:.2f}" if measured else ""
    return row.name, tile, launch.block[0] * launch.block[1], used.shared, used.registers, used.spilled, *times


def main():
    rows = {row.name: row for row in smemkit.kernels("matmul") if row.name not in WITHOUT_TILES}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *rows], metavar="kernel", help="default: all")
    names = parser.parse_args().names or rows
    records = next(iter(recorded("matmul", SHAPE)), None)
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}")
    for name in names:
        print(f"| {' | '.join(map(str, cells(rows[name], records)))} |", flush=True)


if __name__ == "__main__":
    main()
