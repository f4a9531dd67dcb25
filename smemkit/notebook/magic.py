"""``%%smemkit``: compiles and checks a notebook cell of CUDA, and runs it on request.

``%load_ext smemkit`` loads it. IPython is imported at its use: it is installed if an extension can be loaded.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
from typing import Any, NoReturn

from smemkit import _core
from smemkit.checker.check import check
from smemkit.devices import Device
from smemkit.lab.exercises.catalogue import exercise
from smemkit.lab.exercises.grade import Grade
from smemkit.user_kernel import launch_text
from smemkit.user_kernel.kernel import Kernel

__all__ = ["register_magic"]

_LAUNCH_OPTIONS = ("block", "shared", "cluster", "arg", "schedule", "seed", "blocks", "run", "device")
HELP_EPILOG = """
An argument is the name of a variable of the notebook, or a description such as float[1024]. Nothing is evaluated.
The Kernel is assigned to a variable with the kernel's name, or to --name. If the cell has several kernels, each is
assigned. Without --grid the cell is only compiled. Line numbers in messages are those of the cell in the editor:
line 1 is the one of %%smemkit.
"""


class _Parser(argparse.ArgumentParser):
    """A parser that raises ValueError instead of ending the notebook's kernel."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def make_parser() -> argparse.ArgumentParser:
    """The magic's options."""
    parser = _Parser(
        "%%smemkit", add_help=False, description="Compile a cell of CUDA C++ and check a launch of it."
    )
    parser.epilog = HELP_EPILOG
    parser.add_argument("-h", "--help", action="store_true", help="show this")
    parser.add_argument("--kernel", metavar="NAME", help="the kernel, if the cell has several")
    launch_text.add_arguments(parser)
    parser.add_argument("--name", help="the variable that receives the Kernel (default: the kernel's name)")
    parser.add_argument("--run", action="store_true", help="launch it as well, which changes the arrays")
    parser.add_argument("--submit", metavar="EXERCISE", help="grade the cell as an answer to an exercise, alone")
    parser.add_argument("--device", help='the device for --run: "cuda:0", "cpu" (default: the default device)')
    return parser


def register_magic(shell: Any) -> None:
    """Registers the magic; ``%load_ext smemkit`` calls this."""
    editor = _Editor()
    shell.events.register("pre_run_cell", editor.remember)
    shell.input_transformers_cleanup.insert(0, _help_alone)

    def magic(line: str, cell: str) -> Any:
        """Compile a cell of CUDA C++, check a launch of it, and show the report.

            %%smemkit --grid 4 --block 256 --arg x --arg 'float[1024]=zeros' --arg 1024
            __global__ void twice(const float *x, float *y, int n) { … }

        A check changes no array; --run launches the kernel for real afterwards. `%%smemkit --help` lists all.
        """
        from IPython.core.error import UsageError  # shown without a traceback

        try:
            return run_cell(line, editor.numbered(cell), shell.user_ns)
        except (ValueError, TypeError, OSError, _core.Error) as error:
            raise UsageError(f"%%smemkit: {error}") from error

    shell.register_magic_function(magic, "cell", "smemkit")
    shell.register_magic_function(lambda line: magic(line, ""), "line", "smemkit")


def _help_alone(lines: list[str]) -> list[str]:
    """A transformation of IPython's input: `%%smemkit --help` without a cell becomes a line magic, because IPython
    refuses a cell magic without a cell."""
    text = "".join(lines).strip()
    asked = re.fullmatch(r"%%smemkit[ \t][^\n]*(?<!\S)(?:-h|--help)(?!\S)[^\n]*", text)
    return [f"{text[1:]}\n"] if asked else lines


class _Editor:
    """The cell as its editor shows it. A magic gets the lines below its own, without those above."""

    def __init__(self) -> None:
        self.cell = ""

    def remember(self, info: Any) -> None:
        """IPython calls this before it runs a cell."""
        self.cell = info.raw_cell or ""

    def numbered(self, cell: str) -> str:
        """The magic's cell with an empty line for each line above it in the editor, that of %%smemkit at least."""
        whole, cell = self.cell.rstrip(), cell.rstrip() + "\n"
        above = len(whole.split("\n")) - cell.count("\n") if whole.endswith(cell.rstrip()) else 1
        return "\n" * max(1, above) + cell


def run_cell(line: str, cell: str, names: dict[str, Any]) -> Any:
    """Runs the magic on its line and its cell; `names` are the notebook's variables.

    Returns
    -------
    Report, Grade or None
        A grade of a cell that is submitted; None if nothing was launched.

    Raises
    ------
    ValueError, TypeError, OSError, smemkit.Error
        The line cannot be parsed, the arguments do not fit the kernel, or the kernel does not compile.
    """
    parser = make_parser()
    options = parser.parse_args(launch_text.split(line))
    if options.help:
        print(parser.format_help())
        return None
    if not cell.strip():
        raise ValueError("expected CUDA C++ below %%smemkit; %%smemkit --help lists the options")
    if options.submit:
        return _submit(line, options.submit, cell)
    if options.grid is None:
        for name in _LAUNCH_OPTIONS:
            if getattr(options, name) != parser.get_default(name):
                raise ValueError(f"--{name}: a launch needs --grid as well")
    if options.device and not options.run:
        raise ValueError("--device: says where --run launches the kernel; a check needs no device")
    kernel = Kernel(cell, options.kernel, options=launch_text.compiler_options(options))
    if options.name or kernel.name:
        names[_variable_name(options.name or kernel.name)] = kernel
    else:  # several kernels, none of them selected
        names.update({_variable_name(name): kernel[name] for name in kernel.names})
    if options.grid is None:
        return None
    launch, arguments = (
        launch_text.configured_launch(kernel, options),
        launch_text.kernel_arguments(options, names),
    )
    blocks = launch_text.parse_blocks(options.blocks)
    report = check(launch, *arguments, schedule=options.schedule, seed=options.seed, blocks=blocks)
    if options.run and not report.ok:
        print("%%smemkit: not run, because the check found a fault", file=sys.stderr)
    elif options.run:
        with Device(options.device) if options.device else contextlib.nullcontext():
            launch(*arguments)
    return report


def _submit(line: str, name: str, cell: str) -> Grade:
    """The grade of a cell. The exercise has its own launches, so that other options have no use."""
    if launch_text.split(line) not in (["--submit", name], [f"--submit={name}"]):
        raise ValueError(f"--submit: expected no other option, because {name} has its own launches")
    return exercise(name).submit(cell)


def _variable_name(name: str) -> str:
    """A kernel's name as a variable name: without namespaces and template arguments."""
    plain = re.sub(r"<.*", "", name, flags=re.DOTALL).rpartition("::")[2].strip()
    if not plain.isidentifier():
        raise ValueError(f"--name: expected the name of a variable, got {name!r}")
    return plain
