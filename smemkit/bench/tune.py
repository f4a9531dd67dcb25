"""``smemkit tune``: fits the transposes' thresholds to this machine's GPU."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from dataclasses import asdict, replace

from rich.console import Console
from rich.progress import track

from smemkit import _core
from smemkit.arrays import asnumpy
from smemkit.bench import fit, planner
from smemkit.bench.rows import Row
from smemkit.devices import Device
from smemkit.measure import tuned
from smemkit.table.kernel_table import kernels

PROBLEMS, MAX_BYTES, SEED = 160, 1 << 26, 2  # number; bytes of x; not the seed of the reference file


def add_arguments(parser: ArgumentParser) -> None:
    """The command line of ``smemkit tune``."""
    parser.description = (
        "Measures transposes on this machine's GPU, and stores the thresholds by which their kernels are chosen "
        "in the user's cache. Tuning is optional and changes no result, only which kernel computes it. "
        "Reductions and products are not tuned, because the bits of their results depend on the kernel."
    )
    parser.add_argument("--device", help='"cuda:0", …; the default device if not given')
    parser.add_argument("--forget", action="store_true", help="go back to the built-in thresholds")
    parser.add_argument("--json", action="store_true", help="print the result as JSON, and nothing else")
    parser.set_defaults(command=main)


def transposes(count: int) -> Iterator[Row]:
    """Random transposes, reproducible."""
    for row in planner.random_problems(2 * count, MAX_BYTES, SEED):
        if row.op == "transpose":
            yield row


def measure(row: Row, device: Device) -> Row:
    """The times of the production kernels on one problem."""
    problem = planner.problem_of(row, tuple(row.shape), device)
    out = problem.out()
    times = {}
    for info in kernels("transpose"):
        if info.role == "production" and row.dtype in info.dtypes:
            try:
                times[info.name] = 1e6 * planner.measured_time(problem, out, info.name, device)
            except ValueError:  # the kernel does not take this problem
                continue
    ours = 1e6 * planner.measured_time(problem, out, None, device)
    problem.error(asnumpy(out), None)  # raises if a bit is wrong
    return replace(row, us=ours, peers=times, ratio=min(times.values()) / ours)


def tune(device: Device, console: Console) -> fit.Fit:
    """Measures, fits, and stores the thresholds if they are better than the built-in ones."""
    tuned.forget(device)  # so that the built-in choices are measured
    attributes = fit.attributes_of(device)
    problems = track(list(transposes(PROBLEMS)), "transposes", console=console, transient=True)
    rows = [asdict(measure(row, device)) for row in problems]
    result = fit.fit("transpose", fit.read_rows(rows), attributes)
    if result.is_better:
        names = [row.name for row in result.before]
        tuned.store(device, dict(zip(names, result.values, strict=True)))
    return result


def main(arguments: Namespace) -> int:
    """Runs ``smemkit tune``."""
    device = Device(arguments.device)
    if not device.is_cuda:
        why = _core.cuda_unavailable() or f"this run is on {device.name}, whose kernels are not tuned"
        raise _core.NoDeviceError(f"tune: it needs a CUDA device: {why}")
    if arguments.forget:
        found = tuned.forget(device)
        print(f"{device.name}: {'forgotten' if found else 'there were no tuned thresholds'}")
        return 0
    result = tune(device, Console(stderr=True))
    kept = tuned.in_use(device.name)
    if arguments.json:
        json.dump({"device": device.description, "kept": kept, **result.to_dict()}, sys.stdout, indent=1)
        print()
        return 0
    print(result)
    print("kept for this GPU" if kept else "not kept: the built-in thresholds are as good")
    return 0
