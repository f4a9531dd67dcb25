"""The checker beside the GPU's own tools: compute-sanitizer on the kernels of faulty/ and right/, Nsight Compute
on smemkit's own.

    python tests/tools/compare_gpu.py races          the verdicts on each source file
    python tests/tools/compare_gpu.py counts         requests, wavefronts, bank conflicts, sectors, on all blocks
    python tests/tools/compare_gpu.py races counts --write tests/gpu_comparison.md --logs FOLDER
    python tests/tools/compare_gpu.py races counts --read --logs FOLDER       again, with what the tools said then

Needs a GPU, a toolkit with nvcc, compute-sanitizer, ncu and cuobjdump in PATH, and smemkit built with CUDA. What
smemkit says is computed in the same run, on the CPU device. A difference is told with its reason where that is
known; with no reason it is for the reader to find one.
"""

import argparse
import csv
import io
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # tests/

import numpy as np
from test_faulty import TESTS, Case, read

import smemkit
from smemkit import _core

CORES = len(os.sched_getaffinity(0))
COMMAND_TIMEOUT = 300  # seconds: nothing takes that long


@dataclass(frozen=True)
class Run:
    """What a command left behind."""

    output: str
    status: int | None  # None: it was killed when its time was up

    def require(self):
        if self.status != 0:
            raise SystemExit(f"compare_gpu.py: exit status {self.status}\n{self.output}")
        return self.output


def run(*command, seconds=COMMAND_TIMEOUT):
    """Runs a command, and kills it with all that it started when its time is up."""
    command = [str(word) for word in command]
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
    with subprocess.Popen(command, start_new_session=True, **pipe) as process:
        try:
            return Run(process.communicate(timeout=seconds)[0], process.returncode)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return Run(process.communicate()[0], None)


@dataclass(frozen=True)
class ToolLogs:
    """The tools' own output, in a folder or nowhere; `read` it, and no tool runs and no GPU is needed."""

    folder: Path | None
    read: bool

    def text(self, name, make):
        """What is kept under a name, or what make() gives, which is kept from now on."""
        if self.read:
            return (self.folder / name).read_text()
        text = make()
        if self.folder:
            (self.folder / name).write_text(text)
        return text


def workers(count):
    """Processes for checks; what kernels print goes to stderr."""
    return ProcessPoolExecutor(count, get_context("spawn"), os.dup2, (2, 1))


def markdown(header, rows):
    """A table, as the lines of it."""
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines]


# ---- verdicts ---------------------------------------------------------------------------------------------------

TOOLS = {  # which looks for what; the kinds that are not here show in a plain run
    "race": "racecheck",
    "out_of_bounds": "memcheck",
    "misaligned": "memcheck",
    "barrier": "synccheck",
    "uninitialised": "initcheck",
}
PLAIN = "plain run"
EVERY = ("racecheck", "memcheck")  # for the right ones
OPTIONS = {"racecheck": ["--racecheck-detect-level", "info", "--racecheck-num-workers", "1"]}
MAY_HANG = ("barrier", "hang")  # of these kinds some do not end: they run last, and not for long
LIMIT, SHORT_LIMIT = 60, 10  # seconds

# A main() for a source file: its kernel, once. `Array` is an argument, read from a file and converted to whatever
# pointer the kernel takes; each has an allocation of its own, so that memcheck sees where it ends.
MAIN = """\
#include <cstdio>
#include <cstdlib>

namespace compare {{
struct Array {{
    void *address = nullptr;

    Array(const char *file, size_t bytes)
    {{
        void *host = malloc(bytes);
        FILE *stream = fopen(file, "rb");

        if (!stream || fread(host, 1, bytes, stream) != bytes || cudaMalloc(&address, bytes) ||
            cudaMemcpy(address, host, bytes, cudaMemcpyHostToDevice))
            exit(2);
        fclose(stream);
        free(host);
    }}

    template <class T>
    operator T *() const
    {{
        return (T *)address;
    }}
}};
}} // namespace compare

#define main main_of_the_file
#include "{source}"
#undef main

int main()
{{
    {kernel}<<<dim3({grid}), dim3({block}), {shared}>>>({arguments});
    cudaError_t error = cudaGetLastError();
    if (!error)
        error = cudaDeviceSynchronize();
    printf("%s\\n", cudaGetErrorName(error));
    return error != 0;
}}
"""


@dataclass(frozen=True)
class Finding:
    """A fault, as far as the two can be compared."""

    kind: str
    lines: frozenset = frozenset()
    note: str = ""  # "warp-synchronous"; racecheck's "warning" and "info"; an error's name
    why: str = ""  # the tool may not report it

    def __str__(self):
        lines = "/".join(map(str, sorted(self.lines)))
        return " ".join(word for word in (self.kind, lines, self.note and f"({self.note})") if word)


def list_findings(findings, most=4):
    if not findings:
        return "silent"
    texts = list(dict.fromkeys(map(str, sorted(findings, key=lambda one: (one.kind, sorted(one.lines))))))
    return ", ".join(texts[:most]) + (f" and {len(texts) - most} more" if len(texts) > most else "")


def check(case: Case):
    """smemkit's verdict."""
    report = case.check(blocks="all")
    findings = []
    for fault in report.faults:
        lines = frozenset(line for line in (fault.line, fault.other_line) if line)
        note = "warp-synchronous" if fault.warp_synchronous else ""
        findings.append(Finding(fault.kind, lines, note, why_not_reported(case, report, fault)))
    return findings


def why_not_reported(case, report, fault):
    """Why a tool may not report a fault; "" where nothing is known."""
    text = case.path.read_text()
    name = fault.variable.split("[")[0]
    spaces = {line.space for launch in report.launches for line in launch.lines if line.variable == name}
    if fault.kind == "race":
        if fault.other_block or spaces == {"global"}:
            return "in global memory: racecheck checks shared memory only"
        if "updates atomically" in fault.message or "updated atomically" in fault.message:
            return "an atomic and a plain access: racecheck reports no hazard between these"
        if "__pipeline_memcpy_async" in text:
            return "an asynchronous copy: racecheck reports none of the hazards of __pipeline_memcpy_async"
        if "bar.sync" in text:
            return "which warps meet at the named barrier is left to chance; in this run the right ones may have"
    if fault.kind == "barrier" and "exited" in fault.message:
        return "the other threads have exited, and the hardware does not wait for them: the program ends"
    if fault.kind == "uninitialised":
        return "in shared memory: this initcheck checks global memory only"
    if fault.kind == "out_of_bounds" and "index -" in fault.message:
        return "CUDA reserves the shared memory before the first array, and memcheck does not report it"
    if fault.kind == "trap" and "zero" in fault.message:
        return "an integer division by zero gives an arbitrary value on a GPU and does not trap"
    return ""


def literal(value):
    if value is None:
        return "nullptr"
    value = value.item() if isinstance(value, np.generic) else value
    return str(value).lower() if isinstance(value, bool) else repr(value)


def compile_case(case, program):
    """Makes the program that runs a source file, with lines for the tools."""
    arguments = []
    for name, value in case.operands().items():
        if isinstance(value, np.ndarray):
            file = program.with_name(f"{program.name}.{name}.bin")
            file.write_bytes(value.tobytes())
            arguments.append(f'compare::Array("{file}", {value.nbytes})')
        else:
            arguments.append(literal(value))
    text = MAIN.format(
        source=case.path,
        kernel=case.kernel or smemkit.Kernel(case.path).name,
        grid=", ".join(map(str, case.grid)),
        block=", ".join(map(str, case.block)),
        shared=case.shared,
        arguments=", ".join(arguments),
    )
    source = program.with_name(f"{program.name}.main.cu")
    source.write_text(text)
    run("nvcc", "-std=c++17", "-arch=native", "-lineinfo", "-w", "-o", program, source).require()


def sanitize(tool, program, seconds, kept):
    """What a tool, or a plain run, has to say of a program."""
    options = [
        "--max-connections",
        "100",
        "--print-limit",
        "0",
        "--print-level",
        "info",
        "--show-backtrace",
        "device",
    ]
    command = ["compute-sanitizer", "--tool", tool, *options, *OPTIONS.get(tool, []), program]

    def ask():
        ended = run(*([program] if tool == PLAIN else command), seconds=seconds)
        return f"{ended.output}\nstatus {ended.status}\n"

    text = kept.text(f"{program.name}.{tool.replace(' ', '_')}.txt", ask)
    output, _, status = text.rstrip().rpartition("\nstatus ")
    return understand(tool, program.name, Run(output, None if status == "None" else int(status)))


LOCATION = re.compile(r" in (?:\S*/)?([\w.]+):(\d+)")
REPORTS = (  # how a report of a tool begins
    (re.compile(r"(\w+): Race reported"), "race"),
    (re.compile(r"Barrier error detected"), "barrier"),
    (re.compile(r"Invalid .* of size|Program hit .*Illegal|Address .* out of bounds"), "out_of_bounds"),
    (re.compile(r"Uninitialized"), "uninitialised"),
)


def understand(tool, stem, ended):
    """The findings in a tool's output: each of its reports is a line at the margin and indented ones."""
    findings, reports = [], []
    for line in ended.output.splitlines():
        if not line.startswith("========="):
            continue
        text = line.removeprefix("=========")
        if text.startswith("     ") and reports:
            reports[-1].append(text)
        elif text.strip():
            reports.append([text.strip()])
    for head, *rest in reports:
        match, kind = next(((m, kind) for pattern, kind in REPORTS if (m := pattern.match(head))), (None, ""))
        if not match:
            continue
        places = [int(n) for text in (head, *rest) for file, n in LOCATION.findall(text) if file == f"{stem}.cu"]
        if kind == "race":
            level = match[1].lower()
            note = "" if level == "error" else level
            findings += [Finding(kind, frozenset((places[0], other)), note=note) for other in places[1:]]
        else:
            if any("misaligned" in text for text in rest):
                kind = "misaligned"
            findings.append(Finding(kind, frozenset(places[:1])))
    if ended.status is None:
        findings.append(Finding("hang"))
    elif tool == PLAIN and ended.status:
        findings.append(Finding("trap", note=ended.output.split()[-1]))
    return list(dict.fromkeys(findings))


def tools_for(case, faults):
    """By the fault that it has; for a fixed file, by the fault that its twin has."""
    kind = faults.get(case.path.name.replace(".fixed", ""))
    return EVERY if kind is None else (TOOLS.get(kind, PLAIN),)


def agree(ours, theirs):
    """Whether both say the same: "yes", "other lines" or "no"."""
    if not ours or not theirs:
        return "no" if ours or theirs else "yes"
    kinds = {one.kind for one in ours} & {one.kind for one in theirs}
    if not kinds:  # a barrier that never opens may show as that
        return "yes" if {one.kind for one in ours} == {"barrier"} and theirs == [Finding("hang")] else "no"
    pairs = [(mine, one) for mine in ours for one in theirs if mine.kind == one.kind]
    if any(not one.lines or mine.lines == one.lines for mine, one in pairs):
        return "yes"
    return "yes" if "barrier" in kinds and any(mine.lines & one.lines for mine, one in pairs) else "other lines"


def explain(case, ours, theirs):
    """Why they differ, where that is known."""
    if not ours and "bar.arrive" in case.path.read_text():
        return "a false positive: accesses before bar.arrive come before accesses after the matching bar.sync"
    return "; ".join(dict.fromkeys(one.why for one in ours if one.why))


def races(kept):
    """The comparison of verdicts, as lines of Markdown."""
    os.environ.update(SMEMKIT_DEVICE="cpu", SMEMKIT_WATCHDOG="10")
    paths = sorted((TESTS / "faulty").glob("*.cu")) + sorted((TESTS / "right").glob("*.cu"))
    cases = [read(path) for path in paths]
    faults = {case.path.name: case.fault[0] for case in cases if case.fault}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(CORES) as pool:
        with workers(CORES) as processes:
            verdicts = list(processes.map(check, cases))
        programs = [Path(folder, case.path.stem) for case in cases]
        if not kept.read:
            list(pool.map(compile_case, cases, programs))

        def all_tools(job):
            case, program = job
            seconds = SHORT_LIMIT if faults.get(case.path.name) in MAY_HANG else LIMIT
            return [one for tool in tools_for(case, faults) for one in sanitize(tool, program, seconds, kept)]

        jobs = list(zip(cases, programs, strict=True))
        batches = {kind: [] for kind in ("", *MAY_HANG)}
        for job in jobs:
            kind = faults.get(job[0].path.name)
            batches[kind if kind in MAY_HANG else ""].append(job)
        found = {}
        for batch in batches.values():
            found.update(zip([case.path for case, _ in batch], pool.map(all_tools, batch), strict=True))
    return describe_races(cases, faults, verdicts, [found[case.path] for case in cases])


def describe_races(cases, faults, verdicts, found):
    """The tables, and what they come to."""
    tables = {"Faulty kernels": [], "Their fixed versions": [], "Correct kernels": []}
    counts = {name: Counter() for name in tables}
    differ = {}
    for case, ours, theirs in zip(cases, verdicts, found, strict=True):
        name = "Faulty kernels" if case.fault else "Their fixed versions"
        if case.path.parent.name == "right":
            name = "Correct kernels"
        same = agree(ours, theirs)
        why = explain(case, ours, theirs) if same != "yes" else ""
        counts[name][same] += 1
        row = [case.path.stem, list_findings(ours), list_findings(theirs), same, why]
        if case.fault:
            row.insert(1, " ".join(case.fault))
            row.insert(3, ", ".join(tools_for(case, faults)))
        tables[name].append(row)
        if same != "yes":
            differ.setdefault(why or "no reason is known", []).append(case.path.stem)
    lines = ["## Verdicts: compute-sanitizer", ""]
    for name, rows in tables.items():
        header = ["file", "smemkit", "the tools", "agree", "why not"]
        if name == "Faulty kernels":
            header = ["file", "expected", "smemkit", "tool", "the tool's verdict", "agree", "why not"]
        lines += [f"### {name}", "", *markdown(header, rows), ""]
    lines += ["### Summary", ""]
    for name, count in counts.items():
        lines.append(f"- {name}: {count.total()} files; " + ", ".join(f"{n} {word}" for word, n in count.items()))
    lines += ["", "Where they differ:", ""]
    lines += [
        f"- {', '.join(names)}: {why}" for why, names in sorted(differ.items(), key=lambda one: -len(one[1]))
    ]
    return [*lines, ""]


# ---- counts -----------------------------------------------------------------------------------------------------

# What LineReport counts, by space and access. The data stage's counters are the hardware's of what went through
# it: where blocks are many they have, beside the conflicts inside a request, waits for other traffic of the SM.
# Those by instruction are Nsight Compute's of the requests alone. Requests to shared memory have no good counter:
# smsp__inst_executed_op_shared_ld takes those that no lane makes, too, and its variant _pred_on_any, without
# these, varies from run to run.
SHARED_WAVEFRONTS_BY_INSTRUCTION = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op"
DATA_STAGE_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op"
REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op"
SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op"
COLUMNS = {  # of the table, and what LineReport calls it
    "requests": "requests",
    "wavefronts by instruction": "wavefronts",
    "wavefronts in the data stage": "wavefronts",
    "conflicts in the data stage": "conflicts",
    "sectors": "sectors",
}
COUNTERS = {  # for each column the metrics that are added up
    ("shared", access): [
        [],
        [f"{SHARED_WAVEFRONTS_BY_INSTRUCTION}_{op}"],
        [f"{DATA_STAGE_WAVEFRONTS}_{op}"],
        [f"{CONFLICTS}_{op}"],
    ]
    for access, op in (("load", "ld"), ("store", "st"))
} | {
    ("global", access): [[f"{REQUESTS}_{op}" for op in ops], [], [], [], [f"{SECTORS}_{op}" for op in ops]]
    for access, ops in (("load", ["ld"]), ("store", ["st"]), ("atomic", ["atom", "red"]))
}


def workloads():
    """What is counted: (title, operation, operands, options); each of the ladders' rungs at two sizes."""
    values = np.random.default_rng(0).standard_normal(1024 * 1024, dtype=np.float32)
    sizes = {"transpose": [1024, 128], "matmul": [256, 64], "reduce": [1_000_000, 10_000]}
    sizes["reverse"] = sizes["reduce"]
    for row in smemkit.kernels():
        if row.needs != "any" or row.name == "rowwise":
            continue
        for n in sizes.get(row.op, []):
            square = row.op in ("transpose", "matmul")
            x = values[: n * n].reshape(n, n) if square else values[:n]
            for options in row.variants:
                title = " ".join([row.op, row.name, *(f"{key}={value}" for key, value in options.items())])
                size = f"{n} × {n}" if square else f"{n:,}"
                yield f"{title}, {size}", row.op, [x] * (1 + (row.op == "matmul")), {"kernel": row.name, **options}
    table = values.reshape(1024, 1024)
    yield "reduce rowwise, 1024 rows", "reduce", [table], {"kernel": "rowwise", "axis": 1}
    yield "reduce atomic, 1024 columns", "reduce", [table], {"kernel": "atomic", "axis": 0}
    yield "add_one, 1,000,000", "add_one", [values[:1_000_000]], {}
    for stride in 1, 2, 4, 32:  # in words, between what neighbouring lanes read
        yield f"convert, stride {stride}", "convert", [values.reshape(-1, stride).T], {"dtype": np.float32}


def count(index):
    """smemkit's counts of a workload: of each launch what it is, and {(space, access): [a number a column]}."""
    _, op, operands, options = list(workloads())[index]
    report = smemkit.check(getattr(smemkit, op), *operands, blocks="all", **options)
    launches = []
    for launch in report.launches:
        numbers = {}
        for key in COUNTERS:
            lines = [line for line in launch.lines if (line.space, line.access) == key]
            numbers[key] = [sum(getattr(line, field) for line in lines) for field in COLUMNS.values()]
        launches.append(((op, launch.grid, launch.block), numbers))
    return launches


def launch_all():
    """What runs under ncu: each workload once, on the GPU."""
    for _, op, operands, options in workloads():
        getattr(smemkit, op)(*operands, device="cuda:0", **options)


def profile():
    """What ncu prints of the launches."""
    known = set(re.findall(r"^\w+", run("ncu", "--query-metrics").require(), re.MULTILINE))
    every = [metric for columns in COUNTERS.values() for metrics in columns for metric in metrics]
    if missing := [metric for metric in every if metric not in known]:
        print(f"compare_gpu.py: this GPU does not count {', '.join(missing)}", file=sys.stderr)
    options = ["--clock-control", "none", "--csv", "--print-units", "base", "--print-kernel-base", "mangled"]
    metrics = ",".join(f"{metric}.sum" for metric in every if metric in known)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "ncu.csv")
        python = [sys.executable, __file__, "launches"]
        run("ncu", *options, "--log-file", log, "--metrics", metrics, *python).require()
        return log.read_text()


def read_profile(text):
    """The hardware's counts: of each launch its mangled name, grid and block, and {counter: number}."""
    launches = {}
    table = text[text.index('"ID"') :]
    for row in csv.DictReader(io.StringIO(table)):
        size = [tuple(map(int, re.findall(r"\d+", row[key]))) for key in ("Grid Size", "Block Size")]
        _, numbers = launches.setdefault(int(row["ID"]), ((row["Kernel Name"], *size), {}))
        numbers[row["Metric Name"].removesuffix(".sum")] = int(float(row["Metric Value"].replace(",", "")))
    return [launches[key] for key in sorted(launches)]


def opcodes(names):
    """The memory instructions in the machine code of kernels: {mangled name: {"LDS.128": 4, …}}."""
    found = {}
    if not names:
        return found
    output = run("cuobjdump", "--dump-sass", "--function", ",".join(names), _core.__file__).require()
    for part in output.split("Function : ")[1:]:
        name = part.split()[0]
        words = re.findall(r"\b((?:LDS|STS|LDG|STG|RED|REDG|ATOMG|ATOM)(?:\.\w+)*)\b", part)
        plain = (re.sub(r"\.(E|CONSTANT|STRONG|GPU|EF|LTC\w+)\b", "", word) for word in words)
        found.setdefault(name, Counter(plain))
    return found


def counts(kept):
    """The comparison of counts, as lines of Markdown."""
    titles = [title for title, *_ in workloads()]
    with workers(min(CORES, 8)) as processes:
        ours = list(processes.map(count, range(len(titles))))
    return describe_counts(titles, ours, read_profile(kept.text("ncu.csv", profile)), kept)


def describe_counts(titles, ours, measured, kept):
    hardware = iter(measured)
    rows = []  # of (launch, its mangled name, access, smemkit's numbers, the hardware's)
    for title, launches in zip(titles, ours, strict=True):
        for number, ((op, *size), numbers) in enumerate(launches, 1):
            (name, *measured_size), found = next(hardware)
            if op not in name or size != measured_size:
                raise SystemExit(f"compare_gpu.py: {title}: expected {op} {size}, got {name} {measured_size}")
            where = title + (f", launch {number}" if len(launches) > 1 else "")
            for key, columns in COUNTERS.items():
                some = [[found[metric] for metric in metrics if metric in found] for metrics in columns]
                theirs = [sum(values) if values else None for values in some]
                if any(theirs) or any(numbers[key]):
                    rows.append((where, name, " ".join(key), numbers[key], theirs))
    if left := list(hardware):
        raise SystemExit(f"compare_gpu.py: {len(left)} launches on the GPU that no check had, first {left[0]}")
    differing = {name for _, name, _, mine, theirs in rows if equal(mine, theirs) == "no"}
    code = json.loads(kept.text("opcodes.json", lambda: json.dumps(opcodes(sorted(differing)))))
    table, tally = [], Counter()
    for where, name, access, mine, theirs in rows:
        same = equal(mine, theirs)
        tally[same] += 1
        cells = [
            "" if b is None else f"{b:,}" if a == b else f"{b:,} (smemkit {a:,})"
            for a, b in itertools.zip_longest(mine, theirs)
        ]
        table.append(
            [where, access, *cells, same, why(access, mine, theirs, code.get(name, {})) if same == "no" else ""]
        )
    header = ["launch", "access", *COLUMNS, "equal", "why not"]
    sums = ", ".join(f"{n} {word}" for word, n in tally.items())
    lines = ["## Counts: Nsight Compute", "", *markdown(header, table), "", f"{len(table)} rows: {sums}.", ""]
    return [*lines, *COUNTS_NOTE.splitlines(), ""]


COUNTS_NOTE = """\
A number is the hardware's, with smemkit's in brackets if it differs. "yes, and traffic": wavefronts by
instruction are equal; the data stage counts more wavefronts and as many more conflicts, because requests waited
there for other traffic of the SM. Their number changes from run to run; with few blocks there are none."""


def equal(mine, theirs):
    """Whether the counts are the same: "yes", "yes, and traffic" or "no"; see COUNTS_NOTE."""
    more = [b - a for a, b in zip(mine, theirs, strict=False) if b is not None]
    if not any(more):
        return "yes"
    traffic = len(more) == 3 and more[0] == 0 and more[1] == more[2] > 0
    return "yes, and traffic" if traffic else "no"


def why(access, mine, theirs, code):
    """Why counts differ, by the kernel's machine code."""
    begin = {"shared load": "LDS", "shared store": "STS", "global load": "LDG", "global store": "STG"}
    found = {word: n for word, n in sorted(code.items()) if word.startswith(begin.get(access, ("RED", "ATOM")))}
    text = ", ".join(f"{word} ×{n}" for word, n in found.items())
    if access == "global atomic" and theirs[-1] > mine[-1]:
        return f"{text}: lanes with one address are served one after the other, one sector each"
    fewer = any(b is not None and b < a for a, b in zip(mine, theirs, strict=False))
    if fewer and any(re.search(r"\.(64|128)$", word) for word in found):
        return f"{text}: ptxas merged accesses to neighbouring words"
    if fewer:
        return f"{text}: ptxas removed loads of values that a thread still had in a register"
    return text


# ---- the command ------------------------------------------------------------------------------------------------


def about_machine():
    gpu = run("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader").output.strip()
    tools = "nvcc", "compute-sanitizer", "ncu"
    versions = [run(tool, "--version").output.strip().splitlines() for tool in tools]
    lines = [f"- {tool}: {text[-1]}" for tool, text in zip(tools, versions, strict=True)]
    return "\n".join([f"- GPU and driver: {gpu}", *lines])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("parts", nargs="+", choices=("races", "counts", "launches"), metavar="races|counts")
    parser.add_argument("--write", type=Path, metavar="FILE", help="where the Markdown goes, instead of stdout")
    parser.add_argument("--logs", type=Path, metavar="FOLDER", help="where the tools' own output is kept")
    parser.add_argument("--read", action="store_true", help="take what --logs kept of an earlier run, and no GPU")
    options = parser.parse_args()
    if options.parts == ["launches"]:
        return launch_all()
    if options.logs:
        options.logs.mkdir(parents=True, exist_ok=True)
    if options.read and not options.logs:
        parser.error("--read: expected the folder as --logs")
    kept = ToolLogs(options.logs, options.read)
    lines = ["# smemkit beside the GPU's own tools", "", kept.text("machine.txt", about_machine)]
    lines += ["- the tools' part is of an earlier run, smemkit's of this one", ""] if options.read else [""]
    for part in options.parts:
        lines += {"races": races, "counts": counts}[part](kept)
        if options.write:  # now: the next part may fail
            options.write.write_text("\n".join(lines))
    if not options.write:
        print("\n".join(lines))
    return None


if __name__ == "__main__":
    main()
