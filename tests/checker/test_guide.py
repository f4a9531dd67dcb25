"""notebooks/checking.md: its examples give the results that it shows, and it lists every kind of fault. The
command `smemkit check`, with the compiler and the checker."""

import json
import re
import shlex

import numpy as np
import pytest
from cases import ROOT, run_python

import smemkit
from smemkit.__main__ import main
from smemkit.checker.faults import FAULT_TITLES

GUIDE = (ROOT / "notebooks" / "checking.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"^```python\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
COMMANDS = re.findall(r"smemkit (check (?:halo|kernels/halo)\.cu [^`\n]*)", GUIDE)

RACING = """\
#include <cstdio>

__global__ void halo(const float *x, float *y, int n)
{
    __shared__ float s[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    s[threadIdx.x] = i < n ? x[i] : 0;
    if (i < n && threadIdx.x > 0)
        y[i] = s[threadIdx.x] + s[threadIdx.x - 1];
}

int main() { printf("of no interest\\n"); }
"""
READS = 1 + RACING.split("\n").index("        y[i] = s[threadIdx.x] + s[threadIdx.x - 1];")
RIGHT = RACING.replace("    if (i < n &&", "    __syncthreads();\n    if (i < n &&")


@pytest.fixture
def halo(tmp_path, monkeypatch):
    """A function that writes halo.cu to the guide's paths. The working directory is temporary."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernels").mkdir()

    def write(text):
        for path in (tmp_path / "halo.cu", tmp_path / "kernels" / "halo.cu"):
            path.write_text(text)
        return "halo.cu"

    return write


def test_guide_lists_every_fault_kind():
    for kind in FAULT_TITLES:
        assert f"| `{kind}`" in GUIDE


@pytest.mark.parametrize(("source", "status"), [(RACING, 1), (RIGHT, 0)])
def test_guide_commands(halo, capsys, source, status):
    halo(source)
    assert COMMANDS
    for command in COMMANDS:
        assert main(shlex.split(command)) == status
        assert ("race (RAW" in capsys.readouterr().out) == bool(status)


def test_guide_notebook_cells(capsys):
    names = {}
    exec(PYTHON[0], names)
    assert {fault.kind for fault in names["report"].faults} == {"race"}
    assert {fault.hazard for fault in names["report"].faults} == {"RAW"}


@pytest.mark.parametrize(("source", "status"), [(RACING, 1), (RIGHT, 0)])
@pytest.mark.covering(most=1)
def test_guide_pytest_example(halo, tmp_path, source, status):
    halo(source)
    (tmp_path / "test_kernels.py").write_text(f"import os\nos.chdir({str(tmp_path)!r})\n" + PYTHON[1])
    command = "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path / "test_kernels.py")
    done = run_python(*command, timeout=300, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")  # plugins take long to import
    assert done.returncode == status, done.stdout
    assert ("Put __sync" in done.stdout) == bool(status)


# ---- the command, with the compiler and the checker ----

LAUNCH = ["--grid", "4", "--block", "256", "--arg", "float[1000]", "--arg", "float[1000]=zeros", "--arg", "1000"]


def test_race_exits_with_1(halo, capsys):
    assert main(["check", halo(RACING), *LAUNCH, "--json", "-"]) == 1
    report = json.loads(capsys.readouterr().out)
    fault = report["launches"][0]["faults"][0]
    assert (fault["kind"], fault["hazard"], fault["line"]) == ("race", "RAW", READS)
    assert fault["file"].endswith("halo.cu")
    assert fault["text"].strip() == RACING.split("\n")[READS - 1].strip()


def test_the_report_has_the_files_lines(halo, capsys):
    assert main(["check", halo(RACING), *LAUNCH]) == 1
    out = capsys.readouterr().out
    assert f"▸ {READS} │ " in out or f"▸  {READS} │ " in out
    assert "s[threadIdx.x] = i < n ? x[i] : 0;" in out


def test_correct_kernel_exits_with_0(halo, capsys):
    assert main(["check", halo(RIGHT), *LAUNCH]) == 0
    assert capsys.readouterr().out.startswith("✓ no faults")


@pytest.mark.parametrize(
    ("source", "arguments", "message"),
    [
        (RIGHT.replace("int i =", "int i = z +"), LAUNCH, "'z'"),
        (RIGHT, LAUNCH[:-2], "expected 3 arguments (x, y, n), got 2"),
        (RIGHT, [*LAUNCH[:-1], "0.5"], "n: expected int32 (int n), got float 0.5"),
        (RIGHT, [*LAUNCH, "--kernel", "nope"], "nope"),
        (RIGHT, [*LAUNCH, "--option", "-fplugin=x"], "-fplugin=x"),
    ],
)
def test_launch_errors_exit_with_2(halo, capsys, source, arguments, message):
    assert main(["check", halo(source), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_check_of_an_operation(capsys):
    line = [
        "check",
        "--op",
        "transpose",
        "--kernel",
        "unpadded",
        "--shape",
        "64,64",
        "--tile",
        "32",
        "--json",
        "-",
    ]
    assert main(line) == 0
    launch = json.loads(capsys.readouterr().out)["launches"][0]
    assert max(line["degree"] for line in launch["lines"]) == 32


def test_a_check_changes_no_array(halo):
    kernel = smemkit.Kernel(RIGHT)
    y = np.zeros(1000, np.float32)
    assert smemkit.check(kernel[4, 256], np.ones(1000, np.float32), y, 1000).ok
    assert not y.any()
