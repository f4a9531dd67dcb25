"""Compiles every CUDA file of a folder as `smemkit.Kernel` does, and groups what fails by its cause.

    python tests/tools/corpus.py DIR                         every .cu below DIR that has kernels
    python tests/tools/corpus.py DIR --programs 'src/*-cuda' --draw 200 --seed 1
                                                             200 of the folders that match, all of their files
    python tests/tools/corpus.py DIR --nvcc verdicts.json    does not count what fails and nvcc refuses, too
    python tests/tools/corpus.py DIR --check                 also runs the checker, with guessed launches
    python tests/tools/corpus.py DIR --tsv list.tsv --commit HASH
                                                             writes path, verdict and cause of each file

A file compiles if all kernels that it defines do: those that are not templates, and the instantiations that it
launches with literal arguments. Flags -I, -D, -U and -std are taken from the Makefile beside a file, and from
the command line. Each file has a process of its own with a time limit, so that a crash is a verdict like any
other. Nothing of DIR is executed but its kernels, with --check. The exit status is 1 if less than --least of the
files compile.
"""

import argparse
import collections
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

FLAG = re.compile(r"-(?:I\s*\S+|D\w\S*|U\w+|std=\S+)")
LITERAL = (
    r"\s*(?:-?\d\w*|true|false|(?:(?:unsigned|int|long|short|char|float|double|half|bool|u?int\d+_t)\s*)+)\s*"
)
LAUNCH = re.compile(rf"\b(?P<name>\w+)\s*(?P<arguments><{LITERAL}(?:,{LITERAL})*>)\s*<<<")
NVCC = ("nvcc", "-arch=sm_90a", "-c", "-o", os.devnull, "-w", "-O0", "-Xptxas", "-O0")
NVCC += ("--expt-relaxed-constexpr", "--extended-lambda")
MAX_BYTES = 1 << 26  # of an array
GUESSED_GRID, GUESSED_BLOCK, GUESSED_ELEMENTS, GUESSED_SCALAR = (2, 1, 1), (64, 1, 1), 1 << 16, 64

# ---- one file, in a process of its own --------------------------------------------------------------------------


def instantiations(text, names):
    """The instantiations of templates that a source launches with literal arguments: scale<float, 16>."""
    templates = {name.rpartition("::")[2] for name in names}
    found = (match for match in LAUNCH.finditer(text) if match["name"] in templates)
    return sorted({f"{match['name']}{match['arguments']}" for match in found})


def guessed_argument(parameter, most=GUESSED_ELEMENTS):
    """An argument for a parameter: a large array of small numbers for a pointer, a small number for a scalar."""
    import numpy as np

    if parameter.kind == "P":  # pointers
        return None
    kinds = {"f": f"f{parameter.size}", "i": f"i{parameter.size}", "u": f"u{parameter.size}", "b": "?"}
    dtype = np.dtype(kinds.get(parameter.kind, f"V{parameter.size}"))
    if parameter.kind in "E32":  # types of ml_dtypes
        dtype = replace(parameter, pointer=False).dtype
    if parameter.pointer:
        elements = max(1, min(most, MAX_BYTES // (parameter.lanes * dtype.itemsize)))
        return np.zeros(elements * parameter.lanes * dtype.itemsize, np.uint8).view(dtype)
    if parameter.kind in "fiub" and parameter.lanes == 1:
        return dtype.type(GUESSED_SCALAR if parameter.kind in "fiu" else 1)
    return np.zeros(1, f"V{parameter.size * parameter.lanes}")[0]


def cpu_seconds():
    """What this process and its finished children, such as compilers, have used."""
    return sum(os.times()[:4])


def check_kernel(kernel, seconds):
    """The kinds of faults of a guessed launch, or the first line of the exception; appends to `seconds` how long
    that took with the compiler, and how much of a CPU."""
    began, used = time.perf_counter(), cpu_seconds()
    try:
        return faults_of(kernel)
    finally:
        seconds.append((round(time.perf_counter() - began, 3), round(cpu_seconds() - used, 3)))


def faults_of(kernel):
    import smemkit

    program = kernel._program
    module = program.module("cpu", kernel.name, checked=True)
    parameters = program.parameters(module, kernel._function, kernel.name)
    arguments = [guessed_argument(parameter) for parameter in parameters]
    try:
        report = smemkit.check(kernel[GUESSED_GRID, GUESSED_BLOCK], *arguments)
    except (smemkit.Error, ValueError, TypeError) as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return ", ".join(sorted({fault.kind for fault in report.faults})) or "no faults"


def is_only_declared(name, reason):
    """Whether a kernel was skipped because another file defines it, or an #if excludes it: there is nothing to
    compile."""
    base = re.escape(name.rpartition("::")[2])
    return bool(
        re.match(rf"(?:\w+::)*{base}\(.* is declared but not defined|.*{base} is excluded by an #if", reason)
    )


def defines_no_kernel(path, flags, error):
    """Whether all that fails is that the file's kernels are only declared."""
    from smemkit.user_kernel.program import Program

    names = Program(path, flags).names
    undefined = [f"{symbol} is declared but not defined" for symbol in error.undefined]
    return (
        bool(undefined)
        and not error.errors
        and all(any(is_only_declared(name, symbol) for name in names) for symbol in undefined)
    )


def compile_file(path, flags, check, seconds):
    """Compiles a file's kernels; returns its failures by kernel, and with `check` what the checker says."""
    import smemkit

    failures, checks = {}, {}
    try:
        whole = smemkit.Kernel(path, options=flags)
    except ValueError as error:
        return {"": str(error)}, checks
    except smemkit.CompileError as error:
        if not defines_no_kernel(path, flags, error):
            raise
        return {"": f"got none in {path}, which only declares kernels"}, checks
    failures |= {name: reason for name, reason in whole.skipped.items() if not is_only_declared(name, reason)}
    text = Path(path).read_text(errors="replace")
    templates = [f.name for f in whole._program.code.functions if f.template]
    plain = [name for name in whole.names if name not in templates and name not in whole.skipped]
    for name in plain + instantiations(text, templates):
        try:
            kernel = whole[name]
            kernel._program.module("cpu", kernel.name)
            if check:
                checks[name] = check_kernel(kernel, seconds)
        except (smemkit.Error, ValueError) as error:
            if not str(error).startswith("name"):  # not an instantiation, or one with a host template's parameter
                failures[name] = str(error)
    return failures, checks


def run_worker(path, flags, check):
    import smemkit

    began, seconds = time.perf_counter(), []
    try:
        failures, checks = compile_file(path, flags, check, seconds)
        verdict = "fails" if failures else "compiles"
        if "got none in" in failures.get("", ""):
            verdict = "no kernels"
    except (smemkit.Error, RecursionError) as error:
        failures, checks, verdict = {"": str(error)}, {}, "fails"
    result = {"verdict": verdict, "failures": failures, "checks": checks, "check_seconds": seconds}
    print(json.dumps(result | {"seconds": round(time.perf_counter() - began, 2)}))


# ---- all files --------------------------------------------------------------------------------------------------


def find_files(options):
    """The .cu files, of a seeded draw of folders if there is one."""
    folders = (
        sorted(filter(Path.is_dir, options.folder.glob(options.programs)))
        if options.programs
        else [options.folder]
    )
    if options.draw and options.draw < len(folders):
        folders = random.Random(options.seed).sample(folders, options.draw)
    found = {file for folder in folders for file in folder.rglob("*.cu")}
    return sorted(found)


def flags_of(file, options):
    """The flags of the Makefile beside a file, and those of the command line; folders are absolute."""
    makefile = file.parent / "Makefile"
    lines = makefile.read_text(errors="replace").splitlines() if makefile.is_file() else []
    text = " ".join(line for line in lines if not re.match(r"\s*#|.*\+=", line))
    flags = [re.sub(r"\s", "", flag) for flag in FLAG.findall(text) if "$" not in flag]
    flags += [f"-I{Path(folder).absolute()}" for folder in options.include]
    flags = [f"-I{(file.parent / flag[2:]).resolve()}" if flag.startswith("-I") else flag for flag in flags]
    allowed = [flag for flag in flags if not flag.startswith("-std=") or re.search(r"\+\+(17|20|23|2a|2b)$", flag)]
    return [flag.replace('\\"', '"').strip("'") for flag in dict.fromkeys(allowed)]


def run_limited(command, seconds, **how):
    """The output and the exit status of a command that is killed with its children after `seconds`."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, **how
    ) as process:
        try:
            output, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, errors = process.communicate()
            return output, f"still running after {seconds} s", "hangs"
    return output, errors, process.returncode


def verdict_of(file, options):
    """The result of a worker, whatever happens to it."""
    command = [sys.executable, __file__, "--worker", str(file), *(["--check"] if options.check else [])]
    flags = json.dumps(flags_of(file, options))
    output, errors, status = run_limited(command, options.limit, env={**os.environ, "CORPUS_FLAGS": flags})
    try:
        return json.loads(output.splitlines()[-1])
    except (ValueError, IndexError):
        what = "hangs" if status == "hangs" else "crashes"
        return {"verdict": what, "failures": {"": f"{what} ({status}): {errors.strip()[-300:]}"}, "checks": {}}


def nvcc_error(file, options):
    """nvcc's first error in a file, with the same flags; "" if it compiles it."""
    with tempfile.TemporaryDirectory() as folder:
        command = [*NVCC, *flags_of(file, options), str(file)]
        _, errors, status = run_limited(command, 600, cwd=folder)
    return "" if status == 0 else next((row for row in errors.splitlines() if "error" in row), errors[:200])


def refused_by_nvcc(paths, options):
    """Those of these files that nvcc refuses, too: path → its error. Verdicts in the file of --nvcc are not made
    again."""
    known = json.loads(options.nvcc.read_text()) if options.nvcc.is_file() else {}
    missing = [path for path in paths if path not in known]
    with ThreadPoolExecutor(options.jobs) as pool:
        verdicts = pool.map(lambda path: nvcc_error(options.folder / path, options), missing)
        for path, verdict in zip(missing, verdicts, strict=True):
            known[path] = verdict
            options.nvcc.write_text(json.dumps(known, indent=1))
    return {path: known[path] for path in paths if known[path]}


# ---- causes -----------------------------------------------------------------------------------------------------


def cause_of(message):
    """The cause in a message: its first error, without its location and without what differs from file to file."""
    lines = [line for line in message.splitlines() if line.strip()]
    first = lines[0] if lines else ""
    first = re.sub(r"^\S*?:(?:\d+:)? ", "", first)
    first = re.sub(r"'([^']*)'", lambda quoted: "'" + re.sub(r"\(.*", "(…)", quoted[1]) + "'", first)
    return first[:110]


def grouped(results):
    """Cause → the files that it stops."""
    causes = collections.defaultdict(list)
    for path, result in results.items():
        for message in dict.fromkeys(map(cause_of, result["failures"].values())):
            causes[message].append(path)
    return dict(sorted(causes.items(), key=lambda item: -len(item[1])))


def print_tables(results, checked, options):
    console = Console(width=options.width)
    table = Table("files", "cause", "for instance", box=None)
    for cause, paths in list(grouped(results).items())[: options.rows]:
        table.add_row(str(len(paths)), cause.replace("[", r"\["), paths[0])
    console.print(table)
    if checked:
        table = Table("kernels", "the checker on a guessed launch", box=None)
        for what, count in collections.Counter(checked).most_common():
            table.add_row(str(count), re.sub(r"\[", r"\\[", what[:100]))
        console.print(table)
        print_seconds(results)


def print_seconds(results):
    """How long checks take with the compiler: the first kernel of each file, which pays for the file, and all."""
    timed = [result["check_seconds"] for result in results.values() if result.get("check_seconds")]
    if not timed:
        return
    firsts, every = [rows[0] for rows in timed], [row for rows in timed for row in rows]
    for what, chosen in (("a file's first", firsts), ("every", every)):
        wall, cpu = (statistics.median(column) for column in zip(*chosen, strict=True))
        print(f"{what} kernel, compiled and checked: median {wall:.2f} s, {cpu:.2f} CPU-s ({len(chosen)} kernels)")


def how(options):
    """The run's options, as the second line of a list."""
    drawn = f"--programs {options.programs} --draw {options.draw} --seed {options.seed}" if options.draw else ""
    nvcc = "without what nvcc refuses" if options.nvcc else ""
    return ", ".join(filter(None, (drawn, "--check" * options.check, f"{options.limit} s per file", nvcc)))


def write_list(results, options):
    rows = [f"# {options.repository} {options.commit}", f"# {how(options)}", "path\tverdict\tcause"]
    for path, result in sorted(results.items()):
        causes = "; ".join(dict.fromkeys(map(cause_of, result["failures"].values())))
        rows.append(
            f"{path}\t{result['verdict']}\t{causes}".expandtabs(1)
            if "\t" in causes
            else f"{path}\t{result['verdict']}\t{causes}"
        )
    options.tsv.write_text("\n".join(rows) + "\n")


def compile_all(files, options):
    """Path → result, of the files that have kernels; what nvcc refuses as well is not counted."""
    results = {}
    with ThreadPoolExecutor(options.jobs) as pool:
        for file, result in zip(files, pool.map(partial(verdict_of, options=options), files), strict=True):
            results[str(file.relative_to(options.folder))] = result
            print(f"\r{len(results)} of {len(files)} ", end="", file=sys.stderr)
    results = {path: result for path, result in results.items() if result["verdict"] != "no kernels"}
    if options.nvcc:
        failing = [path for path, result in results.items() if result["verdict"] != "compiles"]
        refused = refused_by_nvcc(failing, options)
        results = {path: result for path, result in results.items() if path not in refused}
    return results


def survey(options):
    """Compiles all files, prints the table of causes, and writes what was asked for."""
    files = [file for file in find_files(options) if re.search(options.only, str(file))]
    results = compile_all(files, options)
    checked = [re.sub(r"\d+", "N", what) for result in results.values() for what in result["checks"].values()]
    print_tables(results, checked, options)
    compiled = sum(result["verdict"] == "compiles" for result in results.values())
    share = compiled / max(len(results), 1)
    accepted = ", without those that nvcc refuses, too" * bool(options.nvcc)
    print(f"{compiled} of {len(results)} files compile ({share:.1%}){accepted}")
    if options.json:
        options.json.write_text(json.dumps({"files": results, "causes": grouped(results)}, indent=1))
    if options.tsv:
        write_list(results, options)
    return 0 if share >= options.least else 1


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--programs", default="", help="folders to take, as a pattern")
    parser.add_argument("--draw", type=int, default=0, help="how many of them; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="a regular expression for paths")
    parser.add_argument("-I", dest="include", action="append", default=[])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--nvcc", type=Path, metavar="JSON")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--limit", type=int, default=120, help="seconds per file")
    parser.add_argument("--least", type=float, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--tsv", type=Path)
    parser.add_argument("--repository", default="")
    parser.add_argument("--commit", default="")
    parser.add_argument("--rows", type=int, default=60)
    parser.add_argument("--width", type=int, default=170)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        return run_worker(str(options.folder), json.loads(os.environ["CORPUS_FLAGS"]), options.check)
    options.folder = options.folder.absolute()
    return survey(options)


if __name__ == "__main__":
    sys.exit(main())
