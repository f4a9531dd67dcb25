"""The executor runs whole CUDA programs: executor/*.cu check themselves, and the faults of executor/faults/*.cu
must be reported.

Every program in those folders is a test, with every toolchain that compiles kernels. The executor is built here
from its sources, without Python and without the package.
"""

import fcntl
import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXECUTOR = ROOT / "csrc" / "executor"
PROGRAMS = Path(__file__).resolve().parent

TOPICS = sorted(path.stem for path in PROGRAMS.glob("*.cu"))
FAULTS = sorted(f"faults/{path.stem}" for path in (PROGRAMS / "faults").glob("*.cu"))
TIMEOUT = 30  # seconds; a program takes less than 3
# programs that depend on how fibers are switched
FIBER_DEPENDENT = ["async", "atomics", "barriers", "cooperative", "cuda_atomic", "named_barriers", "warp"]


@dataclass(frozen=True)
class Toolchain:
    cc: str
    cxx: str
    programs: tuple
    c_flags: tuple = ()  # for the executor only
    link: tuple = ()
    run: tuple = ()

    def missing(self):
        tools = [self.cc, self.cxx, *self.run[:1]]
        return [tool for tool in tools if not shutil.which(tool)]


SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
TOOLCHAINS = {
    "gcc": Toolchain("gcc", "g++", (*TOPICS, *FAULTS)),
    "clang": Toolchain("clang", "clang++", (*TOPICS, *FAULTS)),
    "portable-fibers": Toolchain(
        "gcc",
        "g++",
        (*FIBER_DEPENDENT, "faults/barrier_loop", "faults/endless_spin", "faults/stack_overflow"),
        c_flags=("-DSMEMKIT_PORTABLE_FIBERS",),
    ),
    "sanitized": Toolchain(
        "gcc",
        "g++",
        ("barriers", "warp", "faults/early_return"),
        c_flags=("-g", *SANITIZE),
        link=(*SANITIZE, "-lubsan"),  # g++ omits it because the kernels' own checks trap
    ),
    "aarch64": Toolchain(
        "aarch64-linux-gnu-gcc",
        "aarch64-linux-gnu-g++",
        (*TOPICS, "faults/endless_spin", "faults/shuffle_missing", "faults/stack_overflow", "faults/trap"),
        link=("-static",),
        run=("qemu-aarch64",),
    ),
}


def _cuda_source(name):
    """A module of smemkit.cuda_source, without smemkit."""
    specification = importlib.util.spec_from_file_location(
        "executor_cuda_source", ROOT / "smemkit" / "cuda_source" / "__init__.py"
    )
    sys.modules[specification.name] = importlib.util.module_from_spec(specification)
    return importlib.import_module(f"{specification.name}.{name}")


DIALECT, FLAGS = map(_cuda_source, ("dialect", "flags"))


def _run(command, **options):
    return subprocess.run(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )


def _compile(*command):
    done = _run(command)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout}")


@cache
def _accepts(compiler, flag):
    return _run([compiler, "-Werror", flag, "-fsyntax-only", "-x", "c++", os.devnull]).returncode == 0


class Builder:
    """Compiles what the tests need: the executor once per toolchain, for all processes of pytest-xdist that share
    the folder, and each program in its test."""

    def __init__(self, folder, toolchains):
        self.folder = folder
        self.sources = folder / "sources"
        self._once("sources", self._rewrite)
        for name in toolchains:  # here, so that no test pays for it
            self._once(name, partial(self._executor, name))

    def _once(self, what, make):
        """Calls `make` unless a process has done so. Meanwhile the others wait: it uses all cores."""
        with (self.folder / f"{what}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not os.fstat(lock.fileno()).st_size:
                make()
                lock.write("made")

    def _rewrite(self):
        for source in [*PROGRAMS.rglob("*.cu"), *PROGRAMS.rglob("*.h")]:  # headers launch kernels too
            target = self.sources / source.relative_to(PROGRAMS)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(DIALECT.rewrite(source.read_text(), str(source)))

    def _executor(self, name):
        toolchain = TOOLCHAINS[name]
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        # heap.c would replace the malloc that the executor itself calls
        sources = sorted(set(EXECUTOR.glob("*.c")) - {EXECUTOR / "heap.c"})
        flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", *toolchain.c_flags]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            commands = ((*flags, "-c", source, "-o", folder / f"{source.stem}.o") for source in sources)
            list(pool.map(lambda words: _compile(toolchain.cc, *words), commands))

    def _program(self, name, program):
        toolchain = TOOLCHAINS[name]
        target = self.folder / name / program.replace("/", "-")
        _compile(
            *(toolchain.cxx, *FLAGS.compile_flags(partial(_accepts, toolchain.cxx))),
            *("-I", EXECUTOR / "include"),
            *("-x", "c++", self.sources / f"{program}.cu", "-x", "none", *target.parent.glob("*.o")),
            *(*toolchain.link, "-lpthread", "-o", target),
        )
        return target

    def run(self, name, program, **environment):
        binary = self._program(name, program)
        return _run([*TOOLCHAINS[name].run, binary], timeout=TIMEOUT, env={**os.environ, **environment})


@pytest.fixture(scope="session")
def builder(request, tmp_path_factory):
    selected = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    wanted = sorted({item["toolchain"] for item in selected if "toolchain" in item and "program" in item})
    folder = tmp_path_factory.getbasetemp()
    folder = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "executor"
    folder.mkdir(exist_ok=True)
    return Builder(folder, [name for name in wanted if not TOOLCHAINS[name].missing()])


def _program_params(programs):
    return [
        pytest.param(
            name,
            program,
            id=f"{program.removeprefix('faults/')}-{name}",
            marks=() if name == "gcc" else pytest.mark.slow,
        )
        for name, toolchain in TOOLCHAINS.items()
        for program in toolchain.programs
        if program in programs
    ]


def _skip_without_tools(toolchain):
    missing = TOOLCHAINS[toolchain].missing()
    if missing:
        pytest.skip(f"{toolchain} needs {' and '.join(missing)}")


@pytest.mark.parametrize(("toolchain", "program"), _program_params(TOPICS))
@pytest.mark.covering(most=1)
def test_correct_program_passes(toolchain, program, builder):
    _skip_without_tools(toolchain)
    done = builder.run(toolchain, program)
    _assert_passed(done)


def _assert_passed(done):
    if (done.returncode, done.stdout) != (0, "ok\n"):
        pytest.fail(f"exit status {done.returncode}\n{done.stdout}", pytrace=False)


def _expected_reports(source):
    """Patterns for the reports that a faulty program lists in `EXPECT error: message` comments."""
    text = source.read_text()
    positions = {}
    for number, line in enumerate(text.splitlines(), 1):
        positions |= dict.fromkeys(re.findall(r"// ([A-Z]+)$", line), f"{source}:{number}")
    comments = re.sub(r"\n\s*// (?!EXPECT )", " ", text)  # a comment may have several lines
    patterns = []
    for expectation in re.findall(r"// EXPECT (.*)", comments):
        report = re.sub(r"@([A-Z]+)", lambda match: positions[match[1]], expectation)
        patterns.append("fault " + ".*".join(map(re.escape, report.split("*"))))
    assert patterns, f"{source} has no EXPECT comment"
    return patterns


@pytest.mark.parametrize(("toolchain", "program"), _program_params(FAULTS))
@pytest.mark.covering(most=1)
def test_faulty_program_is_reported(toolchain, program, builder):
    _skip_without_tools(toolchain)
    done = builder.run(toolchain, program, SMEMKIT_WATCHDOG="1")
    *reports, verdict = done.stdout.splitlines() or [""]
    patterns = _expected_reports(PROGRAMS / f"{program}.cu")
    for report, pattern in zip(reports, patterns, strict=False):
        if not re.fullmatch(pattern, report):
            pytest.fail(f"{report}\ndoes not match\n{pattern}", pytrace=False)
    assert len(reports) == len(patterns), done.stdout
    assert (done.returncode, verdict) == (0, "ok"), done.stdout  # a correct kernel ran right after each


@pytest.mark.gpu
@pytest.mark.parametrize("program", TOPICS)
def test_program_on_gpu(program, tmp_path):
    """The same programs, unchanged, compiled with nvcc: a GPU behaves as they expect."""
    import smemkit

    nvcc = shutil.which("nvcc")
    if not nvcc:
        pytest.skip("nvcc is not in PATH")
    if not smemkit.is_available():
        pytest.skip("no CUDA device")
    binary = tmp_path / program
    flags = ["-std=c++17", "-arch=native", "-Xcompiler", "-Wno-deprecated-declarations"]
    _compile(nvcc, *flags, PROGRAMS / f"{program}.cu", "-o", binary)
    done = _run([binary], timeout=TIMEOUT)
    _assert_passed(done)
