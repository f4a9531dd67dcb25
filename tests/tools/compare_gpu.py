"""Compares the checker with NVIDIA's tools: with compute-sanitizer on the kernels of faulty/ and right/, with
Nsight Compute on smemkit's own kernels.

    python tests/tools/compare_gpu.py races          the verdicts on each source file
    python tests/tools/compare_gpu.py files          requests, wavefronts and sectors of files in right/
    python tests/tools/compare_gpu.py counts         the same of smemkit's kernels, and conflicts, on all blocks
    python tests/tools/compare_gpu.py races counts --write tests/gpu_comparison.md --logs FOLDER
    python tests/tools/compare_gpu.py races counts --read --logs FOLDER       with the tools' stored output

Needs a GPU, a toolkit with nvcc, compute-sanitizer, ncu and cuobjdump in PATH, and smemkit built with CUDA. Its
own results are computed in the same run, on the CPU device. A difference is listed with its reason, if that is
known.
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
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # tests/

import numpy as np
from kernel_files import TESTS, Case, read

import smemkit
from smemkit import _core

CORES = len(os.sched_getaffinity(0))
COMMAND_TIMEOUT = 300  # seconds; every command ends earlier


@dataclass(frozen=True)
class Run:
    """A command's output and exit status."""

    output: str
    status: int | None  # None: killed at the time limit

    def require(self):
        if self.status != 0:
            raise SystemExit(f"compare_gpu.py: exit status {self.status}\n{self.output}")
        return self.output


def run(*command, seconds=COMMAND_TIMEOUT):
    """Runs a command; at the time limit, kills it and all processes that it started."""
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
    """The tools' output, stored in a folder if there is one. With `read`, no tool runs and no GPU is needed."""

    folder: Path | None
    read: bool

    def text(self, name, make):
        """The stored text of this name, or make(), whose text is then stored."""
        if self.read:
            return (self.folder / name).read_text()
        text = make()
        if self.folder:
            (self.folder / name).write_text(text)
        return text


def workers(count):
    """A pool of processes for checks; what kernels print goes to stderr."""
    return ProcessPoolExecutor(count, get_context("spawn"), os.dup2, (2, 1))


def markdown(header, rows):
    """The lines of a table."""
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines]


# ---- verdicts ---------------------------------------------------------------------------------------------------

TOOLS = {  # the tool that finds each kind of fault; the other kinds show in a plain run
    "race": "racecheck",
    "out_of_bounds": "memcheck",
    "misaligned": "memcheck",
    "barrier": "synccheck",
    "uninitialised": "initcheck",
}
PLAIN = "plain run"
TOOLS_FOR_CORRECT = ("racecheck", "memcheck")  # for correct kernels
OPTIONS = {"racecheck": ["--racecheck-detect-level", "info", "--racecheck-num-workers", "1"]}
MAY_HANG = ("barrier", "hang")  # such kernels may not end: they run last, with SHORT_LIMIT
LIMIT, SHORT_LIMIT = 60, 10  # seconds

# A main() that launches a source file's kernel once. Chains of launches and kernels that take a tensor map are
# launched by smemkit instead, in whose memory memcheck may not know where an operand ends: see launch_file(). An
# `Array` is an argument, read from a file and converted to
# the pointer type that the kernel takes; each has its own allocation, so that memcheck knows where it ends.
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
    """A fault, reduced to what can be compared."""

    kind: str
    lines: frozenset = frozenset()
    note: str = ""  # "warp-synchronous"; racecheck's "warning" and "info"; an error's name
    why: str = ""  # the reason why the tool may not report it

    def __str__(self):
        lines = "/".join(map(str, sorted(self.lines)))
        return " ".join(word for word in (self.kind, lines, self.note and f"({self.note})") if word)


def list_findings(findings, most=4):
    if not findings:
        return "silent"
    texts = list(
        dict.fromkeys(map(str, sorted(findings, key=lambda finding: (finding.kind, sorted(finding.lines)))))
    )
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


RACES_UNSEEN = (  # what a source file with a race uses, and why racecheck may not report the race
    (r"wgmma", "an operand of wgmma, which reads shared memory asynchronously: racecheck sees no such access"),
    (r"bulk", "a copy in bulk: racecheck sees no access of its own to shared memory, and no proxy"),
    (
        r"memcpy_async|cp\.async|cuda::pipeline",
        "an asynchronous copy: racecheck takes it for complete as soon as some wait has followed",
    ),
    (r"mbarrier|cuda::barrier", "racecheck takes any arrival and wait at an mbarrier for an order"),
    (r"stmatrix", "racecheck reports no hazard of stmatrix"),
    (
        r"bar\.sync",
        "which warps meet at the named barrier depends on timing: in this run, the right ones may have",
    ),
)
OTHERS_UNSEEN = (  # a kind of fault, what its message says, and why the tool may not report it
    (
        "barrier",
        "exited|executes? it",
        "the others do not come, the hardware does not wait for them: the program ends",
    ),
    ("barrier", "barrier 1 at", "which warps meet at the named barrier depends on timing"),
    ("barrier", "mbarrier", "synccheck does not check how mbarriers are initialised"),
    ("barrier", "setmaxnreg", "synccheck does not check which warps execute setmaxnreg"),
    ("uninitialised", "", "in shared memory: this initcheck checks global memory only"),
    (
        "out_of_bounds",
        ", before the",
        "CUDA reserves the shared memory before the first array: an access there is valid",
    ),
    (
        "out_of_bounds",
        ", past the",
        "it hits the next array of the block: memcheck knows the whole shared memory only",
    ),
    ("out_of_bounds", "local array", "it stays in the local memory that a thread has"),
    ("out_of_bounds", "constant memory", "memcheck does not know what is constant"),
    ("trap", "zero", "an integer division by zero gives an arbitrary value on a GPU and does not trap"),
    ("trap", "return", "the compiler may assume that it does not happen, and the program ends"),
    ("shuffle", "", "no tool checks shuffles: the value is arbitrary"),
)


def why_not_reported(case, report, fault):
    """Why a tool may not report a fault; "" if unknown."""
    text = re.sub(r"//.*", "", case.path.read_text())
    name = fault.variable.split("[")[0]
    spaces = {line.space for launch in report.launches for line in launch.lines if line.variable == name}
    if fault.kind == "race":
        if fault.other_block or spaces == {"global"}:
            return "in global memory: racecheck checks shared memory only"
        if "updates atomically" in fault.message or "updated atomically" in fault.message:
            return "an atomic and a plain access: racecheck reports no hazard between these"
        return next((why for pattern, why in RACES_UNSEEN if re.search(pattern, text)), "")
    for kind, pattern, why in OTHERS_UNSEEN:
        if fault.kind == kind and re.search(pattern, fault.message):
            return why
    return ""


def first_lines_of_asm(text):
    """The first line of the asm statement to which each line belongs: nvcc numbers it by its last one."""
    first = {}
    for begin in re.finditer(r"\basm\b[^()]*\(", text):
        depth, end = 1, begin.end()
        while depth and (token := re.compile(r'"(?:[^"\\]|\\.)*"|[()]').search(text, end)):
            depth += {"(": 1, ")": -1}.get(token[0], 0)
            end = token.end()
        lines = [text.count("\n", 0, at) + 1 for at in (begin.start(), end)]
        first.update(dict.fromkeys(range(lines[0], lines[1] + 1), lines[0]))
    return first


def literal(value):
    if value is None:
        return "nullptr"
    value = value.item() if isinstance(value, np.generic) else value
    return str(value).lower() if isinstance(value, bool) else repr(value)


def launched_by_smemkit(case):
    return case.chain or any(isinstance(value, smemkit.TensorMap) for value in case.operands().values())


def launch_file(path):
    """Launches a source file on the GPU, under a tool."""
    case = read(path)
    with smemkit.Device("cuda:0"):
        case.run(case.operands())


def architecture():
    """nvcc's number of the GPU, with the instructions that only it has."""
    capability = run("nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader").require().split()[0]
    return capability.replace(".", "") + ("a" if float(capability) >= 9 else "")


def compile_case(case, program, arch):
    """Compiles the program that runs a source file, with line information for the tools. The errors if nvcc
    refuses it, else "", as for those that smemkit launches."""
    if launched_by_smemkit(case):
        return ""
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
    target = f"-gencode=arch=compute_{arch},code=sm_{arch}"
    compiled = run("nvcc", "-std=c++17", target, "-lineinfo", "-w", "-o", program, source)
    return compiled.output if compiled.status else ""


def sanitize(case, tool, program, refused, seconds, logs):
    """The findings of a tool, or of a plain run, for a case's program."""
    if refused:
        return [Finding("refused", note="by nvcc")]
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
    launch = [sys.executable, __file__, "launch", case.path] if launched_by_smemkit(case) else [program]
    tooled = ["compute-sanitizer", "--tool", tool, *options, *OPTIONS.get(tool, []), *launch]

    def run_tool():
        result = run(*(launch if tool == PLAIN else tooled), seconds=seconds)
        return f"{result.output}\nstatus {result.status}\n"

    text = logs.text(f"{program.name}.{tool.replace(' ', '_')}.txt", run_tool)
    output, _, status = text.rstrip().rpartition("\nstatus ")
    findings = parse_findings(tool, program.name, Run(output, None if status == "None" else int(status)))
    first = first_lines_of_asm(case.path.read_text())
    return [replace(it, lines=frozenset(first.get(line, line) for line in it.lines)) for it in findings]


LOCATION = re.compile(r" in (?:\S*/)?([\w.]+):(\d+)")
REPORTS = (  # the first line of a tool's report
    (re.compile(r"(\w+): Race reported"), "race"),
    (re.compile(r"Barrier error detected"), "barrier"),
    (re.compile(r"Invalid .* of size|Program hit .*Illegal|Address .* out of bounds"), "out_of_bounds"),
    (re.compile(r"Uninitialized"), "uninitialised"),
)


def parse_findings(tool, stem, result):
    """The findings in a tool's output: each report is an unindented line followed by indented ones."""
    findings, reports = [], []
    for line in result.output.splitlines():
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
        reported_lines = [
            int(n) for text in (head, *rest) for file, n in LOCATION.findall(text) if file == f"{stem}.cu"
        ]
        if kind == "race":
            level = match[1].lower()
            note = "" if level == "error" else level
            findings += [
                Finding(kind, frozenset((reported_lines[0], other)), note=note) for other in reported_lines[1:]
            ]
        else:
            if any("misaligned" in text for text in rest):
                kind = "misaligned"
            findings.append(Finding(kind, frozenset(reported_lines[:1])))
    if result.status is None:
        findings.append(Finding("hang"))
    elif tool == PLAIN and result.status:
        findings.append(Finding("trap", note=result.output.split()[-1]))
    elif result.status and not findings:  # the tool reports nothing, but the program did not end as it should
        own = [line for line in result.output.splitlines() if line and not line.startswith("=========")]
        findings.append(Finding("failed", note=own[-1] if own else f"status {result.status}"))
    return list(dict.fromkeys(findings))


def tools_for(case, faults):
    """The tools for a file's fault; for a fixed file, for the fault of its faulty version."""
    kind = faults.get(case.path.name.replace(".fixed", ""))
    return TOOLS_FOR_CORRECT if kind is None else (TOOLS.get(kind, PLAIN),)


def agree(case, ours, theirs):
    """Whether both say the same: "yes", "other lines" or "no". What a tool marks as info is no fault to it."""
    if ours and theirs == [Finding("hang")] and "hang" in case.fault:  # the race may let the program hang
        return "yes"
    if not ours:
        theirs = [finding for finding in theirs if finding.note != "info"]
    if not ours or not theirs:
        return "no" if ours or theirs else "yes"
    kinds = {finding.kind for finding in ours} & {finding.kind for finding in theirs}
    if not kinds:  # a barrier that is never completed may show as a hang
        return "yes" if {finding.kind for finding in ours} == {"barrier"} and theirs == [Finding("hang")] else "no"
    pairs = [(mine, other) for mine in ours for other in theirs if mine.kind == other.kind]
    if any(not other.lines or mine.lines == other.lines for mine, other in pairs):
        return "yes"
    return (
        "yes" if "barrier" in kinds and any(mine.lines & other.lines for mine, other in pairs) else "other lines"
    )


def explain(case, ours, theirs):
    """Why the verdicts differ, if that is known."""
    if theirs == [Finding("refused", note="by nvcc")]:
        return "nvcc refuses to compile it"
    if not ours and "bar.arrive" in case.path.read_text():
        return "a false positive: accesses before bar.arrive come before accesses after the matching bar.sync"
    whys = dict.fromkeys(finding.why for finding in ours if finding.why)
    if ours and theirs and not whys and re.search(r"memset|wmma::", case.path.read_text()):
        return "nvcc gives the code of a library's inlined function another line"
    return "; ".join(whys)


def races(logs):
    """The comparison of verdicts, as lines of Markdown."""
    os.environ.update(SMEMKIT_DEVICE="cpu", SMEMKIT_WATCHDOG="10")
    paths = sorted((TESTS / "faulty").glob("*.cu")) + sorted((TESTS / "right").glob("*.cu"))
    cases = [read(path) for path in paths]
    faults = {case.path.name: case.fault[0] for case in cases if case.fault}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(CORES) as pool:
        with workers(CORES) as processes:
            verdicts = list(processes.map(check, cases))
        programs = [Path(folder, case.path.stem) for case in cases]
        arch = logs.text("architecture.txt", architecture)

        def compile_and_log(case, program):
            return logs.text(f"{program.name}.nvcc.txt", lambda: compile_case(case, program, arch))

        refused = dict(zip(programs, pool.map(compile_and_log, cases, programs), strict=True))

        def all_tools(job):
            case, program = job
            seconds = SHORT_LIMIT if faults.get(case.path.name) in MAY_HANG else LIMIT
            return [
                finding
                for tool in tools_for(case, faults)
                for finding in sanitize(case, tool, program, refused[program], seconds, logs)
            ]

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
    """The tables and their summary."""
    tables = {"Faulty kernels": [], "Fixed kernels": [], "Correct kernels": []}
    counts = {name: Counter() for name in tables}
    differ = {}
    for case, ours, theirs in zip(cases, verdicts, found, strict=True):
        name = "Faulty kernels" if case.fault else "Fixed kernels"
        if case.path.parent.name == "right":
            name = "Correct kernels"
        same = agree(case, ours, theirs)
        why = explain(case, ours, theirs) if same != "yes" else ""
        counts[name][same] += 1
        row = [case.path.stem, list_findings(ours), list_findings(theirs), same, why]
        if case.fault:
            row.insert(1, " ".join(case.fault))
            row.insert(3, ", ".join(tools_for(case, faults)))
        tables[name].append(row)
        if same != "yes":
            differ.setdefault(why or "unknown reason", []).append(case.path.stem)
    lines = ["## Verdicts: compute-sanitizer", ""]
    for name, rows in tables.items():
        header = ["file", "smemkit", "the tools", "agree", "reason"]
        if name == "Faulty kernels":
            header = ["file", "expected", "smemkit", "tool", "the tool's verdict", "agree", "reason"]
        lines += [f"### {name}", "", *markdown(header, rows), ""]
    lines += ["### Summary", ""]
    for name, count in counts.items():
        lines.append(f"- {name}: {count.total()} files; " + ", ".join(f"{n} {word}" for word, n in count.items()))
    lines += ["", "Differences by reason:", ""]
    lines += [
        f"- {', '.join(names)}: {why}" for why, names in sorted(differ.items(), key=lambda entry: -len(entry[1]))
    ]
    return [*lines, ""]


# ---- counts -----------------------------------------------------------------------------------------------------

# The counters for LineReport's numbers, by space and access. The data stage's counters are the hardware's own:
# with many blocks they also count waits for other traffic of the SM as conflicts. The counters by instruction are
# Nsight Compute's and count the requests alone. Requests to shared memory have no suitable counter:
# smsp__inst_executed_op_shared_ld includes requests without an active lane, and its variant _pred_on_any, which
# excludes them, varies from run to run.
SHARED_WAVEFRONTS_BY_INSTRUCTION = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op"
DATA_STAGE_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op"
REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op"
SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op"
COLUMNS = {  # the table's columns, and their attributes of LineReport
    "requests": "requests",
    "wavefronts by instruction": "wavefronts",
    "wavefronts in the data stage": "wavefronts",
    "conflicts in the data stage": "conflicts",
    "sectors": "sectors",
}
COUNTERS = {  # the metrics whose sum each column has
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
    """The counted calls: (title, operation, operands, options); each of the ladders' rungs at two sizes."""
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
    for stride in 1, 2, 4, 32:  # in words, between the elements of adjacent lanes
        yield f"convert, stride {stride}", "convert", [values.reshape(-1, stride).T], {"dtype": np.float32}


def count(index):
    """smemkit's counts of a workload: per launch (op, grid, block), {(space, access): [number per column]}."""
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
    """Runs each workload once on the GPU, under ncu."""
    for _, op, operands, options in workloads():
        getattr(smemkit, op)(*operands, device="cuda:0", **options)


def profile():
    """ncu's output for the launches."""
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
    """The hardware's counts: for each launch (mangled name, grid, block) and {counter: number}."""
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


def counts(logs):
    """The comparison of counts, as lines of Markdown."""
    titles = [title for title, *_ in workloads()]
    with workers(min(CORES, 8)) as processes:
        ours = list(processes.map(count, range(len(titles))))
    return describe_counts(titles, ours, read_profile(logs.text("ncu.csv", profile)), logs)


def describe_counts(titles, ours, measured, logs):
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
        raise SystemExit(f"compare_gpu.py: {len(left)} launches on the GPU are in no check, first {left[0]}")
    differing = {name for _, name, _, mine, theirs in rows if equal(mine, theirs) == "no"}
    code = json.loads(logs.text("opcodes.json", lambda: json.dumps(opcodes(sorted(differing)))))
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
    header = ["launch", "access", *COLUMNS, "equal", "reason"]
    sums = ", ".join(f"{n} {word}" for word, n in tally.items())
    lines = ["## Counts: Nsight Compute", "", *markdown(header, table), "", f"{len(table)} rows: {sums}.", ""]
    return [*lines, *COUNTS_NOTE.splitlines(), ""]


COUNTS_NOTE = """\
A number is the hardware's, with smemkit's in brackets if it differs. "yes, with traffic": wavefronts by
instruction are equal; the data stage counts more wavefronts and as many more conflicts, because requests waited
there for other traffic of the SM. Their number varies from run to run; with few blocks there are none."""


def equal(mine, theirs):
    """Whether the counts are the same: "yes", "yes, with traffic" or "no"; see COUNTS_NOTE."""
    more = [b - a for a, b in zip(mine, theirs, strict=False) if b is not None]
    if not any(more):
        return "yes"
    traffic = len(more) == 3 and more[0] == 0 and more[1] == more[2] > 0
    return "yes, with traffic" if traffic else "no"


def why(access, mine, theirs, code):
    """Why counts differ, according to the kernel's machine code."""
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


# ---- counts of source files -------------------------------------------------------------------------------------

FILES = [  # ordinary accesses, asynchronous copies, clusters, ldmatrix, fragments
    *("copy_float4", "histogram_shared", "matmul_tiled", "reduce_sequential", "shorts_in_halves"),
    *("transpose_padded", "transpose_swizzled", "async_copy", "async_copy_own", "async_double_buffer"),
    *("pipeline_ring", "bulk_ring", "cluster_halo", "cluster_reduction", "split_k", "matmul_ldmatrix_stages"),
    *("matmul_stages_f16", "matmul_stages_int8", "matmul_stages_tf32", "matmul_wmma", "matmul_stmatrix"),
]
INSTRUCTIONS = "smsp__sass_inst_executed_op"
FILE_COUNTERS = {  # what LineReport counts, and the metrics whose sum it is; an asynchronous copy is counted twice
    ("shared load", "requests"): [f"{INSTRUCTIONS}_shared_ld", f"{INSTRUCTIONS}_ldsm"],
    ("shared load", "wavefronts"): [f"{SHARED_WAVEFRONTS_BY_INSTRUCTION}_{op}" for op in ("ld", "ldsm")],
    ("shared store", "requests"): [f"{INSTRUCTIONS}_{op}" for op in ("shared_st", "shared_stsm", "ldgsts")],
    ("shared store", "wavefronts"): [
        f"{SHARED_WAVEFRONTS_BY_INSTRUCTION}_{op}" for op in ("st", "stsm", "ldgsts")
    ],
    ("global load", "requests"): [f"{REQUESTS}_ld"],
    ("global load", "sectors"): [f"{SECTORS}_ld"],
    ("global store", "requests"): [f"{REQUESTS}_st"],
    ("global store", "sectors"): [f"{SECTORS}_st"],
}
_REMOTE = "loads from another block's shared memory, which smemkit counts with those from global memory"
FILE_REASONS = {
    "cluster_halo": _REMOTE,
    "split_k": f"nvcc loads what is used twice once; {_REMOTE}",
    "matmul_tiled": "nvcc loads several words of A's row at once",
    "pipeline_ring": "nvcc loads several words of A's row at once. ncu counts stores of no lane; what it counts "
    "of copies under a predicate differs from run to run (1,915 to 2,214 wavefronts); a copy to half a sector "
    "further is one more sector",
}


def profile_file(program):
    """ncu's output for a program's kernel."""
    metrics = ",".join(f"{metric}.sum" for metrics in FILE_COUNTERS.values() for metric in metrics)
    options = ["--clock-control", "none", "--csv", "--print-units", "base", "--metrics", metrics]
    return run("ncu", *options, program).require()


def files(logs):
    """The comparison of the counts of source files, as lines of Markdown."""
    os.environ["SMEMKIT_DEVICE"] = "cpu"
    arch = logs.text("architecture.txt", architecture)
    table, equal_rows = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for stem in FILES:
            case, program = read(TESTS / "right" / f"{stem}.cu"), Path(folder, stem)
            if not logs.read and (errors := compile_case(case, program, arch)):
                raise SystemExit(f"compare_gpu.py: {stem}.cu: {errors}")
            profile = logs.text(f"{stem}.ncu.csv", lambda program=program: profile_file(program))
            rows = list(csv.DictReader(io.StringIO(profile[profile.index('"ID"') :])))
            found = {row["Metric Name"].removesuffix(".sum"): row["Metric Value"] for row in rows}
            lines = case.check(blocks="all").lines
            cells = []
            for (access, field), metrics in FILE_COUNTERS.items():
                theirs = sum(int(float(found[metric].replace(",", ""))) for metric in metrics)
                mine = sum(getattr(line, field) for line in lines if f"{line.space} {line.access}" == access)
                cells.append(f"{theirs:,}" if mine == theirs else f"{theirs:,} (smemkit {mine:,})")
            same = not any("smemkit" in cell for cell in cells)
            equal_rows += same
            table.append([stem, *cells, "yes" if same else "no", "" if same else FILE_REASONS.get(stem, "")])
    header = ["file", *(" ".join(key) for key in FILE_COUNTERS), "equal", "reason"]
    title = "## Counts of files in right/: Nsight Compute"
    return [title, "", *markdown(header, table), "", f"{len(table)} files: {equal_rows} equal.", ""]


# ---- the command ------------------------------------------------------------------------------------------------


def about_machine():
    gpu = run("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader").output.strip()
    tools = "nvcc", "compute-sanitizer", "ncu"
    versions = [run(tool, "--version").output.strip().splitlines() for tool in tools]
    lines = [f"- {tool}: {text[-1]}" for tool, text in zip(tools, versions, strict=True)]
    return "\n".join([f"- GPU and driver: {gpu}", *lines])


def main():
    if sys.argv[1:2] == ["launch"]:  # what sanitize() starts
        return launch_file(Path(sys.argv[2]))
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "parts", nargs="+", choices=("races", "files", "counts", "launches"), metavar="races|files|counts"
    )
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the Markdown to FILE instead of stdout")
    parser.add_argument("--logs", type=Path, metavar="FOLDER", help="store the tools' output in FOLDER")
    parser.add_argument(
        "--read", action="store_true", help="use the output that --logs stored earlier; needs no GPU"
    )
    options = parser.parse_args()
    if options.parts == ["launches"]:
        return launch_all()
    if options.logs:
        options.logs.mkdir(parents=True, exist_ok=True)
    if options.read and not options.logs:
        parser.error("--read: expected --logs FOLDER")
    logs = ToolLogs(options.logs, options.read)
    lines = ["# smemkit compared with NVIDIA's tools", "", logs.text("machine.txt", about_machine)]
    lines += (
        ["- the tools' results are from an earlier run, smemkit's from this one", ""] if options.read else [""]
    )
    for part in options.parts:
        lines += {"races": races, "files": files, "counts": counts}[part](logs)
        if options.write:  # already now, because the next part may fail
            options.write.write_text("\n".join(lines))
    if not options.write:
        print("\n".join(lines))
    return None


if __name__ == "__main__":
    main()
