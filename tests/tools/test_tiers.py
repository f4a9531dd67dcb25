"""The default tier runs the promised cases, --full runs all of them, and --budget names tests over budget."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = """
import tiers
from tiers import *

tiers.SECONDS = 0.02
"""
TESTS = """
import time
import pytest
from tiers import times

@pytest.mark.covering
@pytest.mark.parametrize("a", range(3))
@pytest.mark.parametrize("b", "xyz")
@pytest.mark.parametrize("c", range(3))
def test_pairs(a, b, c): pass

@pytest.mark.covering(1)
@pytest.mark.parametrize("a", range(3))
@pytest.mark.parametrize("b", range(5))
def test_values(a, b): pass

@pytest.mark.covering(most=2)
@pytest.mark.parametrize("a", range(7))
def test_some(a): pass

@pytest.mark.slow
def test_slow(): pass

@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda:0"])
def test_gpu(device): pass

def test_device(device): pass

def test_repeated(): assert times(1, 0) in (0, 1)

def busy(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass

@pytest.fixture(scope="module")
def expensive():
    busy(0.2)

def test_cheap(expensive): pass
"""
EXPENSIVE = """
@pytest.mark.parametrize("i", range(4))
def test_expensive(i): busy(0.05)
"""


@pytest.fixture
def run(tmp_path):
    """Runs pytest with options on these tests; returns the exit status and the output."""
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n slow\n gpu\n covering\n")
    (tmp_path / "conftest.py").write_text(
        CONFTEST + "\nimport pytest\n@pytest.fixture\ndef device(request): return request.param\n"
    )

    def run(*options, more=""):
        (tmp_path / "test_it.py").write_text(TESTS + more)
        path = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})"
        options = ["-p", "xdist", "-p", "no:cacheprovider", "-v", *options]
        command = f"{path}; import pytest; sys.exit(pytest.main({options!r}))"
        environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # all plugins take three seconds
        done = subprocess.run(
            [sys.executable, "-c", command], cwd=tmp_path, capture_output=True, text=True, env=environment
        )
        return done.returncode, done.stdout

    return run


def cases(printed, name):
    return re.findall(rf"{name}(?:\[(.*?)\])? PASSED", printed)


def test_the_default_tier_covers(run):
    status, printed = run("--devices", "cpu")
    assert status == 0
    pairs = [case.split("-") for case in cases(printed, "test_pairs")]
    assert 9 <= len(pairs) < 15
    for i, j in (0, 1), (0, 2), (1, 2):
        assert len({(case[i], case[j]) for case in pairs}) == 9
    values = [case.split("-") for case in cases(printed, "test_values")]
    assert len(values) == 5 and len({case[1] for case in values}) == 3
    assert cases(printed, "test_some") == ["0", "6"]
    assert not cases(printed, "test_slow") and not cases(printed, "test_gpu")
    assert cases(printed, "test_device") == ["cpu"]


def test_full_runs_everything_on_the_requested_devices(run):
    status, printed = run("--full", "--devices", "cpu,cuda:0")
    assert status == 0
    assert [
        len(cases(printed, f"test_{name}")) for name in ("pairs", "values", "some", "slow", "gpu", "device")
    ] == [*(27, 15, 7, 1, 1, 2)]


@pytest.mark.slow
def test_each_device_has_a_covering_of_its_own(run):
    more = '@pytest.mark.covering(1)\n@pytest.mark.parametrize("i", range(4))\n'
    status, printed = run("--devices", "cpu,cuda:0", more=more + "def test_both(device, i): pass\n")
    assert status == 0
    assert sorted(cases(printed, "test_both")) == [f"{name}-{i}" for name in ("cpu", "cuda:0") for i in range(4)]


@pytest.mark.slow
def test_one_process_runs_all_tests_on_a_gpu(run):
    more = '@pytest.mark.parametrize("i", range(40))\ndef test_many(device, i): pass\n'
    processes = {}
    for devices in "cpu", "cpu,cuda:0":
        status, printed = run("--full", "-n2", "--devices", devices, more=more)
        assert status == 0
        for process, device in re.findall(
            r"\[(gw\d)\].* PASSED test_it\.py::test_many\[(cpu|cuda:0)-\d+\]", printed
        ):
            processes.setdefault((devices, device), set()).add(process)
    assert len(processes["cpu", "cpu"]) == 2 and len(processes["cpu,cuda:0", "cuda:0"]) == 1


@pytest.mark.slow
def test_rest_option_runs_what_full_adds(run):
    tests = {}
    for tier in "--full", "--rest", "--strict-markers":
        status, printed = run(tier, "--devices", "cpu")
        assert status == 0
        tests[tier] = re.findall(r"(test_\w+(?:\[.*?\])?) PASSED", printed)
    full, rest, default = tests.values()
    assert sorted(full) == sorted({*rest, *default})
    assert {*rest} & {*default} == {"test_repeated"}


@pytest.mark.slow
def test_tests_over_budget_are_named(run):
    assert run("--budget", "--devices", "cpu")[0] == 0  # module fixtures do not count
    status, printed = run("--budget", "--devices", "cpu", more=EXPENSIVE)
    assert status == 1
    assert re.search(
        r"test_it\.py::test_expensive took 0\.[2-9] CPU-s; the budget of a test function is 0\.02", printed
    )
    on_a_slow_machine = EXPENSIVE + "import tiers\ntiers.SHARE = 1\n"
    assert run("--budget", "--devices", "cpu", more=on_a_slow_machine)[0] == 0
    assert (
        run("--devices", "cpu", more=EXPENSIVE)[0]
        == run("--budget", "--full", "--devices", "cpu", more=EXPENSIVE)[0]
        == 0
    )
