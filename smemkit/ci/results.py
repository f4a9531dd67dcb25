"""The launches to check, and what a check of one of them found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from smemkit._core import CompileError, Error
from smemkit.checker.allowances import read_allowances
from smemkit.checker.check import check
from smemkit.checker.faults import FAULT_TITLES, Fault
from smemkit.checker.lines import LineReport
from smemkit.checker.report import Report
from smemkit.measure.formats import format_average
from smemkit.user_kernel import launch_text
from smemkit.user_kernel.kernel import Kernel

__all__ = ["FINDING_TITLES", "Check", "Finding", "Outcome", "findings", "run_check"]

FINDING_TITLES = FAULT_TITLES | {
    "conflict": "bank conflict",
    "sectors": "wasted sectors",
    "compile": "cannot be compiled",
}


@dataclass(frozen=True)
class Check:
    """A launch to check: its file, and the options of `smemkit check` as text.

    Attributes
    ----------
    file : str
    kernel, grid, block, cluster : str or None
    shared, seed : int
    arg, option : tuple of str
        The kernel's arguments, and the compiler's options.
    blocks, schedule : str
    fail_on : str
        What `--fail-on` takes.
    folder : str
        Where the paths of its arguments' files start.
    origin : str
        Where it was asked for: "smemkit.toml: check 2"; "" for the command line.
    """

    file: str
    kernel: str | None = None
    grid: str | None = None
    block: str | None = None
    shared: int = 0
    cluster: str | None = None
    arg: tuple[str, ...] = ()
    option: tuple[str, ...] = ()
    blocks: str = "auto"
    schedule: str = "serial"
    seed: int = 0
    fail_on: str = "errors"
    folder: str = ""
    origin: str = ""

    @property
    def title(self) -> str:
        """Its launch: "halo[4, (16, 16)]"."""
        shapes = [
            f"({text.replace(',', ', ')})" if "," in text else text for text in (self.grid, self.block) if text
        ]
        return f"{self.kernel or Path(self.file).stem}[{', '.join(shapes)}]"


@dataclass(frozen=True)
class Finding:
    """A fault, a line's bank conflicts or wasted sectors, or a file that does not compile.

    Attributes
    ----------
    kind : str
        A key of `FINDING_TITLES`.
    severity : {"error", "warning", "note"}
        Costs are notes.
    kernel, file, text : str
        `text` is that of the line.
    line, other_line : int or None
    message, fix : str
    value : float
        The n of an n-way bank conflict; the sectors divided by the ideal.
    """

    kind: str
    severity: str
    kernel: str
    file: str
    line: int | None
    message: str
    text: str = ""
    fix: str = ""
    value: float = 0.0
    title: str = ""
    variable: str = ""
    other_file: str = ""
    other_line: int | None = None
    allowed: str | None = None

    @property
    def location(self) -> str:
        """File and line: "kernel.cu:14"."""
        return self.file if self.line is None else f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Outcome:
    """What became of a check: its report, or why there is none.

    Attributes
    ----------
    check : Check
    report : Report or None
    problem : str
        Why it could not be checked; "" if it was.
    compile_error : bool
        Whether the problem is that the file does not compile, rather than wrong use.
    location : tuple of str, int or None
        The file and the line of the compile error.
    findings : tuple of Finding
    skipped : tuple of str
        The other kernels of the file that do not compile, each with the reason: "b: kernel.cu:2: …".
    """

    check: Check
    report: Report | None
    problem: str = ""
    compile_error: bool = False
    location: tuple[str, int | None] = ("", None)
    findings: tuple[Finding, ...] = field(default=(), repr=False)
    skipped: tuple[str, ...] = ()


def run_check(asked: Check) -> Outcome:
    """Checks a launch. What the user can put right is a problem of the outcome, not an exception."""
    try:
        report, skipped = _report(asked)
    except CompileError as error:
        location = (getattr(error, "file", "") or asked.file, getattr(error, "line", None))
        kernel = asked.kernel or ""
        found = Finding("compile", "error", kernel, *location, str(error), title=FINDING_TITLES["compile"])
        return Outcome(asked, None, _prefixed(asked, str(error)), True, location, (found,))
    except (ValueError, TypeError, OSError, Error) as error:
        return Outcome(asked, None, _prefixed(asked, str(error)))
    return Outcome(asked, report, findings=tuple(findings(report)), skipped=skipped)


def _report(asked: Check) -> tuple[Report, tuple[str, ...]]:
    source = _source_file(asked.file)
    blocks = launch_text.parse_blocks(asked.blocks)
    arguments = launch_text.kernel_arguments(asked)
    kernel = Kernel._to_check(source, asked.kernel, options=asked.option)
    if kernel.name is None:
        raise ValueError(f"--kernel: expected one of {asked.file}'s kernels, {', '.join(kernel.names)}")
    launch = launch_text.configured_launch(kernel, asked)
    report = check(launch, *arguments, schedule=asked.schedule, seed=asked.seed, blocks=blocks)
    reasons = {name: reason.split("\n")[0] for name, reason in kernel.skipped.items()}
    return report, tuple(f"{name}: {reason}" for name, reason in reasons.items())


def _prefixed(asked: Check, message: str) -> str:
    """A message with the position in smemkit.toml that it is about, in the words of that file."""
    if not asked.origin:
        return message
    return f"{asked.origin}, {asked.file}: {message.replace('--arg ', 'args: ').replace('--', '')}"


def _source_file(name: str) -> Path:
    path = Path(name)
    if not path.is_file():
        raise ValueError(f"{name}: no such file" if not path.exists() else f"{name}: expected a file")
    return path


# ---- what a report found ----


def findings(report: Report) -> Iterator[Finding]:
    """The faults of a report, and the lines with bank conflicts or wasted sectors."""
    allowances = read_allowances(report.sources)
    for launch in report.launches:
        for fault in (*launch.faults, *launch.allowed):
            yield _fault_finding(launch.kernel, fault)
        for line in launch.lines:
            if line.wasteful:
                allowed = allowances.get((line.file, line.line), {})
                yield _cost_finding(launch.kernel, line, allowed)


def _fault_finding(kernel: str, fault: Fault) -> Finding:
    return Finding(
        fault.kind,
        fault.severity,
        kernel,
        fault.file,
        fault.line,
        fault.message or fault.meaning,
        fault.text,
        fault.fix,
        title=fault.title,
        variable=fault.variable,
        other_file=fault.other_file,
        other_line=fault.other_line,
        allowed=fault.allowed,
    )


def _cost_finding(kernel: str, line: LineReport, allowed: dict[str, str]) -> Finding:
    kind = "conflict" if line.space == "shared" else "sectors"
    value = float(line.degree) if kind == "conflict" else line.excess
    ratio = format_average(line.sectors, max(1, line.ideal_sectors))
    title = f"{line.degree}-way bank conflict" if kind == "conflict" else f"{ratio} × the ideal sectors"
    of = f" of {line.variable}" if line.variable else ""
    return Finding(
        kind,
        "note",
        kernel,
        line.file,
        line.line,
        f"{line.space} {line.access}{of}",
        line.text,
        line.advice,
        value,
        title,
        variable=f"{line.access} {line.variable}".strip(),
        allowed=allowed.get(kind),
    )
