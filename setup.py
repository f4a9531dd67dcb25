"""Builds smemkit._core: one extension module out of C (csrc/) and the kernels that kernels/kernels.def lists.

Each kernel is compiled for up to two machines. For the CPU executor smemkit/cuda_source/ rewrites its text for
the C++ compiler, which finds csrc/executor/include/cuda_runtime.h. For GPUs nvcc compiles the file itself.

This file is also the build backend that pyproject.toml names: setuptools' own, with one hook that adds the wheels
of a CUDA compiler to the requirements. The environment decides:

    SMEMKIT_CUDA=auto|1|0   build CUDA: if an NVIDIA driver is present (default), always, never
    SMEMKIT_ARCHS="80;90a"  or `all`, and PTX of the oldest for other GPUs, unless all names end in -real, as in
                            CMake: "90a-real". Default: the GPUs present, without PTX; else 90a with PTX
    CUDA_HOME, CC, CXX, CFLAGS, CXXFLAGS, LDFLAGS   as everywhere
"""

import ctypes
import importlib
import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import NamedTuple

from setuptools import Extension, build_meta, find_packages, setup
from setuptools.build_meta import *  # noqa: F403  the backend's other hooks
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
OLDEST_ARCH = "75"
OLDEST_TOOLKIT = (12, 4)
HOOKS = Path("csrc/checker/hooks.c")
HEAP = Path("csrc/executor/heap.c")
COMPILER_WHEELS = [  # one minor version; nvcc, cicc, headers, cudart and libcu++ come in separate wheels
    f"nvidia-{part}==13.0.*" for part in ("cuda-nvcc", "nvvm", "cuda-crt", "cuda-runtime", "cuda-cccl")
]
# smemkit's kernels: a launcher that ignores a launch's error does not compile, and no watchdog stops slow blocks
OUR_KERNELS = ("-Werror=unused-result", "-DSMEMKIT_UNWATCHED")
CPU_KERNELS_OPTIMISATION = "-O1"  # -O2 compiles half as long again, and no kernel runs a tenth faster
# clang need not unroll loops as the kernels ask nvcc to: a ninth less to compile, and kernels run as fast
CLANG_LEAVES_LOOPS = ("-mllvm", "-pragma-unroll-threshold=0", "-Wno-pass-failed")
PRELUDE = """\
#include <cuda_runtime.h>
#include "common/dispatch.cuh"
#include "common/grid.cuh"
#include "common/launch.cuh"
#include "common/types.cuh"
#include "kernels.h"
"""  # what most kernels include
# for ccache, and so that -MD names the precompiled header's headers, too
PRECOMPILED = ("-fpch-preprocess", "-fpch-deps")
# the files that nvcc compiles longest, 20 to 80 seconds; their size does not tell
LONGEST = ("rows", "columns", "wgmma_large", "matvec")
NVCC_UNUSED_RESULT = ("-diag-error", "2809")
# folders outside smemkit/ that are installed as data packages: the kernels' sources, and the executor's headers
BESIDE_CORE = ("_checked.so", "_hooks.o", "_heap.o")  # built beside the extension module
DATA_FOLDERS = {"smemkit._kernels": "kernels", "smemkit._dialect": "csrc/executor"}


# ---- the kernel table -------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """A row of kernels.def, as far as the build needs it."""

    op: str
    name: str
    order: int
    needs: str  # HOST, ANY, SM_80, SM_90A
    cpu: bool
    role: str  # RUNG, PRODUCTION, CEILING

    @property
    def source(self) -> str:
        """The path of its file below kernels/, as in messages: matmul/ladder/20_tiled.cu"""
        if self.role == "PRODUCTION":
            return f"{self.op}/production/{self.name}.cu"
        return f"{self.op}/ladder/{self.order:02d}_{self.name}.{'c' if self.needs == 'HOST' else 'cu'}"


def read_table(text: str) -> list[Row]:
    pattern = r"^KERNEL\((\w+),\s*(\w+),\s*(\d+),\s*(\w+),\s*(\w+),.*?\b(RUNG|PRODUCTION|CEILING)\b"
    return [
        Row(op, name, int(order), needs, cpu == "CPU", role)
        for op, name, order, needs, cpu, role in re.findall(pattern, text, re.MULTILINE)
    ]


# ---- CUDA: whether, with which toolkit, for which GPUs ----------------------------------------------------------


class Driver(NamedTuple):
    version: int  # 13000 for 13.0
    archs: list[str]  # of the GPUs present: ["90a"]


class Toolkit(NamedTuple):
    nvcc: Path
    version: tuple[int, int]
    archs: list[str]  # for which its nvcc compiles: ["75", "80", …]

    def folder_of(self, file: str) -> Path:
        """The folder that holds a header or a library; toolkits, wheels and conda lay them out differently."""
        home = self.nvcc.resolve().parent.parent
        for folder in ("include", "lib64", "lib", "targets/*/include", "targets/*/lib"):
            for found in sorted(home.glob(f"{folder}/{file}")):
                return found.parent
        raise SystemExit(f"smemkit: the CUDA toolkit in {home} has no {file}; its package is not installed")


class NoToolkitError(SystemExit):
    """CUDA is wanted, but there is no compiler for it."""


def arch(name: str) -> str:
    """sm_80, 8.0 and 80 in one spelling. 9.0 is 90a: all such GPUs have wgmma, which only 90a may use."""
    name = name.strip().removeprefix("sm_").replace(".", "")
    return "90a" if name == "90" else name


def number(name: str) -> int:
    return int(name.rstrip("af"))


def find_driver() -> Driver | None:
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    version, count, major, minor, device = (ctypes.c_int() for _ in range(5))
    cuda.cuDriverGetVersion(ctypes.byref(version))
    if cuda.cuInit(0) == 0:  # fails if there is a driver and no GPU
        cuda.cuDeviceGetCount(ctypes.byref(count))
    archs = set()
    for ordinal in range(count.value):
        cuda.cuDeviceGet(ctypes.byref(device), ordinal)
        cuda.cuDeviceGetAttribute(ctypes.byref(major), 75, device)  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
        cuda.cuDeviceGetAttribute(ctypes.byref(minor), 76, device)
        archs.add(arch(f"{major.value}.{minor.value}"))
    return Driver(version.value, sorted(archs, key=number))


def nvcc_candidates(environ=os.environ) -> list[Path]:
    """Paths at which nvcc may be, best first."""
    candidates = [Path(environ["CUDA_HOME"], "bin")] if environ.get("CUDA_HOME") else []
    if on_path := shutil.which("nvcc", path=environ.get("PATH", "")):
        candidates.append(Path(on_path).parent)
    candidates.append(Path("/usr/local/cuda/bin"))
    if wheels := importlib.util.find_spec("nvidia"):
        for folder in wheels.submodule_search_locations or ():
            candidates += sorted(Path(folder).glob("cu*/bin"), reverse=True)
    return [folder / "nvcc" for folder in candidates if (folder / "nvcc").is_file()]


def ask_nvcc(nvcc: Path) -> Toolkit:
    def ask(option: str) -> str:
        return subprocess.run([nvcc, option], capture_output=True, text=True, check=True).stdout

    major, minor = re.search(r"release (\d+)\.(\d+)", ask("--version")).groups()
    codes = re.findall(r"sm_(\d+)", ask("--list-gpu-code"))
    archs = sorted({arch(code) for code in codes if int(code) >= int(OLDEST_ARCH)}, key=number)
    return Toolkit(nvcc, (int(major), int(minor)), archs)


def choose_toolkit(wanted: str, driver: Driver | None, toolkits) -> tuple[Toolkit | None, str]:
    """The toolkit to build CUDA with, None for the CPU alone, and the reason."""
    if wanted not in ("auto", "1", "0"):
        raise SystemExit(f"smemkit: SMEMKIT_CUDA: expected auto, 1 or 0, got {wanted!r}")
    if wanted == "0":
        return None, "SMEMKIT_CUDA=0"
    if wanted == "auto" and driver is None:
        return None, "no NVIDIA driver is present (SMEMKIT_CUDA=1 builds CUDA all the same)"
    because = "SMEMKIT_CUDA=1" if wanted == "1" else "an NVIDIA driver is present"
    passed_over = ""
    for toolkit in toolkits:
        if toolkit.version >= OLDEST_TOOLKIT and (driver is None or toolkit.version[0] <= driver.version // 1000):
            return toolkit, because
        passed_over += f" {toolkit.nvcc} is {toolkit.version[0]}.{toolkit.version[1]}, which is not suitable."
    newest = driver.version // 1000 if driver else 13
    oldest = ".".join(map(str, OLDEST_TOOLKIT))
    raise NoToolkitError(
        f"smemkit: CUDA was requested, because {because}, and no suitable nvcc was found in CUDA_HOME, PATH, "
        f"/usr/local/cuda or the nvidia-cuda-nvcc wheel.{passed_over} Install a CUDA toolkit, {oldest} to "
        f"{newest}.x, and set CUDA_HOME; or set SMEMKIT_CUDA=0 to build for the CPU alone."
    )


def wheels_to_fetch(wanted: str, driver: Driver | None, toolkits) -> list[str]:
    """The compiler's wheels, if pip has to install them. Only CUDA 13's have an nvcc; they need its driver."""
    try:
        choose_toolkit(wanted, driver, toolkits)
    except NoToolkitError:
        if driver and driver.version < 13000:
            raise
        return COMPILER_WHEELS
    return []


def get_requires_for_build_wheel(config_settings=None) -> list[str]:
    """The build backend's hook: what pip installs before it builds."""
    wanted = os.environ.get("SMEMKIT_CUDA", "auto")
    fetch = wheels_to_fetch(wanted, find_driver(), map(ask_nvcc, nvcc_candidates()))
    return [*build_meta.get_requires_for_build_wheel(config_settings), *fetch]


get_requires_for_build_editable = get_requires_for_build_wheel


def choose_archs(wanted: str, driver: Driver | None, toolkit: Toolkit) -> tuple[list[str], bool]:
    """The GPUs to compile for, and whether to add a PTX for others, with which a build takes 1.4 times as long."""
    if not wanted:
        if driver is None or not driver.archs:  # for example, an image is built where no GPU is attached
            return ["90a"], True
        unknown = set(driver.archs) - set(toolkit.archs)  # the toolkit is older: these run the PTX
        return [a for a in driver.archs if a not in unknown], any(number(a) >= int(OLDEST_ARCH) for a in unknown)
    if wanted == "all":
        return ["75", "80", "86", "89", "90a"] + [a for a in toolkit.archs if number(a) > 90], True
    names = re.split(r"[,;\s]+", wanted.strip(",; "))
    archs = [arch(name.removesuffix("-real")) for name in names]
    known = " ".join(toolkit.archs)
    for a in archs:
        if arch(re.sub("[af]$", "", a)) not in toolkit.archs:
            raise SystemExit(f"smemkit: SMEMKIT_ARCHS: expected `all` or some of {known}, got {a!r}")
    return sorted(set(archs), key=number), not all(name.endswith("-real") for name in names)


def gencode(needs: str, archs: list[str], add_ptx: bool = True) -> list[str]:
    """nvcc's options for a row; empty if no GPU of this build can run it. The PTX is for future GPUs."""
    if needs == "ANY":
        fits, ptx = archs, [OLDEST_ARCH]
    elif needs.endswith("A"):  # code for exactly this GPU; no other runs its PTX
        fits, ptx = [a for a in archs if f"SM_{a.upper()}" == needs], []
    else:
        oldest = needs.removeprefix("SM_")
        fits = [a for a in archs if number(a) >= int(oldest)]
        ptx = [oldest] if fits else []
    return [f"-gencode=arch=compute_{a},code=sm_{a}" for a in fits] + [
        f"-gencode=arch=compute_{a},code=compute_{a}" for a in ptx if add_ptx
    ]


# ---- compiling --------------------------------------------------------------------------------------------------


def words(variable: str, default: str = "") -> list[str]:
    return shlex.split(os.environ.get(variable, "") or default)


def accepts(compiler: list[str], *flags: str) -> bool:
    probe = [*compiler, "-Werror", *flags, "-fsyntax-only", "-x", "c++", os.devnull]
    return subprocess.run(probe, capture_output=True).returncode == 0


def precompiles(compiler: list[str]) -> bool:
    """Whether to precompile PRELUDE: with g++ that saves an eighth of a build's time, with clang nothing."""
    return accepts(compiler, "-fsanitize=bounds-strict")  # as g++ alone does


def fibers() -> str:
    return {"x86_64": "x86-64", "AMD64": "x86-64", "aarch64": "aarch64", "arm64": "aarch64"}.get(
        platform.machine(), "portable"
    )


def ccache_settings() -> dict[str, str]:
    """Environment variables without which ccache keeps nothing that is compiled with a precompiled header. In its
    depend mode it takes the headers' names from -MD, because g++ does not preprocess with -fpch-deps alone."""
    sloppiness = os.environ.get("CCACHE_SLOPPINESS", "") + ",pch_defines,time_macros"
    return {"CCACHE_SLOPPINESS": sloppiness, "CCACHE_DEPEND": "1"}


def find_headers(build: Path) -> list[str]:
    """The include folders of Python and NumPy, or a message that names the package that is missing.

    pip builds with a NumPy in a folder with a random name. Commands name a link to it in `build`: so a compiler
    cache knows them again, and what does not include NumPy need not be compiled again.
    """
    for command in words("CC", "cc")[0], words("CXX", "c++")[0]:
        if not shutil.which(command):
            raise SystemExit(f"smemkit: no compiler {command!r}; install g++ or clang (Debian: build-essential)")
    folder = sysconfig.get_path("include")
    if not Path(folder, "Python.h").exists():
        remedy = "install python3-dev (Debian, Ubuntu) or python3-devel (Fedora, Red Hat)"
        raise SystemExit(f"smemkit: {folder}/Python.h is missing; {remedy}")
    import numpy  # here, because pip runs this file before it installs NumPy

    headers, link = Path(numpy.get_include()), build / f"numpy-{numpy.__version__}"
    new = build / f"numpy-{os.getpid()}"
    build.mkdir(parents=True, exist_ok=True)
    try:
        new.symlink_to(headers)
        new.replace(link)
    except OSError:  # a file system without links
        link = headers
    return [f"-I{folder}", f"-I{link}"]


def load_cuda_source():
    """The modules dialect and flags of smemkit.cuda_source, without importing smemkit, which is being built."""
    spec = importlib.util.spec_from_file_location("smemkit_cuda_source", ROOT / "smemkit/cuda_source/__init__.py")
    sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    return [importlib.import_module(f"{spec.name}.{name}") for name in ("dialect", "flags")]


def is_older(target: Path, read: Path) -> bool:
    """Whether a file that a compilation read, according to its make rule, has changed since or is missing."""
    try:
        rule = read.read_text().replace("\\\n", " ").partition(": ")[2]
        made = target.stat().st_mtime
        return any(
            Path(name.replace("\\ ", " ")).stat().st_mtime > made for name in re.split(r"(?<!\\)\s+", rule.strip())
        )
    except FileNotFoundError:
        return True


class Build(build_ext):
    """Compiles all objects in parallel, and links them with the C++ compiler."""

    def run(self):
        super().run()
        if self.inplace:  # also `pip install -e`: puts built files and data folders where imports find them
            for name in BESIDE_CORE:
                shutil.copy2(Path(self.build_lib, "smemkit", name), ROOT / "smemkit" / name)
            for package, folder in DATA_FOLDERS.items():
                link = ROOT / package.replace(".", "/")
                if not link.exists():
                    link.symlink_to(os.path.relpath(ROOT / folder, link.parent))

    def build_extension(self, ext):
        self.temp = Path(self.build_temp).resolve()
        self.rows = read_table((ROOT / "kernels/kernels.def").read_text())
        os.chdir(ROOT)  # paths in messages, commands and __FILE__ are relative to the repository

        includes = find_headers(self.temp)
        driver = find_driver()
        toolkit, because = choose_toolkit(
            os.environ.get("SMEMKIT_CUDA", "auto"), driver, map(ask_nvcc, nvcc_candidates())
        )
        about = f"smemkit: CPU device {'(' if toolkit else 'only ('}fibers: {fibers()})"
        jobs, facts, libraries = [], [], ["-lpthread"]
        if toolkit:
            archs, add_ptx = choose_archs(os.environ.get("SMEMKIT_ARCHS", ""), driver, toolkit)
            version = "{}.{}".format(*toolkit.version)
            targets = [f"sm_{a}" for a in archs] + [f"compute_{OLDEST_ARCH}"] * add_ptx
            about += f"; CUDA {version} for {' '.join(targets)}"
            jobs += self.cuda_jobs(toolkit, archs, add_ptx)
            facts += ["-DSMEMKIT_CUDA=1", f'-DSMEMKIT_BUILD_CUDA="{version}"']
            facts += [f'-DSMEMKIT_BUILD_ARCHS="{" ".join(targets)}"']
            libraries += [f"{toolkit.folder_of('libcudart_static.a')}/libcudart_static.a", "-ldl", "-lrt"]
        print(f"{about}, because {because}", flush=True)

        jobs += self.c_jobs(includes, facts, toolkit)
        os.environ |= ccache_settings()
        pool = ThreadPoolExecutor(os.cpu_count())

        def start(jobs, after=()):  # the longest first, so that no core waits for the last
            def run(job):
                for header in after:
                    header.result()  # waits for it
                self.compile(*job)

            longest_first = sorted(jobs, key=lambda job: (job[0].stem not in LONGEST, -job[0].stat().st_size))
            return [pool.submit(run, job) for job in longest_first]

        try:
            running = start(jobs)
            cpu, checked = [*self.cpu_jobs()], [*self.checked_jobs()]  # rewrites kernels while others are compiled
            headers = start(job for job in cpu + checked if job[1].suffix == ".gch")
            running += headers + start((job for job in cpu + checked if job[1].suffix == ".o"), after=headers)
            ended = wait(running, return_when=FIRST_EXCEPTION).done
        finally:
            pool.shutdown(cancel_futures=True)  # if one has failed, those that have not begun are dropped
        for job in ended:
            job.result()
        jobs += cpu
        objects, checked = ([job[1] for job in part if job[1].suffix == ".o"] for part in (jobs, checked))

        target = Path(self.get_ext_fullpath(ext.name)).resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        shared = ["-shared"]
        if sys.platform == "darwin":
            shared = ["-bundle", "-undefined", "dynamic_lookup"]
        elif toolkit:  # the static cudart must not bind to another library's
            shared += ["-Wl,--exclude-libs,ALL"]
        link = [*words("CXX", "c++"), *shared, *objects, "-o", target, *words("LDFLAGS"), *libraries]
        self.execute_command(link)
        self.link_checked(checked, target)

    def link_checked(self, objects, core):
        """Links the checked kernels as a library, which calls the executor in `core`."""
        library, hooks, heap = (core.with_name(name) for name in BESIDE_CORE)
        shutil.copyfile(objects[0], hooks)  # also linked with users' kernels
        shutil.copyfile(objects[1], heap)
        shared = ["-bundle", "-bundle_loader", core] if sys.platform == "darwin" else ["-shared"]
        runpath = [] if sys.platform == "darwin" else ["-Wl,-rpath,$ORIGIN"]
        link = [*words("CXX", "c++"), *shared, *objects, "-o", library, *runpath]
        self.execute_command([*link, f"-L{core.parent}", f"-l:{core.name}", "-lpthread"])

    def c_jobs(self, includes, facts, toolkit):
        """csrc/ and the rungs in plain C."""
        numpy_api = "NPY_2_0_API_VERSION"
        command = [*words("CC", "cc"), "-std=c11", "-O2", "-Wall", "-Wextra", "-fPIC", "-fvisibility=hidden"]
        command += [f"-DNPY_TARGET_VERSION={numpy_api}", f"-DNPY_NO_DEPRECATED_API={numpy_api}"]
        command += ["-Icsrc", "-Ikernels", *includes, *facts, *words("CFLAGS")]
        sources = sorted(Path("csrc").rglob("*.c"))
        sources.remove(HOOKS)  # linked with checked kernels
        sources.remove(HEAP)  # linked with users' kernels
        cuda = [source for source in sources if source.match("cuda/*.c") and source.name != "absent.c"]
        hosts = [Path("kernels", row.source) for row in self.rows if row.needs == "HOST"]
        if toolkit:
            command += [f"-I{toolkit.folder_of('cuda_runtime.h')}"]
        else:
            sources = [source for source in sources if source not in cuda]
        for source in sources + hosts:
            quoted = ["-iquote", "csrc/executor/include"] if source in hosts else []
            yield source, self.temp / source.with_suffix(".o"), command + quoted

    def cpu_jobs(self):
        """The kernels for the CPU executor, and their launchers' table."""
        loops = CLANG_LEAVES_LOOPS if accepts(words("CXX", "c++"), *CLANG_LEAVES_LOOPS) else ()
        more = [CPU_KERNELS_OPTIMISATION, *loops, *words("CXXFLAGS")]
        return self.dialect_jobs("cpu", "cpu_launchers", ["-DSMEMKIT_BESIDE_CUDA"], more)

    def checked_jobs(self):
        """The hooks and the kernels for checking; without sanitizers, whose hooks would collide."""
        hooks = [*words("CC", "cc"), "-std=c11", "-O2", "-Wall", "-Wextra", "-fPIC", "-fno-builtin"]
        hooks += ["-Icsrc", "-Ikernels"]
        yield HOOKS, self.temp / "checked/hooks.o", hooks
        yield HEAP, self.temp / "checked/heap.o", hooks
        export = '-DSMEMKIT_EXPORT=__attribute__((visibility("default")))'
        yield from self.dialect_jobs("checked", "smemkit_checked_launchers", [export], [], checked=True)

    def dialect_jobs(self, folder, table, options, more, *, checked=False):
        """The table's kernels, rewritten to the dialect, and their launchers as the table with this name."""
        dialect, flags = load_cuda_source()
        compiler = words("CXX", "c++")
        semantics = flags.compile_flags(partial(accepts, compiler), checked=checked, extra_flags=more)
        command = [*compiler, *options, *semantics, *OUR_KERNELS, "-fPIC", "-fvisibility=hidden"]
        rewritten = self.temp / folder
        command += [f"-I{rewritten}", "-Icsrc/executor/include", "-Icsrc", "-Ikernels"]

        def write(target, text):
            if not target.exists() or target.read_text() != text:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text)

        def rewrite(name, target):
            write(target, dialect.rewrite(Path("kernels", name).read_text(), str(name)))

        for header in Path("kernels").rglob("*.cuh"):
            name = header.relative_to("kernels")
            rewrite(name, rewritten / name)
        prelude, preluded = rewritten / "prelude.h", []
        if precompiles(compiler):
            write(prelude, PRELUDE)
            yield prelude, rewritten / "prelude.h.gch", [*command, *more, "-x", "c++-header"]
            preluded = ["-include", prelude, *PRECOMPILED]
        for row in self.rows:
            if row.needs != "HOST" and row.cpu:
                source = rewritten / Path(row.source).with_suffix(".cpp")
                rewrite(row.source, source)
                quoted = ["-iquote", str(Path("kernels", row.source).parent)]
                yield source, source.with_suffix(".o"), [*command, *preluded, *quoted, *more]
        command += [f"-DSMEMKIT_LAUNCHERS={table}", "-DSMEMKIT_TARGET_CPU", *more]
        yield Path("csrc/launchers.cpp"), self.temp / folder / "launchers.o", command

    def cuda_jobs(self, toolkit, archs, add_ptx):
        """The kernels for GPUs, and their launchers' table; macros name the rows without an object."""
        # -O1 is for the host's part, the launches: nvcc optimises kernels in full with any -O
        command = [toolkit.nvcc, "-std=c++17", "-O1", "-Xfatbin=-compress-all", "-Ikernels"]
        command += ["-Xcompiler=-fPIC,-fvisibility=hidden", *NVCC_UNUSED_RESULT]
        if words("CXX"):
            command += ["-ccbin", words("CXX")[0]]
        absent = set()
        for row in self.rows:
            options = gencode(row.needs, archs, add_ptx) if row.needs != "HOST" else []
            if options:
                source = Path("kernels", row.source)
                yield source, self.temp / "cuda" / Path(row.source).with_suffix(".o"), [*command, *options]
            elif row.needs != "HOST":
                absent.add(row.needs)
        command = [*words("CXX", "c++"), "-std=c++17", "-O2", "-Wall", "-fPIC", "-fvisibility=hidden"]
        command += ["-Icsrc", "-Ikernels", f"-I{toolkit.folder_of('cuda_runtime.h')}"]
        command += [f"-DSMEMKIT_NO_{needs}" for needs in sorted(absent)]
        command += ["-DSMEMKIT_LAUNCHERS=cuda_launchers", *words("CXXFLAGS")]
        yield Path("csrc/launchers.cpp"), self.temp / "cuda/launchers.o", command

    def compile(self, source: Path, target: Path, command: list) -> Path:
        """Compiles a file, unless its object is up to date: same command, and no file that it read has changed."""
        read, record = target.with_suffix(".d"), target.with_suffix(".command")
        command = [*command, "-MD", "-MF", read, "-c", source, "-o", target]
        line = shlex.join(map(str, command))
        if record.exists() and record.read_text() == line and not is_older(target, read):
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        record.unlink(missing_ok=True)
        self.execute_command(command)
        record.write_text(line)
        return target

    def execute_command(self, command: list) -> None:
        line = shlex.join(map(str, command))
        done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.stdout:
            print(done.stdout, end="", flush=True)
        if done.returncode:
            raise SystemExit(f"smemkit: this command failed, and its messages are above:\n{line}")


def main():
    patterns = [
        "csrc/**/*.[ch]",
        "csrc/**/*.cpp",
        "csrc/**/*.def",
        "csrc/executor/include/cuda/**/*",
        "kernels/**/*.*",
    ]
    patterns += ["smemkit/**/*.py*", "tests/**/*.*"]
    found = [file.relative_to(ROOT) for pattern in patterns for file in ROOT.glob(pattern)]
    files = sorted({str(file) for file in found if (ROOT / file).is_file() and "__pycache__" not in file.parts})
    setup(
        packages=[*find_packages(include=["smemkit*"]), *DATA_FOLDERS],
        py_modules=["pytest_smemkit"],
        package_dir=DATA_FOLDERS,
        package_data={
            "smemkit": [
                *("py.typed", "*.pyi", "reference/*.json", "bench/*.cu"),
                *("lab/kernels/*.cu", "lab/*.js", "lab/exercises/*/*.cu"),
            ],
            "smemkit._kernels": ["*.def", "*.h", "*.md", "**/*.cu", "**/*.c", "**/*.cuh"],
            "smemkit._dialect": ["*.h", "include/**/*.h", "include/cuda/*", "include/cuda/std/*"],
        },
        include_package_data=False,
        ext_modules=[Extension("smemkit._core", ["csrc/module/module.c"], depends=files)],
        cmdclass={"build_ext": Build},
    )


if __name__ == "__main__":
    main()
