"""``smemkit tune``: the transposes' thresholds that fit this machine's GPU."""

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

PROBLEMS, MOST, SEED = 160, 1 << 26, 2  # how many; bytes of x; another seed than that of the graded problems


def add_arguments(parser: ArgumentParser) -> None:
    """The command line of ``smemkit tune``."""
    parser.description = (
        "Measures transposes on this machine's GPU and keeps the thresholds by which their kernel is chosen, for "
        "later processes. It is never needed, and changes no bit of any result: only which kernel moves the bits. "
        "Reductions and products are not tuned, because their bits depend on the choice."
    )
    parser.add_argument("--device", help='"cuda:0", …; the default device if not given')
    parser.add_argument("--forget", action="store_true", help="go back to the built-in thresholds")
    parser.add_argument("--json", action="store_true", help="print the result as JSON, and nothing else")
    parser.set_defaults(command=main)


def transposes(count: int) -> Iterator[Row]:
    """Random transposes, always the same ones."""
    for row in planner.random_problems(2 * count, MOST, SEED):
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
            except ValueError:  # this kernel does not take it
                continue
    ours = 1e6 * planner.measured_time(problem, out, None, device)
    problem.error(asnumpy(out), None)  # raises where a bit is wrong
    return replace(row, us=ours, peers=times, ratio=min(times.values()) / ours)


def tune(device: Device, console: Console) -> fit.Fit:
    """Measures, fits and stores; what grades no better than the built-in thresholds is not stored."""
    tuned.forget(device)  # the times are those of the built-in choice
    attributes = fit.attributes_of(device)
    problems = track(list(transposes(PROBLEMS)), "transposes", console=console, transient=True)
    rows = [asdict(measure(row, device)) for row in problems]
    result = fit.fit("transpose", fit.read_rows(rows, attributes), attributes)
    if result.is_better:
        names = [row.name for row in result.before]
        tuned.store(device, dict(zip(names, result.values, strict=True)))
    return result


def main(arguments: Namespace) -> int:
    """Runs ``smemkit tune``."""
    device = Device(arguments.device)
    if not device.is_cuda:
        why = _core.cuda_unavailable() or f"this run is on {device.name}, whose kernels are not chosen for speed"
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
