"""The project's one benchmark: ``python -m smemkit bench [suite …]``.

It measures every kernel of the table and kernel=None, and compares them with torch, CuPy, NumPy, cuBLAS and CUB if
these are installed: in the same run, on the same operands, with the same clock. A result counts only if it agrees
with NumPy in double precision. Operands are random, because a GPU multiplies zeros faster.

Device suites use the clock of `smemkit.measure.benchmarks.measure`: a captured graph between two events. A row is
`cold` if L2 was overwritten before each sample; otherwise it is warm, and a sample is many calls. kernel=None and
its peers are measured alternately, a sample of each in turn, because a GPU at the limit of its power changes its
clock from second to second. A peer that cannot be captured (CuPy's matmul) is timed between events around eager
calls, and the row says so. The other suites use the host's clock: the time that a caller waits.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from smemkit import _core
from smemkit.bench import figures, fit
from smemkit.bench.recorded import recorded_table
from smemkit.bench.report import environment, reference_path, results, table
from smemkit.bench.suites import SUITES, Run
from smemkit.devices import Device
from smemkit.measure.records import REFERENCE, all_reports

__all__ = ["add_arguments", "main"]


def add_arguments(parser: ArgumentParser) -> None:
    """The command line of ``smemkit bench``."""
    parser.add_argument("suite", nargs="*", help=f"{', '.join(SUITES)}; default: all that the device supports")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the environment and the rows to a file")
    parser.add_argument("--plot", metavar="FILE", help="save a bar chart (needs matplotlib: smemkit[plot])")
    parser.add_argument("--save", action="store_true", help="store them as this GPU's reference file")
    parser.add_argument("--quick", action="store_true", help="fewer sizes and samples")
    parser.add_argument("--device", help='"cuda:0", "cpu"; the default device if not given')
    parser.add_argument(
        "--readme",
        action="store_true",
        help="print the README's tables from the reference files, without measuring",
    )
    parser.add_argument(
        "--recorded",
        action="store_true",
        help="print kernels/recorded.def from the reference files and --data, without measuring",
    )
    fit.add_arguments(parser)
    parser.set_defaults(command=main, parser=parser)


def main(arguments: Namespace) -> int:
    """Runs ``smemkit bench``; the exit status is 1 if anything failed."""
    for name in set(arguments.suite) - set(SUITES):
        arguments.parser.error(f"suite: expected some of {', '.join(SUITES)}; got {name}")
    if arguments.recorded:
        print(recorded_table([*sorted(REFERENCE.glob("*.json")), *(arguments.data or [])]), end="")
        return 0
    if arguments.fit or arguments.data:
        if arguments.suite not in ([], ["planner"]) or not arguments.fit:
            arguments.parser.error("--fit, --data: expected `bench planner --fit [--data FILE …]`")
        return fit.main(arguments)
    if arguments.readme:
        whole = json.loads((REFERENCE / "nvidia-h200.json").read_text(encoding="utf-8"))
        print(results(whole, *all_reports()), end="")
        return 0
    console = Console(stderr=True)
    device = Device(arguments.device)
    if arguments.save and (arguments.suite or arguments.quick or not device.is_cuda):
        arguments.parser.error("--save: expected all suites, on a GPU, without --quick")
    run = Run(device, arguments.quick, console)
    names = list(dict.fromkeys(arguments.suite)) or list(run.suites())
    missing = [name for name in names if name not in run.suites()]
    if missing:
        why = _core.cuda_unavailable() or f"this run is on {device.name}"
        raise _core.NoDeviceError(f"bench: {', '.join(missing)} need a CUDA device: {why}")
    console.print(f"{device!r}: {', '.join(names)}", markup=False, highlight=False, soft_wrap=True)
    rows = run.measure(names)
    report = {"environment": environment(run), "rows": [asdict(row) for row in rows]}
    output = Console(width=None if sys.stdout.isatty() else 160)
    for suite in names:
        output.print(table(suite, [row for row in rows if row.suite == suite]))
    saved = reference_path(device) if arguments.save and not run.interrupted else None
    for path in filter(None, (arguments.json, saved)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(report, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        console.print(f"wrote {path}", markup=False, highlight=False)
    if arguments.plot:
        figures.plot(rows, device.name).savefig(arguments.plot, dpi=150)
    if run.failures:
        console.print(f"{len(run.failures)} failed:", *run.failures, sep="\n  ✗ ", style="red", markup=False)
    return 1 if run.failures else 0
