"""The table is the only list of kernels: files, README, sources and launches agree with it."""

import subprocess

import numpy as np
import pytest
from cases import DTYPES, ROOT, each_kernel, expect_launches, run_python, small_problem
from numpy.testing import assert_array_equal

import smemkit
from smemkit.bench.recorded import dtype_set, recorded_kernels
from smemkit.measure import records
from smemkit.table.kernel_table import ladder_of, reading_order

ROWS = smemkit.kernels()
OPS = list(dict.fromkeys(row.op for row in ROWS))
OPERATIONS = [op for op in OPS if op != "ceiling"]  # test_ceilings.py launches the kernels of that one


def each_row(test):
    return pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.op}-{row.name}")(test)


def each_op(test):
    return pytest.mark.parametrize("op", OPS)(test)


def each_operation(test):
    return pytest.mark.parametrize("op", OPERATIONS)(test)


@each_row
def test_every_row_has_its_file(row):
    text = (ROOT / "kernels" / row.file).read_text()
    assert f"launch_{row.op}_{row.name}(" in text
    assert smemkit.source(row.op, row.name) == text


@each_row
def test_every_row_is_complete(row):
    suffix = "c" if row.needs == "host" else "cu"
    location = f"production/{row.name}" if row.role == "production" else f"ladder/{row.order:02}_{row.name}"
    assert row.file == f"{row.op}/{location}.{suffix}"
    assert row.role in ("rung", "production", "ceiling")
    assert row.needs in ("host", "any", "sm_80", "sm_90a")
    assert row.summary
    assert row.dtypes
    assert all(np.dtype(dtype).name == dtype for dtype in row.dtypes)
    assert len(set(row.sizes)) == len(row.sizes)
    assert len(set(row.pads)) == len(row.pads)
    assert not (row.default and row.role == "ceiling")
    assert row.role != "production" or row.order == 0
    assert "cpu" in row.devices or row.needs != "host"


@each_row
def test_variants_are_all_combinations_with_the_default_first(row):
    first = {row.size_name: row.sizes[:1], "pad": row.pads[:1]}
    assert row.variants[0] == {name: value for name, (value,) in ((n, v) for n, v in first.items() if v)}
    assert len(row.variants) == max(1, len(row.sizes)) * max(1, len(row.pads))


@each_operation
def test_every_op_has_one_default(op):
    assert [row.label for row in smemkit.kernels(op)].count("default") == 1
    assert [row.default for row in smemkit.kernels(op)].count(True) == 1


@each_op
def test_a_ladder_is_in_order(op):
    ladder = ladder_of(op)
    assert [row.order for row in ladder] == sorted({row.order for row in ladder})
    rest = smemkit.kernels(op)[len(ladder) :]
    assert [*ladder, *rest] == smemkit.kernels(op)
    assert all(row.op == op for row in ladder)
    assert all(row.role == "production" for row in rest)


@each_operation
def test_the_default_runs_wherever_smemkit_runs(op):
    (default,) = (row for row in smemkit.kernels(op) if row.default)
    assert "cpu" in default.devices
    assert default.needs == "any"


def test_all_kernels_are_those_of_all_ops():
    assert [row for op in OPS for row in smemkit.kernels(op)] == ROWS


def test_the_readme_is_generated():
    done = run_python("-m", "smemkit", "kernels", "--markdown")
    assert done.returncode == 0, done.stderr
    assert done.stdout == reading_order() == (ROOT / "kernels" / "README.md").read_text()


def test_recorded_kernels_are_those_of_the_reference_files():
    data = sorted(map(str, (ROOT / "tests" / "ops").glob("*-nvidia-*.json")))
    done = run_python("-m", "smemkit", "bench", "--recorded", "--data", *data)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (ROOT / "kernels" / "recorded.def").read_text()
    recorded = {(row.op, row.name): row.recorded_dtypes for row in smemkit.kernels() if row.recorded}
    assert {("matmul", "tiled"), ("reduce", "rows")} <= recorded.keys()
    for row in smemkit.kernels():  # what the benchmark does not measure
        if row.needs == "host" or row.op in ("convert", "reverse"):
            assert recorded[row.op, row.name] == row.dtypes


def test_a_kernel_is_recorded_in_the_dtypes_of_its_rows():
    row = {"suite": "matmul", "op": "matmul", "kernel": "naive", "dtype": "int8", "peers": {"torch": 1.0}}
    graded = {"suite": "planner", "op": "max", "kernel": None, "dtype": "float32", "peers": {"rows": 1.0}}
    unnamed, on_cpu = row | {"kernel": None, "dtype": "int16"}, row | {"suite": "executor", "kernel": "tiled"}
    reports = [{"rows": [row, row | {"dtype": "float64"}, unnamed]}, {"rows": [graded, on_cpu]}]
    found = recorded_kernels(reports)
    assert found == {("matmul", "naive"): {"int8", "float64"}, ("reduce", "rows"): {"float32"}}
    assert dtype_set(("int8", "float32", "float64"), found["matmul", "naive"]) == "INT8 | FLOAT64"


RULE = """
#include "base/table.h"
#include <stdio.h>
#define TAKEN(op, name, dtypes) kernel_is_eligible(ROW_##op##_##name, dtypes)
int main(void)
{
    printf("%d%d%d ", TAKEN(matmul, simt, FLOAT32), TAKEN(matmul, simt, FLOAT64), TAKEN(matmul, simt, INT8));
    printf("%d%d%d ", TAKEN(matmul, tiny, FLOAT32), TAKEN(matmul, tiny, INT8), TAKEN(matmul, matvec, INT8));
    printf("%d%d%d ", TAKEN(matmul, tiled, FLOAT32), TAKEN(matmul, tiled, INT8), TAKEN(matmul, sequential, INT8));
    printf("%d%d ", TAKEN(transpose, in_place, UINT8), TAKEN(convert, strided, INT8));
    printf("%d%d%d\\n", TAKEN(reduce, rowwise, FLOAT32), TAKEN(reduce, rowwise, FLOAT64 | INT8),
           TAKEN(reduce, rowwise, INT16));
    return 0;
}
"""


@pytest.mark.parametrize("in_place", ["", "RECORDED(transpose, in_place, FLOAT32)\n"], ids=["unknown", "recorded"])
def test_the_kernels_that_may_be_taken_on_a_gpu(tmp_path, in_place):
    rows = "RECORDED(matmul, simt, FLOAT32 | FLOAT64)\nRECORDED(matmul, tiny, FLOAT64)\n" + in_place
    rows += "RECORDED(transpose, tiles, UINT8 | FLOAT32)\n"
    rows += "RECORDED(reduce, columns, FLOAT32)\nRECORDED(reduce, rowwise, INT8)\nRECORDED(matmul, naive, INT16)\n"
    (tmp_path / "recorded.def").write_text(rows)
    (tmp_path / "rule.c").write_text(RULE)
    folders = [f"-I{folder}" for folder in (tmp_path, ROOT / "csrc", ROOT / "kernels")]
    sources = [tmp_path / "rule.c", ROOT / "csrc" / "base" / "table.c"]
    subprocess.run(["cc", "-std=c11", *folders, *sources, "-o", tmp_path / "rule"], check=True)
    taken = subprocess.run([tmp_path / "rule"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    assert taken[0] == "111"  # simt: recorded in float32 and float64; in int8 nothing of matmul is known
    assert taken[1] == "010"  # tiny in float32, where simt is right; matvec without a record
    assert taken[2] == "011"  # the default rung in float32, where simt is right, and int8; a host kernel
    assert taken[3] == f"{int(not in_place)}1"  # alone in its work, until it is recorded in float32 only
    assert taken[4] == "011"  # rowwise in float32, where columns is right; in one of two dtypes; where nothing is


def test_readme_results_are_those_of_the_reference_file():
    done = run_python("-m", "smemkit", "bench", "--readme")
    assert done.returncode == 0, done.stderr
    begin, end = "<!-- results: python -m smemkit bench --readme -->\n\n", "\n<!-- end of results -->"
    assert done.stdout == (ROOT / "README.md").read_text().partition(begin)[2].partition(end)[0]


@each_row
def test_the_readme_names_every_row(row):
    assert f"| [{row.name}]({row.file}) | " in reading_order()


def test_unknown_ops_and_kernels_are_rejected():
    ops = ", ".join(OPS)
    for call in (lambda: smemkit.kernels("nope"), lambda: smemkit.source("nope", "tiled")):
        with pytest.raises(ValueError, match=f"op: expected one of {ops}; got 'nope'"):
            call()
    names = ", ".join(row.name for row in smemkit.kernels("matmul"))
    with pytest.raises(ValueError, match=f"name: expected one of matmul's kernels, {names}; got 'nope'"):
        smemkit.source("matmul", "nope")
    with pytest.raises(ValueError, match=f"op: expected one of {ops}; got None"):
        smemkit.source(None, "naive")


def every_kernel(test):
    """Runs a test on each kernel of each operation."""
    cases = [case for op in OPERATIONS for case in each_kernel(op, dtypes=DTYPES).args[1]]
    ids = [f"{case.values[1].row.op}-{case.id}" for case in cases]
    return pytest.mark.parametrize(("device", "kernel"), cases, ids=ids, indirect=True)(test)


@every_kernel
@pytest.mark.covering(1)
def test_a_call_is_a_launch(device, kernel):
    operands, expected = small_problem(kernel.row.op, kernel.dtype)
    with expect_launches(1):
        result = kernel(*operands, device=device)
    assert_array_equal(result, operands[0] if kernel.row.role == "ceiling" else expected)


def test_deprecated_properties_warn():
    copy = smemkit.kernels("transpose")[1]
    with pytest.warns(DeprecationWarning, match="choice: it is now called default"):
        assert not copy.choice
    with pytest.warns(DeprecationWarning, match='ceiling: it is now role == "ceiling"'):
        assert copy.ceiling


def test_deprecated_kernel_names_warn():
    x = np.arange(24).reshape(2, 3, 4)
    with pytest.warns(DeprecationWarning, match="kernel: 'runs' is now called 'segments'"):
        result = smemkit.transpose(x, (1, 0, 2), kernel="runs", device="cpu")
    np.testing.assert_array_equal(result, x.transpose(1, 0, 2))
    with pytest.warns(DeprecationWarning, match="name: 'runs' is now called 'segments'"):
        assert smemkit.source("transpose", "runs") == smemkit.source("transpose", "segments")


def test_reference_files_may_have_old_names():
    environment = {"gpu": "G"}
    row = {
        "suite": "transpose",
        "op": "transpose",
        "dtype": "float32",
        "shape": [4, 4],
        "axis": None,
        "cold": False,
    }
    report = {"environment": environment, "rows": [row | {"kernel": "runs", "value": 1.0}]}
    assert records.select(report, "transpose", (4, 4)).row("segments")["value"] == 1.0
