"""``smemkit check``: launches from the command line or from smemkit.toml, and one of smemkit's own kernels."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from smemkit import ops
from smemkit.checker.check import check
from smemkit.checker.figures import plot
from smemkit.ci import fail_on
from smemkit.ci.baseline import Baseline
from smemkit.ci.configuration import FILENAME, read_configuration
from smemkit.ci.formats import FORMATS, json_content, text
from smemkit.ci.parallel import cores, run_checks
from smemkit.ci.results import Check, Outcome, findings
from smemkit.ci.verdict import Verdict, judge
from smemkit.user_kernel import launch_text

__all__ = ["add_arguments", "main"]

_EPILOG = """
A first check, of a file with one kernel:
  smemkit check halo.cu --grid 4 --block 256 --arg 'float[1024]' --arg 'float[1024]=zeros' --arg 1024

Many launches are written once, in smemkit.toml, and checked by `smemkit check` in its folder:
  [defaults]
  fail_on = "errors,conflict>=8"

  [[check]]
  file = "halo.cu"
  grid = 4
  block = 256
  args = ["float[1024]", "float[1024]=zeros", 1024]

A comment accepts the findings of its line: // smemkit: allow(race) all threads write the same value

Exit status: 0 if nothing is found that --fail-on names, 1 if something is, 2 for wrong use or if nothing compiles.
"""
_LAUNCH_OPTIONS = ("kernel", "grid", "block", "cluster", "shared", "arg")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of ``smemkit check``."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = (
        "Runs launches of CUDA kernels on the CPU, and reports faults, bank conflicts and wasted sectors."
    )
    parser.epilog = _EPILOG
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE.cu",
        help="CUDA C or C++, as for nvcc; several files are spread over the cores",
    )
    parser.add_argument("--kernel", metavar="NAME", help="the kernel of FILE.cu (optional if it has only one)")
    launch_text.add_arguments(parser)
    _add_ci_arguments(parser.add_argument_group("in CI"))
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
    parser.set_defaults(command=main, blocks=None, schedule=None, seed=None, shared=None)


def _add_ci_arguments(group: Any) -> None:
    group.add_argument(
        "--config",
        metavar=FILENAME,
        help=f"check the launches in it: all, or those of each FILE.cu; ./{FILENAME} if neither is given",
    )
    group.add_argument(
        "--fail-on",
        metavar="LIST",
        help=f"exit with 1 if one of these is found, separated by commas: {fail_on.GRAMMAR}; default: errors",
    )
    group.add_argument("--format", choices=tuple(FORMATS), default="text", help="of the output (default text)")
    group.add_argument("--output", metavar="FILE", help="write the --format there, and the text to the terminal")
    group.add_argument("--json", metavar="FILE", help="write JSON to a file as well; -: as --format json")
    group.add_argument(
        "--plot", metavar="FILE", help="save a picture of the counts (needs matplotlib: smemkit[plot])"
    )
    group.add_argument("--baseline", metavar="FILE", help="the findings in this file are known, and do not fail")
    group.add_argument(
        "--update-baseline",
        action="store_true",
        help="write what fails now into the --baseline file, and exit with 0",
    )
    group.add_argument("--jobs", type=int, metavar="N", help="files to check at a time (default: one per core)")


def main(options: argparse.Namespace) -> int:
    """Checks what was asked for, and writes what was found; returns the exit status."""
    if options.fail_on is not None:
        fail_on.parse_limits(options.fail_on)
    if options.jobs is not None and options.jobs < 1:
        raise ValueError(f"--jobs: expected a number above 0, got {options.jobs}")
    checks, baseline = ([], options.baseline) if options.op else _asked_checks(options)
    if options.update_baseline and baseline is None:
        raise ValueError("--update-baseline: expected --baseline FILE, the file to write")
    if options.update_baseline and options.files and options.config:
        raise ValueError(
            "--update-baseline: expected no FILE together with --config, whose checks all go into the baseline"
        )
    known = Baseline(baseline) if baseline and not options.update_baseline else None
    outcomes = [_own_outcome(options)] if options.op else list(run_checks(checks, options.jobs or cores()))
    if options.update_baseline:
        status = _update_baseline(outcomes, baseline)
    else:
        verdict = judge(outcomes, known)
        _write(verdict, options)
        status = verdict.status
    if options.plot:
        reports = [outcome.report for outcome in outcomes if outcome.report]
        plot([launch for report in reports for launch in report.launches]).savefig(options.plot, dpi=150)
    return status


def _update_baseline(outcomes: Sequence[Outcome], baseline: str) -> int:
    """Writes what fails as known."""
    verdict = judge(outcomes)
    _print_problems(verdict)
    if verdict.status == 2:
        return 2
    known = [finding for finding in verdict.failing if finding.kind != "compile"]
    print(f"{baseline}: {Baseline.write(baseline, known)} known findings written")
    return 0


# ---- what to check ----


def _asked_checks(options: argparse.Namespace) -> tuple[list[Check], str | None]:
    """The launches to check, and the path of the baseline."""
    if options.shape:
        raise ValueError("--shape: goes with --op; a kernel of a file takes --arg 'float[64,64]'")
    config = options.config
    if config is None and not options.files:
        if not Path(FILENAME).is_file():
            raise ValueError(
                f"check: expected either a FILE.cu or --op, or a {FILENAME} in this folder; "
                "`smemkit check --help` shows both"
            )
        config = FILENAME
    if config is None:
        return [_check_of(file, options) for file in options.files], options.baseline
    for name in _LAUNCH_OPTIONS:
        if getattr(options, name):
            raise ValueError(f"--{name}: goes with a FILE.cu and no --config; {config} has its own launches")
    found = read_configuration(config)
    checks = [_overridden(check, options) for check in _selected(found.checks, options.files, config)]
    return checks, options.baseline or found.baseline


def _check_of(file: str, options: argparse.Namespace) -> Check:
    return Check(
        file,
        options.kernel,
        options.grid,
        options.block,
        options.shared or 0,
        options.cluster,
        tuple(options.arg),
        launch_text.compiler_options(options),
        **{name: value for name, value in _overrides(options).items() if value is not None},
    )


def _overrides(options: argparse.Namespace) -> dict[str, Any]:
    """The options that also replace those of smemkit.toml."""
    return {name: getattr(options, name) for name in ("blocks", "schedule", "seed", "fail_on")}


def _overridden(check: Check, options: argparse.Namespace) -> Check:
    given = {name: value for name, value in _overrides(options).items() if value is not None}
    return replace(check, option=(*check.option, *launch_text.compiler_options(options)), **given)


def _selected(checks: Sequence[Check], files: Sequence[str], config: str) -> list[Check]:
    """The checks of these files; all of them without files."""
    wanted = {Path(file).resolve(): file for file in files}
    known = {Path(check.file).resolve() for check in checks}
    for path, file in wanted.items():
        if path not in known:
            raise ValueError(f"{file}: {config} has no [[check]] of this file")
    return [check for check in checks if not wanted or Path(check.file).resolve() in wanted]


# ---- one of smemkit's own kernels ----


def _own_outcome(options: argparse.Namespace) -> Outcome:
    if options.files or options.config:
        raise ValueError("check: expected either a FILE.cu or --op, got both")
    how = _overrides(options)
    schedule, seed = how["schedule"] or "serial", how["seed"] or 0
    target, arguments, keywords = _own_launch(options, seed)
    blocks = launch_text.parse_blocks(how["blocks"] or "auto")
    try:
        report = check(target, *arguments, schedule=schedule, seed=seed, blocks=blocks, **keywords)
    except TypeError as error:  # a keyword or a dtype that the operation does not take
        raise ValueError(str(error)) from error
    named = Check(options.op, options.kernel, fail_on=how["fail_on"] or fail_on.DEFAULT)
    return Outcome(named, report, findings=tuple(findings(report)))


def _own_launch(options: argparse.Namespace, seed: int) -> tuple[Any, Sequence[np.ndarray], dict[str, Any]]:
    """An operation of smemkit, random operands of the given shapes, and its keywords."""
    for name, value in (("--grid", options.grid), ("--block", options.block), ("--arg", options.arg)):
        if value:
            raise ValueError(f"{name}: goes with a FILE.cu; --op takes --shape and chooses its own launch")
    operands = 2 if options.op == "matmul" else 1
    if len(options.shape) != operands:
        raise ValueError(f"--shape: expected {operands} for {options.op}, got {len(options.shape)}")
    arguments = [
        launch_text.parse_argument(f"{options.dtype}[{shape}]", index, seed)
        for index, shape in enumerate(options.shape)
    ]
    given = {name: getattr(options, name) for name in ("kernel", "tile", "pad", "block_size")}
    return getattr(ops, options.op), arguments, {name: value for name, value in given.items() if value is not None}


# ---- what is written ----


def _write(verdict: Verdict, options: argparse.Namespace) -> None:
    """Writes the verdict to standard output and to the files that the options name."""
    form = "json" if options.json == "-" else options.format
    content = FORMATS[form](verdict)
    if options.output:
        Path(options.output).write_text(content + "\n", encoding="utf-8")
        content, form = text(verdict), "text"
    if options.json and options.json != "-":
        Path(options.json).write_text(json.dumps(json_content(verdict), indent=1) + "\n", encoding="utf-8")
    if hasattr(sys.stdout, "reconfigure") and form in ("text", "github"):
        sys.stdout.reconfigure(errors="replace")  # a terminal without ✓ shows a question mark
    if content:
        print(content)
    if form in ("text", "json"):
        _print_problems(verdict)


def _print_problems(verdict: Verdict) -> None:
    """What could not be checked, to standard error."""
    for problem in dict.fromkeys(judged.outcome.problem for judged in verdict.judged):
        if problem:
            print(f"smemkit: {problem}", file=sys.stderr)
