"""The types that smemkit declares: mypy and pyright infer what typing_uses.py says."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

USES = Path(__file__).with_name("typing_uses.py")


def complaints(file, tmp_path):
    pytest.importorskip("mypy")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", tmp_path / "cache", "--no-error-summary", file],
        cwd=tmp_path,  # next to the package's sources mypy would read those instead of what is installed
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert not done.stderr
    return done.stdout


@pytest.mark.slow  # mypy reads NumPy's stubs
def test_mypy_infers_what_the_operations_return(tmp_path):
    assert complaints(USES, tmp_path) == ""
    wrong = tmp_path / "wrong.py"
    text = USES.read_text().replace("assert_type(smemkit.matmul(host, host.T), NDArray[Any])", "int(array.dtyp)")
    wrong.write_text(text.replace("assert_type(array + 1, smemkit.Array)", "assert_type(array + 1, int)"))
    text = complaints(wrong, tmp_path)
    assert '"Array" has no attribute "dtyp"' in text
    assert 'Expression is of type "Array", not "int"' in text


@pytest.mark.slow
def test_pyright_infers_what_the_operations_return(tmp_path):
    command = shutil.which("pyright") or shutil.which("basedpyright")
    if not command:
        pytest.skip("pyright is not installed")

    def check(file):
        return subprocess.run(
            [command, "--level", "error", file], cwd=USES.parents[1], capture_output=True, text=True, timeout=300
        )

    done = check(USES)
    assert done.returncode == 0, done.stdout
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        USES.read_text().replace("assert_type(array + 1, smemkit.Array)", "assert_type(array + 1, int)")
    )
    done = check(wrong)
    assert done.returncode == 1
    assert "array + 1" in done.stdout or '"assert_type" mismatch' in done.stdout
