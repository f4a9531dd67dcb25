"""Reports written by hand, for tests of how they are shown."""

from typing import ClassVar

import smemkit
from smemkit.checker.faults import Fault
from smemkit.checker.launches import LaunchReport
from smemkit.checker.lines import LineReport
from smemkit.checker.report import Report

LANES = range(32)
UNPADDED = "transpose/ladder/30_unpadded.cu"
KERNEL = "kernel.cu"
SOURCE = """\
__global__ void halo(const float *x, float *y, int n)
{
    __shared__ float s[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    s[threadIdx.x] = x[i];
    // a comment
    // another one

    float left = s[threadIdx.x - 1], here = s[threadIdx.x];
    if (threadIdx.x < 128)
        __syncthreads();
    y[i] = left + here;
    assert(left > 0);
    atomicAdd(y, here);
}
"""


def line_of(file, text, number=None, **facts):
    return LineReport(file, number or number_of(text), text, **facts)


def number_of(text):
    """The number of the line of the unpadded transpose that contains the text."""
    lines = smemkit.source("transpose", "unpadded").split("\n")
    return next(number for number, line in enumerate(lines, 1) if text in line)


def unpadded(**changes):
    """The unpadded transpose of 1024 × 1024."""
    load, store = "tile[ty + j][tx] = x[(row + j) * columns + column];", "= tile[tx][ty + j];"
    row, column = tuple(4 * t for t in LANES), tuple(128 * t for t in LANES)
    coalesced = {"requests": 32768, "sectors": 131072, "ideal_sectors": 131072, "example": row}
    lines = (
        line_of(UNPADDED, load, space="global", access="load", variable="x", **coalesced),
        line_of(
            UNPADDED,
            load,
            **{
                "space": "shared",
                "access": "store",
                "requests": 32768,
                "wavefronts": 32768,
                "conflicts": 0,
                "degree": 1,
            },
            variable="tile",
            example=row,
        ),
        line_of(
            UNPADDED,
            store,
            **{
                "space": "shared",
                "access": "load",
                "requests": 32768,
                "wavefronts": 1048576,
                "conflicts": 1015808,
                "degree": 32,
            },
            variable="tile",
            example=column,
        ),
        line_of(UNPADDED, store, space="global", access="store", variable="out", **coalesced),
    )
    facts = {"blocks_checked": 1024, "blocks": 1024, "lines": lines}
    return LaunchReport("transpose_unpadded<float, 32>", (32, 32, 1), (32, 8, 1), 4096, **facts | changes)


def fault(kind, line, **facts):
    text = SOURCE.split("\n")[line - 1] if line else ""
    return Fault(kind, line, file=KERNEL, text=text, **facts)


RACE = fault(
    "race",
    10,
    other_line=6,
    other_file=KERNEL,
    threads=((4, 0, 0), (3, 0, 0)),
    variable="s[3]",
    hazard="RAW",
    count=255,
    message="thread (4, 0, 0) reads s[3], which thread (3, 0, 0) wrote at line 6 with no barrier between them",
)
FAULTS = (
    RACE,
    fault("race", 10, other_line=6, hazard="RAW", warp_synchronous=True, threads=((4, 0, 0), (3, 0, 0))),
    fault("race", 6, other_line=10, hazard="WAR", threads=((4, 0, 0), (3, 0, 0))),
    fault("race", 13, other_line=13, hazard="WAW", threads=((0, 0, 0), (0, 0, 0)), other_block=(1, 0, 0)),
    fault("barrier", 12, message="128 of 256 threads wait at line 12, the rest have exited", block=(3, 0, 0)),
    fault("out_of_bounds", 6, threads=((232, 0, 0),), variable="x[1000]", message="reads 0 bytes past the end"),
    fault("uninitialised", 10, threads=((9, 0, 0),), variable="s[7]", message="s[7] was never written"),
    fault("misaligned", 10, threads=((9, 0, 0),), variable="x[1]", message="16 bytes at byte 4 of x"),
    fault("hang", None, message="block (3, 0, 0) ran for more than 60 seconds"),
    fault("trap", 14, threads=((9, 0, 0),), message="assertion failed: left > 0"),
)


def report(*launches, seconds=0.1234):
    return Report(launches or (unpadded(),), seconds, {KERNEL: SOURCE})


def halo(faults=FAULTS, lines=()):
    return LaunchReport("halo", (4, 1, 1), (256, 1, 1), 1024, 4, 4, lines, tuple(faults))


class Kernel:
    """A fake smemkit.Kernel, which records how it was made."""

    made: ClassVar = []
    skipped: ClassVar = {}

    def __init__(self, source, name=None, *, options=()):
        self.source, self.name, self.options = source, name or "halo", options
        Kernel.made.append(self)

    @classmethod
    def _to_check(cls, source, name, *, options):
        return cls(source, name, options=options)

    def __getitem__(self, launch):
        return self, launch
