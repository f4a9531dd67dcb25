"""Removes barriers from kernels of public code, one at a time, and lists which removals the checker notices.

    python tests/tools/barriers.py DIR --list tests/corpus/cuda-samples.tsv --tsv list.tsv

The list, of corpus.py, says which files of DIR compile. A kernel takes part if a guessed launch has no faults and
stores to shared memory. Each `__syncthreads()`, or `sync` of a thread_block, in its body is then removed,
and the kernel is checked under each schedule. A removal that is not noticed is of a barrier that this launch does
not need, or a fault that is missed: the column of notes, which --known keeps, says which. Each file has a process
of its own. The exit status is 1 if a removal without a note is not noticed under every schedule.
"""

import argparse
import json
import os
import re
import sys
from itertools import product
from pathlib import Path

import corpus

BLOCK_GROUP = re.compile(r"\b(\w+)\s*=\s*(?:\w+\s*::\s*)*this_thread_block\b")
BLOCKS = ((256,), (16, 16), (32, 32), (32, 16), (128,), (32, 8), (8, 8), (64,), (512,), (1024,), (16, 8), (192,))
GRIDS, SCALARS = (2, 1), (64, 1024, 16)
SCHEDULES = ("serial", "lockstep", "random")


def barriers_of(text):
    """The calls of __syncthreads and of `sync` of a thread_block."""
    calls = [r"\b__syncthreads\s*\(\s*\)"]
    for name in sorted(set(BLOCK_GROUP.findall(text))):
        calls += [rf"\b{name}\s*\.\s*sync\s*\(\s*\)", rf"\b(?:\w+\s*::\s*)*sync\s*\(\s*{name}\s*\)"]
    return re.compile("|".join(calls))


def without_barriers(text, kernel):
    """(line, text without it) of each barrier in the body of a kernel that a source defines."""
    from smemkit.cuda_source.lexer import mask
    from smemkit.cuda_source.scanner import scan

    masked = mask(text)
    base = kernel.partition("<")[0]
    for outline in scan(text).outlines:
        if outline.kernel == base and "{" in masked[outline.start : outline.end]:
            for match in barriers_of(masked).finditer(masked, outline.start, outline.end):
                start, end = match.span()
                yield text.count("\n", 0, start) + 1, text[:start] + " " * (end - start) + text[end:]


def arguments_of(kernel, scalar):
    program = kernel._program
    module = program.module("cpu", kernel.name, checked=True)
    guessed = map(corpus.guessed_argument, program.parameters(module, kernel._function, kernel.name))
    return [one.dtype.type(scalar) if is_integer(one) else one for one in guessed]


def is_integer(value):
    return value is not None and value.shape == () and value.dtype.kind in "iu"


def right_launch(kernel):
    """(grid, block, scalar) of a launch without faults that stores to shared memory; None if no guess is one."""
    import smemkit

    for grid, scalar, block in product(GRIDS, SCALARS, BLOCKS):
        try:
            report = smemkit.check(kernel[grid, block], *arguments_of(kernel, scalar))
        except (smemkit.Error, ValueError, TypeError):
            continue
        stores = any(line.space == "shared" and line.access == "store" for line in report.lines)
        if stores and not report.faults:
            return grid, block, scalar
    return None


def verdicts(text, name, options, launch):
    """The kinds of faults under each schedule."""
    import smemkit

    kernel = smemkit.Kernel(text, options=options)[name]
    grid, block, scalar = launch
    found = []
    for schedule in SCHEDULES:
        arguments = arguments_of(kernel, scalar)
        faults = smemkit.check(kernel[grid, block], *arguments, schedule=schedule).faults
        found.append("+".join(sorted({one.kind for one in faults})) or "no faults")
    return found


def rows_of(path, flags):
    """[kernel, launch, line, faults by schedule] of each barrier of a file."""
    import smemkit

    text, options = Path(path).read_text(errors="replace"), [*flags, f"-I{Path(path).absolute().parent}"]
    if not barriers_of(text).search(text):
        return []
    whole, rows = smemkit.Kernel(text, options=options), []
    templates = [function.name for function in whole._program.code.functions if function.template]
    plain = [name for name in whole.names if name not in templates and name not in whole.skipped]
    for name in plain + corpus.instantiations(text, templates):
        try:
            removed = list(without_barriers(text, name))
            launch = right_launch(whole[name]) if removed else None
            for line, changed in removed if launch else ():
                rows.append([name, launch, line, verdicts(changed, name, options, launch)])
        except (smemkit.Error, ValueError, TypeError):
            continue  # not an instantiation, or one that does not compile
    return rows


def survey(options):
    """[path, kernel, launch, line, faults by schedule] of each barrier of the files that the list says compile."""
    rows = []
    for line in options.list.read_text().splitlines():
        path, _, rest = line.partition("\t")
        file = options.folder / path
        if not rest.startswith("compiles") or not re.search(options.only, path):
            continue
        command = [sys.executable, __file__, "--worker", str(file)]
        environment = {**os.environ, "CORPUS_FLAGS": json.dumps(corpus.flags_of(file, options))}
        output, errors, status = corpus.run_limited(command, options.limit, env=environment)
        if status == 0:
            rows += [[path, *row] for row in json.loads(output.splitlines()[-1])]
        else:
            print(f"{path}: {status}: {errors.strip()[-200:]}", file=sys.stderr)
    return rows


def is_noticed(row):
    return "no faults" not in row[-1]


def as_text(row):
    path, kernel, (grid, block, scalar), line, found = row
    return [path, kernel, f"grid {grid}, block {' × '.join(map(str, block))}, scalars {scalar}", str(line), *found]


def read_notes(path):
    """(path, kernel, line) → note, of an earlier list."""
    rows = [line.split("\t") for line in path.read_text().splitlines() if not line.startswith("#")][1:]
    return {(row[0], row[1], row[3]): row[-1] for row in rows if row[-1]}


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--list", type=Path)
    parser.add_argument("--only", default="", help="a regular expression for paths")
    parser.add_argument("-I", dest="include", action="append", default=[])
    parser.add_argument("--limit", type=int, default=120, help="seconds per file")
    parser.add_argument("--known", type=Path, help="an earlier list; its notes are kept")
    parser.add_argument("--tsv", type=Path)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        return print(json.dumps(rows_of(str(options.folder), json.loads(os.environ["CORPUS_FLAGS"]))))
    options.folder = options.folder.absolute()
    notes = read_notes(options.known) if options.known else {}
    rows = survey(options)
    texts = [[*as_text(row), notes.get((row[0], row[1], str(row[3])), "")] for row in rows]
    missed = [text for row, text in zip(rows, texts, strict=True) if not is_noticed(row)]
    for text in missed:
        print("; ".join(text))
    print(f"{len(rows) - len(missed)} of {len(rows)} removed barriers are noticed under every schedule")
    if options.tsv:
        repository = options.list.read_text().splitlines()[0]
        table = [["path", "kernel", "launch", "line", *SCHEDULES, "note"], *texts]
        options.tsv.write_text("\n".join([repository, *map("\t".join, table)]) + "\n")
    return 0 if all(text[-1] for text in missed) else 1


if __name__ == "__main__":
    sys.exit(main())
