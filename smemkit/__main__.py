"""``python -m smemkit``: info, demo, bench, tune, kernels, ladder, check."""

from __future__ import annotations

import argparse
import json
import platform
import sys
import textwrap
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import smemkit
from smemkit import _core, demo, ops
from smemkit.bench import command, fit, tune
from smemkit.devices import devices, get_num_threads
from smemkit.measure import tuned
from smemkit.table.kernel_table import kernels, reading_order
from smemkit.user_kernel import launch_text


def info(_: argparse.Namespace) -> int:
    """Versions, devices with their properties, and why there is no CUDA device if there is none."""
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
        "tuned transposes": ", ".join(device.name for device in here if tuned.in_use(device.name)),
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
    """The default device's name, or why SMEMKIT_DEVICE is unusable."""
    try:
        return _core.default_device()
    except (ValueError, _core.NoDeviceError) as error:
        return str(error)


def list_kernels(arguments: argparse.Namespace) -> int:
    """The kernel table, for a terminal or as kernels/README.md."""
    if arguments.markdown:
        sys.stdout.write(reading_order())
        return 0
    if arguments.thresholds:
        return list_thresholds(arguments.op)
    table = Table("op", "kernel", "needs", "runs here on", "idea", box=None, padding=(0, 2, 0, 0))
    for row in kernels(arguments.op):
        options = {row.size_name: row.sizes, "pad": row.pads}
        options = [f"\n[dim]{name} {', '.join(map(str, values))}[/]" for name, values in options.items() if values]
        idea = f"[yellow]{row.label}:[/] {row.idea}" if row.label else row.idea
        table.add_row(row.op, f"[bold]{row.name}", row.needs, ", ".join(row.devices), idea + "".join(options))
    Console(highlight=False).print(table)
    return 0


def list_thresholds(op: str | None) -> int:
    """The thresholds of the policies, as built in for an H200, and what each decides."""
    if op not in (None, *fit.OPS):
        raise ValueError(f"kernels --thresholds: expected one of {', '.join(fit.OPS)}, got {op}")
    for name in [op] if op else fit.OPS:
        print(f"{name}, on {fit.H200.multiprocessors} multiprocessors")
        for row in fit.thresholds(name):
            unit = f"{row.unit}, in proportion to the multiprocessors" if row.per_gpu else row.unit
            print(f"  {row.name} = {row.value} {unit}")
            print(textwrap.fill(row.why, 100, initial_indent="    ", subsequent_indent="    "))
    return 0


def add_check(parser: argparse.ArgumentParser) -> None:
    """The command line of ``smemkit check``."""
    parser.add_argument("file", nargs="?", metavar="FILE.cu", help="CUDA C or C++, as for nvcc")
    parser.add_argument(
        "--kernel", metavar="NAME", help="the kernel of FILE.cu (optional if it has only one) or of --op"
    )
    launch_text.add_arguments(parser)
    parser.add_argument(
        "--json", metavar="FILE", help="write the report as JSON; -: to standard output, and nothing else"
    )
    own = parser.add_argument_group("the kernels of smemkit")
    own.add_argument(
        "--op",
        choices=("matmul", "reduce", "transpose", "reverse"),
        help="check a kernel of this operation instead of a file",
    )
    own.add_argument(
        "--shape", action="append", default=[], metavar="M[,N…]", help="the shape of an operand; matmul takes two"
    )
    own.add_argument("--dtype", default="float32", help="the operands' dtype (default float32)")
    for name in ("tile", "pad", "block-size"):
        own.add_argument(f"--{name}", type=int, metavar="N", help="the operation's keyword")
    parser.set_defaults(command=check)


def check(options: argparse.Namespace) -> int:
    """Checks a launch and prints the report; the exit status is 1 if it has a fault."""
    if (options.file is None) == (options.op is None):
        raise ValueError("check: expected either a FILE.cu or --op")
    how = {"schedule": options.schedule, "seed": options.seed, "blocks": launch_text.parse_blocks(options.blocks)}
    if options.op:
        target, arguments, keywords = _own_launch(options)
    else:
        if options.shape:
            raise ValueError("--shape: goes with --op; a kernel of a file takes --arg 'float[64,64]'")
        arguments, keywords = launch_text.kernel_arguments(options), {}
        kernel = smemkit.Kernel(_source_file(options.file), options.kernel, options=tuple(options.option))
        target = launch_text.configured_launch(kernel, options)
    try:
        report = smemkit.check(target, *arguments, **how, **keywords)
    except TypeError as error:  # an argument that the kernel rejects
        raise ValueError(str(error)) from error
    _write_text(options.json, str(report), report.to_dict())
    return 0 if report.ok else 1


def _write_text(file: str | None, text: str, content: dict[str, Any]) -> None:
    """Prints the text and writes the content as JSON to a file; for "-", prints the JSON only."""
    if file != "-":
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="replace")  # a terminal without ✓ shows a question mark
        print(text)
    if file:
        written = json.dumps(content, indent=1) + "\n"
        if file == "-":
            sys.stdout.write(written)
        else:
            Path(file).write_text(written, encoding="utf-8")


def _source_file(name: str) -> Path:
    path = Path(name)
    if not path.is_file():
        raise ValueError(f"{name}: no such file" if not path.exists() else f"{name}: expected a file")
    return path


def _own_launch(options: argparse.Namespace) -> tuple[Any, Sequence[np.ndarray], dict[str, Any]]:
    """An operation of smemkit, random operands of the given shapes, and its keywords."""
    for name, value in (("--grid", options.grid), ("--block", options.block), ("--arg", options.arg)):
        if value:
            raise ValueError(f"{name}: goes with a FILE.cu; --op takes --shape and chooses its own launch")
    operands = 2 if options.op == "matmul" else 1
    if len(options.shape) != operands:
        raise ValueError(f"--shape: expected {operands} for {options.op}, got {len(options.shape)}")
    arguments = [
        launch_text.parse_argument(f"{options.dtype}[{shape}]", index, options.seed)
        for index, shape in enumerate(options.shape)
    ]
    given = {name: getattr(options, name) for name in ("kernel", "tile", "pad", "block_size")}
    return getattr(ops, options.op), arguments, {name: value for name, value in given.items() if value is not None}


def add_ladder(parser: argparse.ArgumentParser) -> None:
    """The command line of ``smemkit ladder``."""
    parser.add_argument("op", choices=("reduce", "transpose", "matmul"))
    parser.add_argument(
        "--n",
        metavar="N[,N…]",
        help="number of elements of a sum; side of a matrix, or rows,columns; m,n,k of a product",
    )
    parser.add_argument("--dtype", default="float32", help="the operands' dtype (default float32)")
    parser.add_argument("--device", help='"cuda:0", "cpu"; the default device if not given')
    parser.add_argument("--plot", metavar="FILE", help="save a bar chart (needs matplotlib: smemkit[plot])")
    parser.add_argument("--json", metavar="FILE", help="write it as JSON; -: to standard output, and nothing else")
    parser.set_defaults(command=climb)


def climb(options: argparse.Namespace) -> int:
    """Measures a ladder and prints it."""
    try:
        shape = options.n and [int(n) for n in options.n.split(",")]
    except ValueError:
        raise ValueError(f"--n: expected integers separated by commas, got {options.n!r}") from None
    try:
        climbed = smemkit.ladder(
            options.op,
            shape[0] if shape and len(shape) == 1 else shape,
            dtype=options.dtype,
            device=options.device,
        )
    except TypeError as error:  # not a dtype
        raise ValueError(f"--dtype: {error}") from error
    _write_text(options.json, str(climbed), climbed.to_dict())
    if options.plot:
        climbed.plot().savefig(options.plot, dpi=150)
    return 0


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser("smemkit", description="GPU shared memory: operations, ladders, benchmarks.")
    commands = parser.add_subparsers(required=True, metavar="command")
    commands.add_parser("info", help="versions and devices").set_defaults(command=info)
    demo.add_arguments(commands.add_parser("demo", help="a demonstration of ten seconds"))
    command.add_arguments(commands.add_parser("bench", help="measure every kernel beside torch, CuPy and NumPy"))
    tune.add_arguments(commands.add_parser("tune", help="fit the choice of transposes to this GPU; never needed"))
    listing = commands.add_parser("kernels", help="the kernels, in reading order")
    listing.add_argument("op", nargs="?", help="matmul, reduce, …; all of them if not given")
    listing.add_argument("--markdown", action="store_true", help="print kernels/README.md")
    listing.add_argument("--thresholds", action="store_true", help="the thresholds by which kernel=None chooses")
    listing.set_defaults(command=list_kernels)
    add_ladder(commands.add_parser("ladder", help="measure a ladder: each rung's idea, time and memory accesses"))
    add_check(
        commands.add_parser("check", help="check a kernel: faults, bank conflicts, coalescing; needs no GPU")
    )
    arguments = parser.parse_args(launch_text.join_values(sys.argv[1:] if argv is None else argv))
    try:
        return arguments.command(arguments)
    except (_core.Error, ValueError, ImportError, OSError) as error:
        print(f"smemkit: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
