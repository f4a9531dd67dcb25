"""Removes barriers from kernels of public code, one at a time, and lists which removals the checker notices.

    python tests/tools/barriers.py DIR --list tests/corpus/cuda-samples.tsv --tsv list.tsv

The list, of corpus.py, says which files of DIR compile. A kernel takes part if a guessed launch has no faults and
stores to shared memory. Each `__syncthreads()`, or `sync` of a thread_block, in its body is then removed, and the
kernel is checked under each schedule, in each launch without faults. A removal that is not noticed is of a barrier
that these launches do not need, or a fault that is missed: the column of notes, which --known keeps, says which.
Each file has a process of its own. The exit status is 1 if a removal without a note is not noticed under every
schedule.
"""

import argparse
import json
import os
import re
import sys
from functools import partial
from itertools import groupby, product
from pathlib import Path

import corpus

import smemkit
from smemkit.cuda_source.lexer import mask
from smemkit.cuda_source.scanner import scan

BLOCK_GROUP = re.compile(r"\b(\w+)\s*=\s*(?:\w+\s*::\s*)*this_thread_block\b")
BLOCKS = ((256,), (16, 16), (32, 32), (32, 16), (128,), (32, 8), (8, 8), (64,), (512,), (1024,), (16, 8), (192,))
GRIDS, SCALARS, DATA = (2, 1), (64, 1024, 16), ("random", "zeros")
SHARED_BYTES = 1 << 14  # of dynamic shared memory
SCHEDULES = ("serial", "lockstep", "random")


def barriers_of(text):
    """The calls of __syncthreads and of `sync` of a thread_block."""
    calls = [r"\b__syncthreads\s*\(\s*\)"]
    for name in sorted(set(BLOCK_GROUP.findall(text))):
        calls += [rf"\b{name}\s*\.\s*sync\s*\(\s*\)", rf"\b(?:\w+\s*::\s*)*sync\s*\(\s*{name}\s*\)"]
    return re.compile("|".join(calls))


def without_barriers(text, kernel):
    """(line, text without it) of each barrier in the body of a kernel that a source defines."""
    masked = mask(text)
    base = kernel.partition("<")[0]
    for outline in scan(text).outlines:
        if outline.kernel == base and "{" in masked[outline.start : outline.end]:
            for match in barriers_of(masked).finditer(masked, outline.start, outline.end):
                start, end = match.span()
                yield text.count("\n", 0, start) + 1, text[:start] + " " * (end - start) + text[end:]


def arguments_of(kernel, scalar, data):
    """Arrays of zeros, or of small random numbers; `scalar` for integers."""
    import numpy as np

    program, rng = kernel._program, np.random.default_rng(1)
    module = program.module("cpu", kernel.name, checked=True)
    for parameter in program.parameters(module, kernel._function, kernel.name):
        one = corpus.guessed_argument(parameter)
        if one is not None and one.dtype.kind in "iuf":
            one = rng.integers(0, 64, one.shape).astype(one.dtype) if one.shape and data == "random" else one
            one = one.dtype.type(scalar) if not one.shape and one.dtype.kind in "iu" else one
        yield one


def right_launches(kernel):
    """(data, scalar, grid, block) of launches without faults that store to shared memory: the first of each
    scalar and kind of data."""
    launches = product(DATA, SCALARS, GRIDS, BLOCKS)
    for _, alike in groupby(launches, lambda launch: launch[:2]):
        found = next(filter(partial(is_right, kernel), alike), None)
        if found:
            yield found


def is_right(kernel, launch):
    try:
        report = check(kernel, launch, "serial")
    except (smemkit.Error, ValueError, TypeError):
        return False
    return not report.faults and any(line.space == "shared" and line.access == "store" for line in report.lines)


def check(kernel, launch, schedule):
    data, scalar, grid, block = launch
    return smemkit.check(kernel[grid, block, SHARED_BYTES], *arguments_of(kernel, scalar, data), schedule=schedule)


def faults_without(text, name, options, launches):
    """The kinds of faults under each schedule, in any of the launches."""
    kernel = smemkit.Kernel(text, options=options)[name]
    found = []
    for schedule in SCHEDULES:
        faults = (fault for launch in launches for fault in check(kernel, launch, schedule).faults)
        found.append("+".join(sorted({one.kind for one in faults})) or "no faults")
    return found


def rows_of(path, flags):
    """[kernel, launches, line, faults by schedule] of each barrier of a file."""
    text, options = Path(path).read_text(errors="replace"), [*flags, f"-I{Path(path).absolute().parent}"]
    if not barriers_of(text).search(text):
        return []
    whole, rows = smemkit.Kernel(text, options=options), []
    templates = [function.name for function in whole._program.code.functions if function.template]
    plain = [name for name in whole.names if name not in templates and name not in whole.skipped]
    for name in plain + corpus.instantiations(text, templates):
        try:
            removed = list(without_barriers(text, name))
            launches = list(right_launches(whole[name])) if removed else []
            for line, changed in removed if launches else ():
                rows.append([name, launches, line, faults_without(changed, name, options, launches)])
        except (smemkit.Error, ValueError, TypeError):
            continue  # not an instantiation, or one that does not compile
    return rows


def survey(options):
    """[path, kernel, launches, line, faults by schedule] of each barrier of the files that compile."""
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
    path, kernel, launches, line, found = row
    texts = (f"{grid} × {block} {scalar} {data}" for data, scalar, grid, block in launches)
    return [path, kernel, "; ".join(texts), str(line), *found]


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
        table = [["path", "kernel", "launches: grid × block, scalars, arrays", "line", *SCHEDULES, "note"], *texts]
        options.tsv.write_text("\n".join([repository, *map("\t".join, table)]) + "\n")
    return 0 if all(text[-1] for text in missed) else 1


if __name__ == "__main__":
    sys.exit(main())
