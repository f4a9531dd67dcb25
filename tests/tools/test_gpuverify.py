"""The tool that checks GPUVerify's tests."""

import gpuverify
import pytest

TEST = """//{expected}
//--blockDim=[64,2] --gridDim=2 -DN={n} --no-inline

__global__ void k(int *p, int x) {{
    __requires(x == 7);
    __requires(x < N);
    __assert(x == 7);
    p[{index}] = threadIdx.x;
}}
"""
OWN = "threadIdx.x + 64 * (threadIdx.y + 2 * blockIdx.x)"


def test_a_test_is_read():
    expected, grid, block, macros = gpuverify.read_test(TEST.format(expected="xfail:X", n=3, index=0))
    assert (expected, grid, block, macros) == (True, (2,), (64, 2), ["-DN=3"])
    assert gpuverify.read_test("//pass\n//--blockDim=2048 --gridDim=1\n")[2] == (1024,)
    assert gpuverify.scalars_of("__requires(n == 13);\n int x = 2 + 1.5;") == ({"n": 13}, [64, 13, 2])


@pytest.mark.parametrize(
    ("index", "n", "verdict"),
    [(OWN, 8, "no faults"), (0, 8, "race WAW"), (OWN, 3, "not run: no arguments satisfy the preconditions")],
)
@pytest.mark.covering(most=2)  # the next test has a race
def test_verdicts(tmp_path, index, n, verdict):
    file = tmp_path / "kernel.cu"
    file.write_text(TEST.format(expected="pass", n=n, index=index))
    assert gpuverify.verdict_of(str(file)) == verdict


def test_constants_may_be_changed_by_the_host(tmp_path):
    file = tmp_path / "kernel.cu"
    file.write_text(
        "//pass\n//--blockDim=8 --gridDim=1\n__constant__ int a[8] = {0, 1, 2, 3, 4, 5, 6, 7};\n"
        "__global__ void k(int *p) { p[a[threadIdx.x]] = threadIdx.x; }\n"
    )
    assert gpuverify.verdict_of(str(file)) == "race WAW"


def test_warnings_are_not_faults_and_what_does_not_run_is_told(tmp_path, capsys):
    results = {
        "a": ("pass", "race WAW (warning)"),
        "b": ("pass", "race WAW, race WAW (warning)"),
        "c": ("fault", "no faults"),
        "d": ("fault", "not run: x"),
        "e": ("fault", "trap"),
    }
    assert list(gpuverify.disagreements(results)) == ["b", "c", "d"]
    gpuverify.print_summary(results, {"c": "nothing to execute"})
    assert "c: expected fault, got no faults; nothing to execute\n" in (shown := capsys.readouterr().out)
    assert shown.endswith("1 of 3 faults are told\n1 of 2 tests without faults pass\n")


def test_a_test_with_a_kernel_that_does_not_compile_was_not_run(tmp_path):
    file = tmp_path / "kernel.cu"
    broken = "__global__ void broken(int *p) { p[0] = no_such_function(1); }\n"
    file.write_text(TEST.format(expected="pass", n=8, index=OWN) + broken)
    assert gpuverify.verdict_of(str(file)).startswith("not run: ")
    file.write_text(TEST.format(expected="pass", n=8, index=0) + broken)
    assert gpuverify.verdict_of(str(file)) == "race WAW"
