"""``python -m smemkit``: info, demo, bench, kernels."""

from __future__ import annotations

import argparse
import platform
import sys
from importlib.metadata import version

import numpy as np
from rich.console import Console
from rich.table import Table

from smemkit import _core, bench, demo
from smemkit.devices import devices, get_num_threads
from smemkit.table import kernels, reading_order


def info(_: argparse.Namespace) -> int:
    """Versions, devices and their limits, and why there is no CUDA device where there is none."""
    build, here = _core.build_info(), devices()
    facts = Table.grid(padding=(0, 2))
    for what, text in {
        "smemkit": version("smemkit"),
        "Python": f"{platform.python_version()}, {platform.platform()}",
        "NumPy": np.__version__,
        "compiler": build["compiler"],
        "CUDA toolkit": f"{build['cuda']}, for {build['archs']}" if build["cuda"] else "built without",
        "executor": f"{get_num_threads()} threads, {build['fibers']} fibers",
        "default device": _default_device(),
        "no CUDA device": _core.cuda_unavailable(),
    }.items():
        if text:
            facts.add_row(f"[bold]{what}", str(text))
    limits = Table(box=None, padding=(0, 2, 0, 0))
    limits.add_column("")
    for device in here:
        limits.add_column(f"{device.name}\n[dim]{device.description}", justify="right")
    columns = [device.limits() for device in here]
    for what in dict.fromkeys(what for column in columns for what in column):
        limits.add_row(what, *(column.get(what, "") for column in columns))
    Console(highlight=False).print(facts, "", limits)
    return 0


def _default_device() -> str:
    """Its name; where the environment names one that is not here, why not."""
    try:
        return _core.default_device()
    except (ValueError, _core.NoDeviceError) as error:
        return str(error)


def list_kernels(arguments: argparse.Namespace) -> int:
    """The kernel table, for a terminal or as kernels/README.md."""
    if arguments.markdown:
        sys.stdout.write(reading_order())
        return 0
    table = Table("op", "kernel", "needs", "runs here on", "idea", box=None, padding=(0, 2, 0, 0))
    for row in kernels(arguments.op):
        options = {row.size_name: row.sizes, "pad": row.pads}
        options = [f"\n[dim]{name} {', '.join(map(str, values))}[/]" for name, values in options.items() if values]
        idea = f"[yellow]{row.role}:[/] {row.summary}" if row.role else row.summary
        table.add_row(row.op, f"[bold]{row.name}", row.needs, ", ".join(row.devices), idea + "".join(options))
    Console(highlight=False).print(table)
    return 0


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser("smemkit", description="GPU shared memory: operations, ladders, benchmarks.")
    commands = parser.add_subparsers(required=True, metavar="command")
    commands.add_parser("info", help="versions and devices").set_defaults(command=info)
    demo.add_arguments(commands.add_parser("demo", help="ten seconds that show what this is"))
    bench.add_arguments(commands.add_parser("bench", help="measure every kernel, beside torch, CuPy and NumPy"))
    listing = commands.add_parser("kernels", help="the kernels, in reading order")
    listing.add_argument("op", nargs="?", help="matmul, reduce, …; all of them if not given")
    listing.add_argument("--markdown", action="store_true", help="as kernels/README.md, all of them")
    listing.set_defaults(command=list_kernels)
    arguments = parser.parse_args(argv)
    try:
        return arguments.command(arguments)
    except (_core.Error, ValueError, ImportError) as error:
        print(f"smemkit: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
