"""``python -m smemkit``: info, support, demo, bench, tune, kernels, ladder, lab, check, occupancy."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import sys
import textwrap
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import smemkit
from smemkit import _core
from smemkit.devices import devices, get_num_threads
from smemkit.table.kernel_table import kernels, reading_order
from smemkit.user_kernel import launch_text


def info(options: argparse.Namespace) -> int:
    """Versions, devices with their properties, and why there is no CUDA device if there is none."""
    from rich.console import Console
    from rich.table import Table

    present, texts = devices(), _facts()
    facts = Table.grid(padding=(0, 2))
    for what, text in texts.items():
        facts.add_row(f"[bold]{what}", text)
    limits = Table(box=None, padding=(0, 2, 0, 0))
    limits.add_column("")
    for device in present:
        limits.add_column(f"{device.name}\n[dim]{device.description}", justify="right")
    columns = [device.limits() for device in present]
    for what in dict.fromkeys(what for column in columns for what in column):
        limits.add_row(what, *(column.get(what, "") for column in columns))
    if options.json != "-":
        Console(highlight=False).print(facts, "", limits)
    named = {device.name: device.limits() for device in present}
    _write_json(options.json, {"schema": "smemkit.info", "version": 1, "facts": texts, "devices": named})
    return 0


def _facts() -> dict[str, str]:
    """Versions, and what was built."""
    from smemkit.measure import tuned

    build, present = _core.build_info(), devices()
    facts = {
        "smemkit": smemkit.__version__,
        "Python": f"{platform.python_version()}, {platform.platform()}",
        "NumPy": np.__version__,
        "compiler": build["compiler"],
        "CUDA toolkit": f"{build['cuda']}, for {build['archs']}" if build["cuda"] else "built without",
        "executor": f"{get_num_threads()} threads, {build['fibers']} fibers",
        "default device": _default_device(),
        "no CUDA device": _core.cuda_unavailable(),
        "tuned transposes": ", ".join(device.name for device in present if tuned.in_use(device.name)),
    }
    return {what: str(text) for what, text in facts.items() if text}


def _default_device() -> str:
    """The default device's name, or why SMEMKIT_DEVICE is unusable."""
    try:
        return _core.default_device()
    except (ValueError, _core.NoDeviceError) as error:
        return str(error)


def list_kernels(arguments: argparse.Namespace) -> int:
    """The kernel table, for a terminal or as kernels/README.md."""
    from rich.console import Console
    from rich.table import Table

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
    if arguments.json != "-":
        Console(highlight=False).print(table)
    rows = [dataclasses.asdict(row) for row in kernels(arguments.op)]
    _write_json(arguments.json, {"schema": "smemkit.kernels", "version": 1, "kernels": rows})
    return 0


def list_thresholds(op: str | None) -> int:
    """The thresholds of the policies, as built in for an H200, and what each decides."""
    from smemkit.bench import fit

    if op not in (None, *fit.OPS):
        raise ValueError(f"kernels --thresholds: expected one of {', '.join(fit.OPS)}, got {op}")
    for name in [op] if op else fit.OPS:
        print(f"{name}, on {fit.H200.multiprocessors} multiprocessors")
        for row in fit.thresholds(name):
            unit = f"{row.unit}, in proportion to the multiprocessors" if row.per_gpu else row.unit
            print(f"  {row.name} = {row.value} {unit}")
            print(textwrap.fill(row.why, 80, initial_indent="    ", subsequent_indent="    "))
    return 0


def _write_text(file: str | None, text: str, content: dict[str, Any]) -> None:
    """Prints the text and writes the content as JSON to a file; for "-", prints the JSON only."""
    if file != "-":
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="replace")  # a terminal without ✓ shows a question mark
        print(text)
    _write_json(file, content)


def _write_json(file: str | None, content: dict[str, Any]) -> None:
    """Writes the content as JSON to a file, or for "-" to standard output."""
    written = json.dumps(content, indent=1, default=str) + "\n" if file else ""
    if file == "-":
        sys.stdout.write(written)
    elif file:
        Path(file).write_text(written, encoding="utf-8")


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", metavar="FILE", nargs="?", const="-", help="write JSON; without a FILE, or to -, print only that"
    )


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
    _add_json(parser)
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


def experiment(options: argparse.Namespace) -> int:
    """Runs an experiment of the laboratory, or lists all."""
    from smemkit.lab import command as lab

    if options.name is None:
        if options.plot:
            raise ValueError("--plot: expected the NAME of an experiment")
        _write_text(options.json, lab.listing(), lab.listed())
        return 0
    result = lab.run(options.name, options.device)
    _write_text(options.json, str(result), result.to_dict())
    if options.plot:
        result.plot().savefig(options.plot, dpi=150)
    return 0


def add_lab(parser: argparse.ArgumentParser) -> None:
    """The command line of ``smemkit lab``."""
    parser.description = (
        "Runs an experiment: a question, a table, and the verdict that its rows give. On a GPU the numbers are "
        "measured; without one they are counted by the checker, beside times recorded on a reference GPU."
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="the experiment; without it, a list of all")
    parser.add_argument("--device", help='"cuda:0", "cpu"; the default device if not given')
    parser.add_argument("--plot", metavar="FILE", help="save its picture (needs matplotlib: smemkit[plot])")
    _add_json(parser)
    parser.set_defaults(command=experiment)


def add_info(parser: argparse.ArgumentParser) -> None:
    """The command line of ``smemkit info``."""
    _add_json(parser)
    parser.set_defaults(command=info)


def add_kernels(parser: argparse.ArgumentParser) -> None:
    """The command line of ``smemkit kernels``."""
    parser.add_argument("op", nargs="?", help="matmul, reduce, …; all of them if not given")
    parser.add_argument("--markdown", action="store_true", help="print kernels/README.md")
    parser.add_argument("--thresholds", action="store_true", help="the thresholds by which kernel=None chooses")
    _add_json(parser)
    parser.set_defaults(command=list_kernels)


class _ShowVersion(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(f"smemkit {smemkit.__version__}")
        parser.exit()


# What adds each command's arguments, or the module that does, and what the command is for. Only the module of the
# chosen command is imported: all of them would take as long as a check.
_COMMANDS: dict[str, tuple[str | Callable[[argparse.ArgumentParser], None], str]] = {
    "info": (add_info, "versions and devices"),
    "support": ("smemkit.ci.support", "what kernels may use on the CPU device"),
    "demo": ("smemkit.demo", "a demonstration that takes ten seconds"),
    "bench": ("smemkit.bench.command", "measure every kernel, and compare with torch, CuPy and NumPy"),
    "tune": ("smemkit.bench.tune", "fit the choice of transpose kernels to this GPU; optional"),
    "kernels": (add_kernels, "the kernels, in reading order"),
    "occupancy": (
        "smemkit.measure.occupancy",
        "blocks of a kernel that fit on a multiprocessor; needs no GPU",
    ),
    "ladder": (add_ladder, "measure a ladder: each rung's idea, time and memory accesses"),
    "lab": (add_lab, "experiments on shared memory that say what they show; needs no GPU"),
    "check": ("smemkit.ci.command", "check kernels: faults, bank conflicts, coalescing; needs no GPU"),
}


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    try:
        status = _run(argv)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1  # as where rich prints
    except KeyboardInterrupt:
        print("smemkit: interrupted", file=sys.stderr)
        return 130  # as shells report SIGINT
    return status


def _run(argv: list[str] | None) -> int:
    parser = argparse.ArgumentParser("smemkit", description="GPU shared memory: operations, ladders, benchmarks.")
    parser.add_argument("--version", action=_ShowVersion, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(required=True, metavar="command")
    words = sys.argv[1:] if argv is None else argv
    chosen = next((word for word in words if not word.startswith("-")), None)
    for name, (arguments_of, summary) in _COMMANDS.items():
        subparser = commands.add_parser(name, help=summary)
        if name == chosen:
            add = import_module(arguments_of).add_arguments if isinstance(arguments_of, str) else arguments_of
            add(subparser)
    arguments = parser.parse_args(launch_text.join_values(words))
    try:
        return arguments.command(arguments)
    except BrokenPipeError:
        raise
    except (_core.Error, ValueError, ImportError, OSError) as error:
        print(f"smemkit: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
