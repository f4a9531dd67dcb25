"""Checks GPUVerify's CUDA tests, each of which says whether it has a fault.

    python tests/tools/gpuverify.py DIR --tsv list.tsv --commit HASH

DIR is testsuite/CUDA of mc-imperial/gpuverify. A test begins with `//pass` or `//xfail:…` and with its launch.
GPUVerify proves properties for all arguments that `__requires` allows; a check runs with some of them: arrays of
zeros, then arrays of ascending numbers and constants of zeros, with scalars from `__requires`, from the numbers in
the file, and 64. A run whose arguments violate `__requires` does not count. Conditions on GPUVerify's variables
(`__write(p)`, `__distinct_int`) are not evaluated. The exit status is 1 if a verdict differs from the list in
--known.
"""

import argparse
import json
import math
import re
import sys
from itertools import islice, product
from pathlib import Path

import corpus

PRECONDITION = "((x) ? (void)0 : __trap())"
CONDITIONS = {"__requires(x)": PRECONDITION, "__assume(x)": PRECONDITION, "__assert(x)": PRECONDITION}
IGNORED = "__ensures __invariant __global_invariant __function_wide_invariant __requires_fresh_array __reads_from"
CONDITIONS |= {f"{name}(...)": "((void)0)" for name in IGNORED.split()} | {"__axiom(...)": ""}
PREDICATES = (
    "__uniform_int __uniform_bool __distinct_int __all __no_read __no_write __write_implies __read_implies"
)
CONDITIONS |= {f"{name}(...)": "1" for name in PREDICATES.split()} | {"__enabled()": "1"}
CONDITIONS |= {
    f"{name}(...)": "0" for name in ("__read", "__write", "__read_offset_bytes", "__write_offset_bytes")
}
CONDITIONS |= {"__implies(a,b)": "(!(a) || (b))", "__other_int(x)": "(x)", "__ptr_offset_bytes(...)": "0"}
CONDITIONS |= {"synchronize(group)": "(group).sync()"}  # of CUDA 9
HEADER = (
    "#include <assert.h>\n#include <cuda_runtime.h>\n#include <cooperative_groups.h>\n#include <curand_kernel.h>\n"
)
HEADER += "#undef __assert\n"
HEADER += "".join(f"#define {name} {value}\n" for name, value in CONDITIONS.items())
MOST_RUNS = 12
ELEMENTS = 1 << 21  # of an array
MOST_THREADS = 1024  # of a block; GPUVerify allows more


def read_test(text):
    """(whether a fault is expected, grid, block, -D options) from a test's first lines. Blocks have no more
    threads than a GPU allows."""
    block, grid = (dimensions(text, name) for name in ("blockDim", "gridDim"))
    while math.prod(block) > MOST_THREADS:
        block = tuple(max(1, extent // 2) for extent in block)
    macros = re.findall(r"-D\w+=\w+", "\n".join(re.findall(r"^//--.*", text, re.MULTILINE)))
    return not text.startswith("//pass"), grid, block, macros


def dimensions(text, name):
    found = re.search(rf"--{name}=\[?([\d,\s]+)", text)
    return tuple(int(number) for number in found[1].split(",") if number.strip()) if found else (1,)


def scalars_of(text):
    """Values for scalars: name → value from `__requires(name == value)`, and those that every other may have."""
    code = re.sub(r"//--.*", "", text)
    named = {name: int(value) for name, value in re.findall(r"__requires\(\s*(\w+)\s*==\s*(\d+)\s*\)", code)}
    numbers = dict.fromkeys([corpus.GUESSED_SCALAR, *map(int, re.findall(r"(?<![\w.])\d{1,5}(?![\w.])", code))])
    return named, list(numbers)


def argument(parameter, name, named, scalar, ascending):
    import numpy as np

    if parameter.kind == "P":
        return None
    value = corpus.guessed_argument(parameter, ELEMENTS)
    if parameter.pointer and ascending and value.dtype.kind in "fiu":
        return np.arange(value.size).astype(value.dtype)
    if not parameter.pointer and parameter.kind in "iu" and parameter.lanes == 1:
        return np.int64(named.get(name, scalar)).astype(value.dtype)
    return value


def constants_of(kernel, text):
    """The __constant__ numbers, which the host may change: name → value."""
    return {
        name: value
        for name, value in kernel.constants.items()
        if value.dtype.kind in "fiu" and re.search(rf"__constant__(?! const)[^;()]*\b{name}\b", text)
    }


def kernel_faults(kernel, text, grid, block):
    """The faults of a kernel's runs, "race WAW"; None if no arguments satisfy the preconditions."""
    import smemkit

    program = kernel._program
    module = program.module("cpu", kernel.name, checked=True)
    parameters = program.parameters(module, kernel._function, kernel.name)
    named, scalars = scalars_of(text)
    runs, constants = [], constants_of(kernel, text)
    for scalar, ascending in islice(product([*scalars, math.prod(block)], (False, True)), MOST_RUNS):
        for name, value in constants.items():
            kernel.constants[name] = value * (not ascending)
        pairs = zip(parameters, kernel.parameters, strict=True)
        arguments = [argument(one, name, named, scalar, ascending) for one, name in pairs]
        found = smemkit.check(kernel[grid, block], *arguments).faults
        if not any(violates_precondition(fault, text) for fault in found):
            runs.append(map(describe, found))
    return set().union(*runs) if runs else None


def violates_precondition(fault, text):
    return fault.kind == "trap" and re.search("__requires|__assume", text.splitlines()[fault.line - 1])


def describe(fault):
    words = (fault.kind, fault.hazard, "(warning)" if fault.severity == "warning" else "")
    return " ".join(filter(None, words))


def verdict_of(path):
    """What the checker says of a test's kernels, in this process."""
    import smemkit

    text = Path(path).read_text(errors="replace")
    _, grid, block, macros = read_test(text)
    text = HEADER + text
    try:
        whole = smemkit.Kernel(text, options=macros)
        found = [
            kernel_faults(whole[name], text, grid, block) for name in whole.names if name not in whole.skipped
        ]
    except (smemkit.Error, ValueError, TypeError) as error:
        return f"not run: {corpus.cause_of(str(error))}"
    if faults := set().union(*filter(None, found)):
        return ", ".join(sorted(faults))
    if whole.skipped:
        return f"not run: {corpus.cause_of(next(iter(whole.skipped.values())))}"
    return "not run: no arguments satisfy the preconditions" if None in found else "no faults"


def survey(options):
    """Path below the folder → (expected, verdict)."""
    results = {}
    for file in sorted(options.folder.rglob("kernel.cu")):
        command = [sys.executable, __file__, "--worker", str(file)]
        output, errors, status = corpus.run_limited(command, options.limit)
        expected = "fault" if read_test(file.read_text(errors="replace"))[0] else "pass"
        verdict = json.loads(output.splitlines()[-1]) if status == 0 else f"crashes ({status}): {errors[-200:]}"
        results[str(file.relative_to(options.folder))] = expected, verdict
    return results


def disagreements(results):
    """The tests whose verdict is not the expected one."""
    wrong = {}
    for path, (expected, verdict) in results.items():
        errors = [
            fault for fault in verdict.split(", ") if not fault.endswith("(warning)") and fault != "no faults"
        ]
        if verdict.startswith("not run") or (expected == "fault") != bool(errors):
            wrong[path] = expected, verdict
    return wrong


def read_list(path):
    """Path → (expected, verdict), and path → note, of a list that this tool has written."""
    rows = [line.split("\t") for line in path.read_text().splitlines() if not line.startswith("#")][1:]
    return {row[0]: tuple(row[1:3]) for row in rows}, {row[0]: row[3] for row in rows if row[3]}


def write_list(results, notes, options):
    rows = [f"# mc-imperial/gpuverify {options.commit}", "path\texpected\tverdict\tnote"]
    rows += ["\t".join((path, *result, notes.get(path, ""))) for path, result in results.items()]
    options.tsv.write_text("\n".join(rows) + "\n")


def print_summary(results, notes):
    wrong = disagreements(results)
    for path, (expected, verdict) in wrong.items():
        print(f"{path}: expected {expected}, got {verdict}; {notes.get(path, '')}")
    for kind, what in (("fault", "faults are told"), ("pass", "tests without faults pass")):
        paths = [path for path, (expected, _) in results.items() if expected == kind]
        print(f"{sum(path not in wrong for path in paths)} of {len(paths)} {what}")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--limit", type=int, default=60, help="seconds per test")
    parser.add_argument("--known", type=Path, help="an earlier list; its notes are kept")
    parser.add_argument("--tsv", type=Path)
    parser.add_argument("--commit", default="")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        return print(json.dumps(verdict_of(str(options.folder))))
    known, notes = read_list(options.known) if options.known else ({}, {})
    results = survey(options)
    print_summary(results, notes)
    if options.tsv:
        write_list(results, notes, options)
    changed = [path for path in known if results.get(path) != known[path]]
    for path in changed:
        print(f"{path}: changed from {known[path]} to {results.get(path)}")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
