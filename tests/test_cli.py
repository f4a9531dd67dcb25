"""The command line: its output, files and exit status; and that it checks what it measures."""

import json
import sys
from functools import partial

import numpy as np
import pytest
from cases import ROOT, run_python

import smemkit
from smemkit import demo, ops
from smemkit.__main__ import main
from smemkit.bench import suites
from smemkit.bench.rows import Row
from smemkit.bench.suites import SIZES, Run
from smemkit.table.kernel_table import ladder_of

FIELDS = [  # of a reference file's rows, a public format
    *(
        "suite",
        "op",
        "case",
        "dtype",
        "shape",
        "axis",
        "axes",
        "precision",
        "kernel",
        "cold",
        "us",
        "unit",
        "value",
    ),
    *("peers", "ratio", "ceiling_fraction", "error", "peer_error"),
]
ENVIRONMENT = {"gpu", "driver", "cuda", "smemkit", "commit", "date", "cpu", "peers", "python", "failures"}


def printed(capsys):
    """The printed output as one line."""
    return " ".join(capsys.readouterr().out.split())


def test_info(capsys):
    assert main(["info"]) == 0
    out = printed(capsys)
    for word in (smemkit.__version__, np.__version__, "executor", "default device", "threads per block"):
        assert word in out
    assert ("no CUDA device" in out) != smemkit.is_available()


def test_kernels(capsys):
    assert main(["kernels"]) == 0
    out = printed(capsys)
    for row in smemkit.kernels():
        assert f" {row.name} {row.needs} " in out


def test_kernels_of_one_op(capsys):
    assert main(["kernels", "reverse"]) == 0
    out = printed(capsys)
    assert "carved" in out
    assert "tiled" not in out


def test_kernels_as_markdown(capsys):
    assert main(["kernels", "--markdown"]) == 0
    assert capsys.readouterr().out == (ROOT / "kernels" / "README.md").read_text()


def test_demo(device, capsys):
    assert main(["demo", "--device", device]) == 0
    text = capsys.readouterr().out
    assert len(text.splitlines()) <= 48 or device != "cpu"  # two screens
    out, _, report = " ".join(text.split()).partition("A kernel with mistakes")
    assert "✗" not in out
    assert "the executor's times, not a GPU's" in out or device != "cpu"
    assert out.count("✓") == 4
    assert "race (RAW)" in report and "pad the row to 33" in report
    for op in SIZES:
        on_gpus = (row for row in ladder_of(op, "float32") if row.needs != "host")
        recorded = [row for row in on_gpus if "float32" in row.recorded_dtypes]
        assert len(recorded) > 4 and all(row.name in out for row in recorded)


@pytest.mark.parametrize(("op", "fault"), [("transpose", np.nan), ("sum", np.nan), ("matmul", 0), ("reverse", 0)])
@pytest.mark.covering(most=2)
def test_demo_finds_a_wrong_result(capsys, monkeypatch, op, fault):
    right = getattr(ops, op)
    monkeypatch.setattr(ops, op, lambda *args, **kw: right(*args, **kw) * fault)
    monkeypatch.setattr("smemkit.demo.BIG", {})  # no ladders
    assert main(["demo", "--device", "cpu"]) == 1
    assert printed(capsys).partition("A kernel with mistakes")[0].count("✗") == 1


def test_demo_without_a_compiler_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setattr("smemkit.demo.BIG", {})
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert main(["demo", "--device", "cpu"]) == 0
    assert "pip install 'smemkit[compiler]'" in printed(capsys)


def test_interrupting_an_experiment_prints_one_line(capsys, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("smemkit.lab.command.run", interrupted)
    assert main(["lab", "banks"]) == 130
    assert capsys.readouterr().err == "smemkit: interrupted\n"


def test_demo_fails_if_the_checker_finds_nothing(capsys, monkeypatch):
    monkeypatch.setattr(
        "smemkit.demo.FAULTY_KERNEL", demo.FAULTY_KERNEL.replace("    y[", "    __syncthreads();\n    y[")
    )
    monkeypatch.setattr("smemkit.demo.BIG", {})
    assert main(["demo", "--device", "cpu"]) == 1


def measure_shortly(measure, *args, max_seconds, **work):
    return measure(*args, max_seconds=0.01, **work)


def small_executor_suite(run):
    """The executor's suite with small cases."""
    cases = (("matmul", [20, 20, 20], "tiled"), ("reduce", [1000], "tree"), ("transpose", [32, 32], "padded"))
    for op, shape, kernel in cases:
        yield op, partial(run.executor_row, Row("executor", op, "small", shape=shape, kernel=kernel), {})


@pytest.mark.parametrize("small", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_bench(tmp_path, capsys, monkeypatch, small):
    if small:
        monkeypatch.setattr(Run, "executor", small_executor_suite)
        monkeypatch.setattr(suites, "measure_host", partial(measure_shortly, suites.measure_host))
    path = tmp_path / "new" / "report.json"
    assert main(["bench", "executor", "--quick", "--device", "cpu", "--json", str(path)]) == 0
    report = json.loads(path.read_text())
    assert set(report) == {"environment", "rows"}
    assert set(report["environment"]) >= ENVIRONMENT
    assert report["environment"]["failures"] == []
    assert [row["op"] for row in report["rows"]] == ["matmul", "reduce", "transpose"]
    for row in report["rows"]:
        assert list(row) == FIELDS
        assert row["suite"] == "executor"
        assert row["us"] > 0
        assert row["ratio"] == pytest.approx(min(row["peers"].values()) / row["us"])
    assert "executor: the times of the CPU device, not a GPU's" in printed(capsys)


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda:0"], indirect=True)
def test_bench_on_a_gpu(device, tmp_path):
    path = tmp_path / "report.json"
    assert main(["bench", "reduce", "transfer", "call", "--quick", "--device", device, "--json", str(path)]) == 0
    report = json.loads(path.read_text())
    rows = report["rows"]
    assert report["environment"]["failures"] == []
    assert report["environment"]["ceilings"]["fp32"] > 1e12
    assert {row["suite"] for row in rows} == {"reduce", "transfer", "call"}
    assert all(list(row) == FIELDS for row in rows)


@pytest.mark.parametrize(("op", "n", "shape"), [("reduce", "1000", [1000]), ("transpose", "40,30", [40, 30])])
@pytest.mark.slow
def test_ladder(tmp_path, capsys, op, n, shape):
    path = tmp_path / "ladder.json"
    assert main(["ladder", op, "--n", n, "--device", "cpu", "--json", str(path)]) == 0
    content, out = json.loads(path.read_text()), printed(capsys)
    assert (content["op"], content["shape"]) == (op, shape)
    for rung in content["rungs"]:
        assert f" {rung['name']} " in out and rung["idea"] in out
    assert main(["ladder", op, "--n", n, "--device", "cpu", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "smemkit.ladder"


def test_ladder_plot(tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(sys.modules["smemkit.ladder"], "SECONDS", 0.001)
    path = tmp_path / "ladder.png"
    assert main(["ladder", "matmul", "--n", "20,30,40", "--device", "cpu", "--plot", str(path)]) == 0
    assert path.read_bytes().startswith(b"\x89PNG")


def test_bench_plot(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(Run, "executor", small_executor_suite)
    path = tmp_path / "bench.png"
    assert main(["bench", "executor", "--quick", "--device", "cpu", "--plot", str(path)]) == 0
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("fault", [0, np.nan])
def test_bench_finds_a_wrong_result(tmp_path, capsys, monkeypatch, fault):
    right = ops.transpose
    monkeypatch.setattr(ops, "transpose", lambda *args, **kw: right(*args, **kw) * np.float32(fault))
    monkeypatch.setattr(Run, "executor", small_executor_suite)
    path = tmp_path / "report.json"
    assert main(["bench", "executor", "--quick", "--device", "cpu", "--json", str(path)]) == 1
    report = json.loads(path.read_text())
    assert [row["op"] for row in report["rows"]] == ["matmul", "reduce"]
    (failure,) = report["environment"]["failures"]
    assert failure.startswith("transpose: ArithmeticError: relative error")
    assert "1 failed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["kernels", "nope"], "smemkit: op: expected one of matmul, "),
        (["demo", "--device", "gpu"], "smemkit: device: expected 'cpu', 'cuda' or 'cuda:N', got 'gpu'"),
        (["demo", "--device", "cuda:99"], "smemkit: device: 'cuda:99' is not available: "),
        (["bench", "matmul", "--device", "cpu"], "smemkit: bench: matmul need"),
        (
            ["ladder", "reduce", "--n", "many"],
            "smemkit: --n: expected integers separated by commas, got 'many'",
        ),
        (["ladder", "reduce", "--n", "1,2"], "smemkit: shape: expected a positive integer, got [1, 2]"),
        (["ladder", "reduce", "--dtype", "nope"], "smemkit: --dtype: data type 'nope' not understood"),
    ],
    ids=" ".join,
)
def test_runtime_errors_exit_with_2(capsys, arguments, message):
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: command"),
        (["nope"], "invalid choice: 'nope'"),
        (["bench", "nope"], "suite: expected some of matmul, "),
        (["bench", "--save", "--device", "cpu"], "--save: expected all suites, on a GPU, without --quick"),
        (["bench", "--save", "--quick"], "--save: expected all suites, on a GPU, without --quick"),
    ],
    ids=lambda value: " ".join(value) or "nothing" if isinstance(value, list) else "",
)
def test_usage_errors_exit_with_2(capsys, arguments, message):
    with pytest.raises(SystemExit) as exit:
        main(arguments)
    assert exit.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_python_m_smemkit():
    done = run_python("-m", "smemkit", "kernels", "nope")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("smemkit: op: expected one of ")
