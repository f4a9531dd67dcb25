"""The decisions of setup.py, and new rungs, each of which is one file and one row.

The decisions are plain functions, tested with invented drivers and toolkits. The added rungs are built for
real, in a copy of the tree, with the interpreter that runs the tests.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from setup_file import ROOT, build
from setuptools import Distribution

KERNELS = ROOT / "kernels"


TOOLKIT_13 = build.Toolkit(Path("/13/bin/nvcc"), (13, 0), ["75", "80", "86", "87", "89", "90a", "100", "120"])
TOOLKIT_12 = build.Toolkit(Path("/12/bin/nvcc"), (12, 4), ["75", "80", "86", "87", "89", "90a"])
TOOLKIT_12_0 = build.Toolkit(Path("/old/bin/nvcc"), (12, 0), ["75", "80", "86", "87", "89", "90a"])
DRIVER_13 = build.Driver(13000, ["90a"])
DRIVER_12 = build.Driver(12040, ["80"])
NO_DRIVER = "no NVIDIA driver is present (SMEMKIT_CUDA=1 builds CUDA all the same)"
ROWS = build.read_table((KERNELS / "kernels.def").read_text())


# ---- the table --------------------------------------------------------------------------------------------------


def test_every_row_has_its_file_and_every_file_its_row():
    files = {str(file.relative_to(KERNELS)) for file in KERNELS.glob("*/*/*.c*") if file.suffix != ".cuh"}
    assert {row.source for row in ROWS} == files


def test_the_files_that_take_longest_are_kernels():
    assert set(build.LONGEST) <= {row.name for row in ROWS}


def test_read_table_ignores_comments():
    text = "/* KERNEL(op, name, order, needs, cpu)\n */\n"
    text += 'KERNEL(matmul, wgmma, 90, SM_90A, NO_CPU, EVERY, RUNG,\n "")\n'
    assert build.read_table(text) == [build.Row("matmul", "wgmma", 90, "SM_90A", False, "RUNG")]
    assert build.read_table(text)[0].source == "matmul/ladder/90_wgmma.cu"
    assert build.Row("matmul", "sequential", 0, "HOST", True, "RUNG").source == "matmul/ladder/00_sequential.c"
    assert build.Row("reduce", "rows", 0, "ANY", True, "PRODUCTION").source == "reduce/production/rows.cu"


# ---- which GPUs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "driver", "archs", "add_ptx"),
    [
        ("", None, ["90a"], True),
        ("", build.Driver(13000, []), ["90a"], True),
        ("", DRIVER_13, ["90a"], False),
        ("", build.Driver(13000, ["75", "120"]), ["75", "120"], False),
        ("", build.Driver(13000, ["90a", "999"]), ["90a"], True),  # a GPU newer than the toolkit runs the PTX
        ("", build.Driver(13000, ["999"]), [], True),
        ("", build.Driver(13000, ["103"]), [], True),  # newer, though not than sm_120
        ("", build.Driver(13000, ["70", "90a"]), ["90a"], False),  # the PTX is for sm_75 and above
        ("all", DRIVER_12, ["75", "80", "86", "89", "90a", "100", "120"], True),
        ("80;90a", DRIVER_12, ["80", "90a"], True),
        ("sm_90, 8.0 80;", None, ["80", "90a"], True),
        ("100a", None, ["100a"], True),
        ("80;90a-real", None, ["80", "90a"], True),
    ],
)
def test_choose_archs(wanted, driver, archs, add_ptx):
    assert build.choose_archs(wanted, driver, TOOLKIT_13) == (archs, add_ptx)


def test_real_archs_alone_have_no_ptx():
    assert build.choose_archs("80-real;sm_90-real", None, TOOLKIT_13) == (["80", "90a"], False)
    assert build.gencode("ANY", ["80", "90a"], add_ptx=False) == build.gencode("ANY", ["80", "90a"])[:2]
    assert build.gencode("SM_90A", ["90a"], add_ptx=False) == build.gencode("SM_90A", ["90a"])


@pytest.mark.parametrize("wrong", ["70", "80;fast", "1000"])
def test_choose_archs_refuses(wrong):
    with pytest.raises(SystemExit, match=f"SMEMKIT_ARCHS: .*75 80 86.* got '{wrong.split(';')[-1]}'"):
        build.choose_archs(wrong, None, TOOLKIT_13)


@pytest.mark.parametrize(
    ("needs", "archs", "codes"),
    [
        ("ANY", ["80", "90a"], ["sm_80", "sm_90a", "compute_75"]),
        ("ANY", [], ["compute_75"]),
        ("SM_80", ["75", "80", "90a"], ["sm_80", "sm_90a", "compute_80"]),
        ("SM_80", ["75"], []),
        ("SM_90A", ["80", "90a", "100"], ["sm_90a"]),
        ("SM_90A", ["80", "100"], []),
    ],
)
def test_gencode(needs, archs, codes):
    options = build.gencode(needs, archs)
    assert [option.split("code=")[-1] for option in options] == codes
    for option in options:
        virtual, real = re.fullmatch(r"-gencode=arch=compute_(\w+),code=\w+?_(\w+)", option).groups()
        assert virtual == real


# ---- which toolkit ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "driver", "toolkits", "chosen", "because"),
    [
        ("auto", None, [TOOLKIT_13], None, NO_DRIVER),
        ("auto", DRIVER_13, [TOOLKIT_12, TOOLKIT_13], TOOLKIT_12, "an NVIDIA driver is present"),
        ("auto", DRIVER_12, [TOOLKIT_12_0, TOOLKIT_13, TOOLKIT_12], TOOLKIT_12, "an NVIDIA driver is present"),
        ("1", None, [TOOLKIT_12_0, TOOLKIT_13], TOOLKIT_13, "SMEMKIT_CUDA=1"),
        ("0", DRIVER_13, [TOOLKIT_13], None, "SMEMKIT_CUDA=0"),
    ],
)
def test_choose_toolkit(wanted, driver, toolkits, chosen, because):
    assert build.choose_toolkit(wanted, driver, toolkits) == (chosen, because)


def test_choose_toolkit_refuses_other_words():
    with pytest.raises(SystemExit, match="SMEMKIT_CUDA: expected auto, 1 or 0, got 'yes'"):
        build.choose_toolkit("yes", None, [])


@pytest.mark.parametrize(
    ("wanted", "driver", "toolkits", "message"),
    [
        ("1", None, [], r"SMEMKIT_CUDA=1, and no suitable nvcc .* 12\.4 to 13\.x, and set CUDA_HOME"),
        ("auto", DRIVER_12, [TOOLKIT_13], r"driver is present.* /13/bin/nvcc is 13\.0.* 12\.4 to 12\.x"),
        ("1", None, [TOOLKIT_12_0], r"/old/bin/nvcc is 12\.0, which is not suitable"),
    ],
)
def test_missing_toolkit_error_says_what_to_do(wanted, driver, toolkits, message):
    with pytest.raises(build.NoToolkitError, match=message):
        build.choose_toolkit(wanted, driver, toolkits)


def test_compiler_wheels_are_fetched_only_if_useful():
    assert build.wheels_to_fetch("auto", None, []) == []
    assert build.wheels_to_fetch("0", DRIVER_13, []) == []
    assert build.wheels_to_fetch("1", None, [TOOLKIT_12]) == []
    assert build.wheels_to_fetch("1", None, []) == build.COMPILER_WHEELS
    assert build.wheels_to_fetch("auto", DRIVER_13, [TOOLKIT_12_0]) == build.COMPILER_WHEELS
    with pytest.raises(build.NoToolkitError):  # the wheels of CUDA 12 hold no nvcc
        build.wheels_to_fetch("auto", DRIVER_12, [])


@pytest.mark.parametrize("hook", ["get_requires_for_build_wheel", "get_requires_for_build_editable"])
def test_the_build_backend_asks_for_the_compiler_wheels(monkeypatch, hook):
    monkeypatch.setattr(build.build_meta, "get_requires_for_build_wheel", lambda config_settings: ["setuptools"])
    monkeypatch.setattr(build, "find_driver", lambda: None)
    monkeypatch.setattr(build, "nvcc_candidates", lambda: [])
    for wanted, fetched in {"1": build.COMPILER_WHEELS, "0": [], "auto": []}.items():
        monkeypatch.setenv("SMEMKIT_CUDA", wanted)
        assert getattr(build, hook)() == ["setuptools", *fetched]


def test_the_build_backend_has_the_hooks_of_setuptools():
    text = (ROOT / "pyproject.toml").read_text()
    assert 'build-backend = "setup"' in text and 'backend-path = ["."]' in text
    assert all(hasattr(build, name) for name in build.build_meta.__all__)


def fake_nvcc(folder: Path) -> Path:
    folder.mkdir(parents=True)
    nvcc = folder / "nvcc"
    nvcc.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo "Cuda compilation tools, release 12.8, V12.8.93"\n'
        '[ "$1" = --list-gpu-code ] && printf "sm_50\\nsm_75\\nsm_90\\nsm_100\\n"\nexit 0\n'
    )
    nvcc.chmod(0o755)
    return nvcc


def test_nvcc_search_order(tmp_path, monkeypatch):
    home, path = fake_nvcc(tmp_path / "home/bin"), fake_nvcc(tmp_path / "path")
    wheel = fake_nvcc(tmp_path / "nvidia/cu13/bin")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "nvidia", raising=False)
    environ = {"CUDA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path")}
    found = [nvcc for nvcc in build.nvcc_candidates(environ) if tmp_path in nvcc.parents]
    assert found == [home, path, wheel]
    assert home not in build.nvcc_candidates({"PATH": ""})


def test_nvcc_version_is_read(tmp_path):
    nvcc = fake_nvcc(tmp_path / "bin")
    toolkit = build.ask_nvcc(nvcc)
    assert toolkit == build.Toolkit(nvcc, (12, 8), ["75", "90a", "100"])
    with pytest.raises(SystemExit, match=r"has no cuda_runtime\.h"):
        toolkit.folder_of("cuda_runtime.h")
    for folder in "targets/x86_64-linux/lib", "lib", "lib64":
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "libcudart_static.a").touch()
        assert toolkit.folder_of("libcudart_static.a") == (tmp_path / folder).resolve()


def test_rewritten_headers_are_updated_only_if_changed(tmp_path, monkeypatch):
    """A rewritten .cuh keeps its modification time while its text stays the same."""

    class Dialect:
        text = "first"

        def rewrite(self, source, name):
            return self.text

        def compile_flags(self, accepts, **options):
            return []

    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(build, "load_cuda_source", lambda: (Dialect(), Dialect()))
    job = build.Build(Distribution())
    job.temp, job.rows = tmp_path, []
    list(job.dialect_jobs("cpu", "table", [], []))
    headers = list(tmp_path.glob("cpu/*/*.cuh"))
    for header in headers:
        os.utime(header, (1000, 1000))
    list(job.dialect_jobs("cpu", "table", [], []))
    assert headers and all(header.stat().st_mtime == 1000 for header in headers)  # not written again
    Dialect.text = "second"
    list(job.dialect_jobs("cpu", "table", [], []))
    assert all(header.stat().st_mtime > 1000 for header in headers)


def test_objects_are_rebuilt_if_dependencies_changed(tmp_path):
    job, ran = build.Build(Distribution()), []
    header, source, target = tmp_path / "a b.h", tmp_path / "one.c", tmp_path / "out" / "one.o"
    header.write_text("")
    source.write_text('#include "a b.h"\n')
    execute = job.execute_command
    job.execute_command = lambda command: [ran.append(command), execute(command)]

    def runs():
        before = len(ran)
        job.compile(source, target, ["cc"])
        return len(ran) - before

    assert [runs(), runs()] == [1, 0]
    for path in (header, source):
        os.utime(path, (time.time() + 5, time.time() + 5))
        os.utime(target, (time.time(), time.time()))
        assert runs() == 1
        os.utime(path, (1000, 1000))
        assert runs() == 0
    header.rename(tmp_path / "gone.h")
    with pytest.raises(SystemExit, match="this command failed"):
        runs()


@pytest.mark.skipif(not shutil.which("g++") or not build.precompiles(["g++"]), reason="no headers are precompiled")
def test_objects_are_rebuilt_if_a_precompiled_header_changed(tmp_path):
    job, header, prelude = build.Build(Distribution()), tmp_path / "a.h", tmp_path / "prelude.h"
    header.write_text("static const int a = 1;\n")
    prelude.write_text('#include "a.h"\n')
    source, target = tmp_path / "one.cpp", tmp_path / "one.o"
    source.write_text("int f() { return a; }\n")

    job.compile(prelude, tmp_path / "prelude.h.gch", ["g++", "-x", "c++-header"])
    job.compile(source, target, ["g++", "-Winvalid-pch", "-Werror", "-include", prelude, *build.PRECOMPILED])
    assert not build.is_older(target, target.with_suffix(".d"))
    os.utime(header, (time.time() + 5, time.time() + 5))
    assert build.is_older(target, target.with_suffix(".d"))


@pytest.mark.skipif(not shutil.which("ccache"), reason="there is no ccache")
@pytest.mark.skipif(not shutil.which("g++") or not build.precompiles(["g++"]), reason="no headers are precompiled")
def test_ccache_keeps_what_is_compiled_with_a_precompiled_header(tmp_path, monkeypatch):
    monkeypatch.setenv("CCACHE_SLOPPINESS", "locale")
    assert build.ccache_settings()["CCACHE_SLOPPINESS"].startswith("locale,")  # the user's
    cache = {"CCACHE_DIR": str(tmp_path / "cache"), "CCACHE_BASEDIR": str(tmp_path)}
    for name, value in (build.ccache_settings() | cache).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("CCACHE_NOHASHDIR", "1")
    monkeypatch.delenv("CCACHE_DISABLE", raising=False)

    def hits():
        counts = subprocess.run(["ccache", "--print-stats"], check=True, capture_output=True, text=True).stdout
        return int(re.search(r"direct_cache_hit\s+(\d+)", counts)[1])

    job = build.Build(Distribution())
    for folder in tmp_path / "one", tmp_path / "two":
        folder.mkdir()
        (folder / "prelude.h").write_text("static const int a = 1;\n")
        (folder / "f.cpp").write_text("int f() { return a; }\n")
        monkeypatch.chdir(folder)
        compiler, prelude = ["ccache", "g++"], folder / "prelude.h"
        job.compile(prelude, folder / "prelude.h.gch", [*compiler, "-x", "c++-header"])
        job.compile(folder / "f.cpp", folder / "f.o", [*compiler, "-include", prelude, *build.PRECOMPILED])
    assert hits() == 2
    assert str(folder) in (folder / "f.d").read_text()


@pytest.mark.parametrize("newer", [False, True])
def test_other_undefined_behaviour_is_reported_by_a_sanitizer(newer):
    """gcc before 13 can trap only for all checks of UndefinedBehaviorSanitizer together."""

    def accepts(flag):
        return flag == "-fsanitize-trap=return" and newer

    flags = build.load_cuda_source()[1].compile_flags
    every = "-fsanitize-undefined-trap-on-error"
    assert (every in flags(accepts)) != newer
    assert every not in flags(accepts, extra_flags=["-fsanitize=address,undefined", "-O1"])
    assert ("-fsanitize-trap=return" in flags(accepts)) == newer


@pytest.mark.parametrize(("name", "precompiles"), [("g++", True), ("clang++", False)])
def test_headers_are_precompiled_for_gcc(name, precompiles):
    if not shutil.which(name):
        pytest.skip(f"there is no {name}")
    compiler = [name]
    if name == "g++" and build.accepts(compiler, "-fsanitize=array-bounds"):
        pytest.skip("g++ is clang")
    assert build.precompiles(compiler) == precompiles


def test_numpys_headers_have_the_same_name_in_every_build(tmp_path):
    for _ in range(2):  # the second finds the link of the first
        *_, numpy = build.find_headers(tmp_path / "build")
        assert (Path(numpy.removeprefix("-I")) / "numpy" / "arrayobject.h").is_file()
        assert Path(numpy.removeprefix("-I")).parent == tmp_path / "build"


def test_missing_prerequisites_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(build.sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(SystemExit, match=r"Python\.h is missing; install python3-dev \(Debian"):
        build.find_headers(tmp_path)
    monkeypatch.setenv("CXX", "no-such-compiler -O1")
    with pytest.raises(SystemExit, match="no compiler 'no-such-compiler'"):
        build.find_headers(tmp_path)


# ---- one file and one row ---------------------------------------------------------------------------------------

ADDED_RUNG = """\
// Reverse an array without shared memory. Launch: blocks of 128 threads, one per element.
#include <cuda_runtime.h>

#include "../../common/dispatch.cuh"
#include "../../common/grid.cuh"
#include "kernels.h"

constexpr int BLOCK = 128;

template <class T>
__global__ void reverse_scratch(const T *x, T *out, int64_t n)
{
    const int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (i < n)
        out[n - 1 - i] = x[i];
}

cudaError_t launch_reverse_scratch(const reverse_args *args, cudaStream_t stream)
{
    return dispatch_size(args->element_size, [&](auto zero) {
        using T = decltype(zero);

        reverse_scratch<T><<<(unsigned)ceil_div(args->n, BLOCK), BLOCK, 0, stream>>>((const T *)args->x,
                                                                                     (T *)args->out, args->n);
        return cudaGetLastError();
    });
}
"""
# writes four megabytes past the end of its buffer, where nothing is allocated
OUT_OF_BOUNDS_RUNG = ADDED_RUNG.replace("scratch", "wild").replace("out[n - 1 - i]", "out[n - 1 - i + (1 << 20)]")
ROW = 'KERNEL(reverse, {}, {}, ANY, CPU, FLOAT32 | INT32, NONE, NONE, RUNG, 0,\n       "added by a test")\n'


@pytest.fixture(scope="module")
def tree_with_added_rungs(tmp_path_factory):
    """A copy of the tree with two more rungs, built in place. ccache has most of it, if it compiled smemkit."""
    tree = tmp_path_factory.mktemp("longer") / "tree"
    built = shutil.ignore_patterns(
        ".git", "build", "dist", "*.so", "*.egg-info", "_kernels", "_dialect", ".*cache"
    )
    shutil.copytree(ROOT, tree, ignore=built)
    for order, name, source in (91, "scratch", ADDED_RUNG), (92, "wild", OUT_OF_BOUNDS_RUNG):
        (tree / f"kernels/reverse/ladder/{order}_{name}.cu").write_text(source)
        with (tree / "kernels/kernels.def").open("a") as table:
            table.write(ROW.format(name, order))
    others = ("LD_PRELOAD", "CFLAGS", "CXXFLAGS", "LDFLAGS")
    environ = {name: value for name, value in os.environ.items() if name not in others}
    # the tree's folder is another one in each run, and paths in it are part of what ccache compares otherwise
    environ |= {"CCACHE_BASEDIR": str(tree), "CCACHE_NOHASHDIR": "1", "SMEMKIT_CUDA": "0"}
    command = [sys.executable, "setup.py", "-q", "egg_info", "build_ext", "--inplace"]
    subprocess.run(command, cwd=tree, env=environ, check=True)
    return tree


def run_in(tree: Path, *arguments: str) -> subprocess.CompletedProcess:
    """Runs Python with the tree's smemkit in front of any other."""
    environ = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    environ |= {"PYTHONPATH": str(tree), "SMEMKIT_DEVICE": "cpu"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=tree.parent, env=environ, capture_output=True, text=True, timeout=300
    )


@pytest.mark.slow
@pytest.mark.xdist_group("added rungs")  # one process builds the tree
def test_a_new_rung_is_one_file_and_one_row(tree_with_added_rungs):
    script = f"""
import numpy, smemkit
assert smemkit.__file__.startswith({str(tree_with_added_rungs)!r}), smemkit.__file__
assert "scratch" in [kernel.name for kernel in smemkit.kernels("reverse")]
assert smemkit.source("reverse", "scratch") == {ADDED_RUNG!r}
x = numpy.arange(1000, dtype=numpy.float32)
numpy.testing.assert_array_equal(smemkit.reverse(x, kernel="scratch"), x[::-1])
"""
    done = run_in(tree_with_added_rungs, "-c", script)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.xdist_group("added rungs")  # one process builds the tree
def test_a_new_rung_is_tested_without_a_new_test(tree_with_added_rungs):
    this = tree_with_added_rungs / "tests/test_build.py"
    # one process: each would collect all tests, which takes longer than to run these
    options = ["-q", "-n0", "-p", "no:cacheprovider", "-k", "scratch", f"--ignore={this}"]
    done = run_in(tree_with_added_rungs, "-m", "pytest", *options, str(tree_with_added_rungs / "tests"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^[1-9]\d* passed", done.stdout, re.MULTILINE), done.stdout


@pytest.mark.slow
@pytest.mark.xdist_group("added rungs")  # one process builds the tree
def test_a_rung_that_writes_out_of_bounds_raises(tree_with_added_rungs):
    script = """
import numpy, smemkit
x = numpy.arange(1000, dtype=numpy.float32)
try:
    smemkit.reverse(x, kernel="wild")
except smemkit.Error as error:
    print("raised", error)
numpy.testing.assert_array_equal(smemkit.reverse(x), x[::-1])
print("goes on")
"""
    done = run_in(tree_with_added_rungs, "-c", script)
    assert done.returncode == 0, done.stderr
    assert re.search(r"raised .+\ngoes on", done.stdout, re.DOTALL), done.stdout
