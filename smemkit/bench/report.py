"""The measured rows as tables for the terminal and the README, and the environment for the reference file."""

from __future__ import annotations

import platform
import re
import subprocess
from datetime import datetime, timezone
from operator import itemgetter
from pathlib import Path
from typing import Any

from rich.table import Table

from smemkit import _core
from smemkit.bench import planner
from smemkit.bench.rows import Row
from smemkit.bench.suites import Run
from smemkit.devices import Device
from smemkit.ladder import BIG
from smemkit.measure.formats import format_number, format_seconds
from smemkit.measure.records import REFERENCE, Records, newest
from smemkit.table.kernel_table import ladder_of
from smemkit.version import version

NAMES = {"torch": "PyTorch", "cupy": "CuPy", "cublas": "cuBLAS", "cub": "CUB", "numpy": "NumPy"}


# ---- the environment --------------------------------------------------------------------------------------------


def environment(run: Run) -> dict[str, Any]:
    """The hardware and software of the run."""
    build, device = _core.build_info(), run.device
    return {
        "gpu": device.description if device.is_cuda else None,
        "driver": driver(),
        "cuda_driver": device.driver_version,
        "cuda": build["cuda"],
        "smemkit": version(),
        "commit": commit(),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "cpu": "{0.description}, {0.multiprocessors} cores".format(Device("cpu")),
        "peers": {name: peer.version for name, peer in run.peers.items()},
        "clocks": {"sm_max_mhz": device.clock / 1e6 or None, "memory_mhz": device.memory_clock / 1e6 or None},
        "ceilings": run.ceilings and run.ceilings.to_dict(),
        "python": platform.python_version(),
        "compiler": build["compiler"],
        "platform": platform.platform(),
        "quick": run.quick,
        "failures": run.failures,
    }


def commit() -> str | None:
    """The commit of the source tree, with "-dirty" if files have changed; None for an installed package."""
    tree = Path(__file__).parents[2]
    if not (tree / ".git").exists():
        return None
    return output_of("git", "-C", str(tree), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")


def driver() -> str | None:
    """The driver's version, "580.159.04"; None without a driver."""
    return output_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "-i", "0")


def output_of(*command: str) -> str | None:
    """The output of a command; None if it is missing or fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def reference_path(device: Device) -> Path:
    """The file that --save writes: smemkit/reference/nvidia-h200.json."""
    return REFERENCE / (re.sub(r"[^a-z0-9]+", "-", device.description.lower()).strip("-") + ".json")


# ---- tables -----------------------------------------------------------------------------------------------------


def rate(row: Row) -> str:
    """The value of a row with its unit; less than 1 TFLOP/s in GFLOP/s."""
    if row.unit == "TFLOP/s" and row.value < 1:
        return f"{format_number(1000 * row.value)} GFLOP/s"
    return f"{format_number(row.value)} {row.unit}" if row.unit else ""


def table(suite: str, rows: list[Row]) -> Table:
    """The rows of a suite, for the terminal; of the suite `planner` only the worst ones."""
    title = suite.replace("_", " ")
    if suite == "executor":
        title = "executor: the times of the CPU device, not a GPU's"
    if suite == "planner":
        grade, rows = planner.summary(rows)
        title = f"{title}: {grade}; the worst ones"
    shown = Table(title=title, title_justify="left", title_style="bold")
    for name in ("op", "case", "kernel", "L2"):
        shown.add_column(name)
    for name in ("µs", "rate", "of ceiling", "best peer", "speed-up", "error", "peer's error"):
        shown.add_column(name, justify="right")
    for row in rows:
        peer = min(row.peers, key=row.peers.get, default=None)
        shown.add_row(
            row.op,
            row.case,
            row.kernel or "[italic]fastest[/]",
            {True: "cold", False: "warm", None: ""}[row.cold],
            "" if row.us is None else f"{row.us:,.2f}",
            rate(row),
            f"{row.ceiling_fraction:.0%}" if row.ceiling_fraction else "",
            f"{peer} {row.peers[peer]:,.2f}" if peer else "",
            "" if row.ratio is None else f"[{'green' if row.ratio >= 1 else 'red'}]{row.ratio:.2f} x[/]",
            "" if row.error is None else f"{row.error:.1e}",
            "" if row.peer_error is None else f"{row.peer_error:.1e}",
        )
    return shown


def results(report: dict[str, Any], *others: dict[str, Any]) -> str:
    """The README's tables, in Markdown, from a reference file's content. `others`: the contents of further files,
    which may have newer rows of the same GPU's ladders, and newer runs of the other tables on any GPU."""
    environment = report["environment"]
    same = [report, *(other for other in others if other["environment"]["gpu"] == environment["gpu"])]
    days = sorted({other["environment"]["date"][:10] for other in same})
    runs = f"{days[0]} to {days[-1]}, each row from one run" if len(days) > 1 else f"{days[0]}, one run"
    when = f"{runs} of `python -m smemkit bench`"
    lines = [f"Device time on an {environment['gpu']}, float32, warm; {when}:", ""]
    lines += ladders(same)
    return "\n".join([*lines, *host_tables([report, *others]), *products([report, *others])]) + "\n"


def peers_of(rows: list[dict[str, Any]]) -> list[str]:
    """The peers in any of the rows, in the order of NAMES."""
    return [name for name in NAMES if any(name in row["peers"] for row in rows)]


def ladders(reports: list[dict[str, Any]]) -> list[str]:
    """The table of the ladders: the rungs up to the fastest one, kernel=None, and the peers."""
    cases = [records for op in ("transpose", "reduce", "matmul") for records in newest(reports, op, BIG[op])]
    peers = peers_of([row for records in cases for row in records.rows])
    names = " | ".join(["the ladder, up to its fastest rung", "smemkit", *(NAMES[peer] for peer in peers)])
    lines = [
        f"| | {names} | speed-up |",
        "|---|---|---|" + "---|" * len(peers) + "---|",
    ]
    for records in cases:
        op, ours = records.op, records.row(None)
        rows = [(info, records.row(info.name)) for info in ladder_of(op)]
        ceilings = [row for info, row in rows if row and info.role == "ceiling"]
        climbed = [row for info, row in rows if row and info.role == "rung"]
        del climbed[climbed.index(max(climbed, key=itemgetter("value"))) + 1 :]  # other rungs are for other shapes
        ladder = " → ".join(speed(row) + faster(records, row["kernel"]) for row in climbed)
        ladder += "".join(f"; {speed(row)} is the ceiling" for row in ceilings)
        work = ours["value"] * ours["us"]
        theirs = [format_number(work / ours["peers"][peer]) if peer in ours["peers"] else "" for peer in peers]
        size = " × ".join(str(length) for length in records.shape)
        numbers = " | ".join([format_number(ours["value"]), *theirs, f"{ours['ratio']:.2f} ×"])
        lines.append(f"| {op} {size}, {ours['unit']} | {ladder} | {numbers} |")
    return lines


PRODUCTS = {  # of the README's table of matmul: kernel, dtype and precision
    "float32": (None, "float32", "highest", (1024, 2048, 4095, 4096, 8192, 16_384)),
    'float32, `precision="high"`': (None, "float32", "high", (1024, 2048, 4095, 4096, 8192)),
    "float16": (None, "float16", None, (1024, 2048, 4095, 4096, 8192, 16_384)),
    "bfloat16": (None, "bfloat16", None, (4095, 4096, 8192, 16_384)),
    "float64": (None, "float64", None, (1024, 2048, 4095, 4096, 8192)),
    'float64, `kernel="dmma_large"`': ("dmma_large", "float64", None, (2048, 4095, 4096, 8192)),
}


def products(reports: list[dict[str, Any]]) -> list[str]:
    """The table of large products, from the newest run that measured the largest of float32; empty without one."""
    largest = [PRODUCTS["float32"][-1][-1]] * 3
    found = [
        report
        for report in reports
        if any(row["shape"] == largest for row in report["rows"] if row["op"] == "matmul")
    ]
    if not found:
        return []
    newest_one = max(found, key=lambda report: report["environment"]["date"])
    environment = newest_one["environment"]
    where = f"{environment['gpu']}, {environment['date'][:10]}"
    lines = [
        "",
        f"Large products on an {where}, one run; normally distributed numbers. Errors are",
        "relative Frobenius norms, against the product in float64:",
        "",
        "| matmul | n | TFLOP/s | best of cuBLAS, PyTorch, CuPy | speed-up | error | error of the best |",
        "|---|---|---|---|---|---|---|",
    ]
    rows = [row for row in newest_one["rows"] if row["suite"] == row["op"] == "matmul" and not row["cold"]]
    for label, (kernel, dtype, precision, sizes) in PRODUCTS.items():
        for n in sizes:
            wanted = kernel, dtype, precision, [n] * 3
            for row in rows:
                if (row["kernel"], row["dtype"], row["precision"], row["shape"]) == wanted:
                    numbers = map(format_number, (row["value"], row["value"] / row["ratio"]))
                    errors = f"{row['error']:.1e} | {row['peer_error']:.1e}"
                    lines.append(f"| {label} | {n:,} | {' | '.join(numbers)} | {row['ratio']:.2f} × | {errors} |")
    return lines


def speed(row: dict[str, Any]) -> str:
    """A rung and its rate: `tree` 706."""
    return f"`{row['kernel']}` {format_number(row['value'])}"


def faster(records: Records, kernel: str) -> str:
    """The rate with other options than the default ones, if they make a rung much faster: (tile 16: 2,955)."""
    found = records.faster(kernel)
    if not found:
        return ""
    options, row = found
    return f" ({options}: {format_number(row['value'])})"


HOST_SUITES = {
    "transfer": "copies",
    "end_to_end": "NumPy in and NumPy out",
    "call": "what a call costs on device arrays",
}


def host_tables(reports: list[dict[str, Any]]) -> list[str]:
    """The tables of times by the host's clock: of each suite from the newest run that has it."""
    runs: dict[int, tuple[dict[str, Any], list[str]]] = {}  # by the report's identity: itself, and its suites
    for suite in HOST_SUITES:
        found = [report for report in reports if any(row["suite"] == suite for row in report["rows"])]
        if found:
            run = max(found, key=lambda report: report["environment"]["date"])
            runs.setdefault(id(run), (run, []))[1].append(suite)
    return [line for run, suites in runs.values() for line in host_table(run, suites)]


def host_table(report: dict[str, Any], suites: list[str]) -> list[str]:
    """The table of some suites of a run; empty without rows for it."""
    shown = [(label, row) for row in report["rows"] if row["suite"] in suites and (label := host_label(row))]
    if not shown:
        return []
    environment, peers = report["environment"], peers_of([row for _, row in shown])
    lines = [
        "",
        f"By the host's clock on an {environment['gpu']}, {environment['date'][:10]}: "
        f"{'; '.join(HOST_SUITES[suite] for suite in suites)}:",
        "",
        f"| | smemkit | {' | '.join(NAMES[peer] for peer in peers)} | speed-up |",
        "|---|---|" + "---|" * len(peers) + "---|",
    ]
    for label, row in shown:
        rated = row["suite"] == "transfer"

        def cell(us: float | None, row: dict[str, Any] = row, rated: bool = rated) -> str:
            if us is None:
                return ""
            return f"{format_number(row['value'] * row['us'] / us)} GB/s" if rated else format_seconds(us / 1e6)

        theirs = [cell(row["peers"].get(peer)) for peer in peers]
        ratio = f"{row['ratio']:.2f} ×" if row["ratio"] else ""
        lines.append(f"| {label} | {cell(row['us'])} | {' | '.join(theirs)} | {ratio} |")
    return lines


def host_label(row: dict[str, Any]) -> str | None:
    """The README's label for a row by the host's clock; None if the README leaves it out."""
    suite, op, case = row["suite"], row["op"], row["case"]
    if suite == "transfer":
        return case if case.endswith("512 MiB") else None
    if suite == "end_to_end":
        return case if case.startswith(op) or op == "reduce" else f"{op} {case}"
    if op == "launch":
        return case
    if suite == "call":
        call = case if case.startswith("sum") else "sum" if op == "reduce" else f"{op}, 16 × 16"
        return f"a call of {call}"
    return None
