"""A test that asks for `device` runs on every available device. What it runs there is in cases.py; tiers.py
decides which tests run.

smemkit is imported late because the executor's own tests do not need the package.
"""

import fcntl
import gc
import os
import signal
import sys
from pathlib import Path

import pytest
from tiers import (  # noqa: F401  pytest looks for its hooks here
    pytest_addoption,
    pytest_cmdline_main,
    pytest_collection,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_configure_node,
    pytest_generate_tests,
    pytest_runtest_logreport,
    pytest_sessionfinish,
    pytest_terminal_summary,
)

ROOT = Path(__file__).resolve().parents[1]

# `python -m pytest` puts the working directory first in sys.path. smemkit/ holds only sources there, unless it was
# built in place
if not any((ROOT / "smemkit").glob("_core.*.so")):
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != ROOT]

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy's threads wait actively; pytest has a process per core
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX takes most of a GPU's memory otherwise

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # a shell's background job ignores it; tests need it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="module")
def kept():
    """Freezes all objects that exist now, such as tests and their reports: they live to the end, and garbage
    collections in tests need not scan them."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def turn(request, tmp_path_factory):
    """Tests marked `alone` fill the memory of a GPU or of the host, or measure it: where several processes run
    tests of a GPU (`pytest -m gpu --dist load`), no other one runs meanwhile, and the next one finds the memory
    that smemkit would hold for later calls free."""
    if not request.node.get_closest_marker("gpu"):
        yield
        return
    alone = request.node.get_closest_marker("alone")
    folder = tmp_path_factory.getbasetemp().parent
    with (folder / "gpu.queue").open("w") as queue, (folder / "gpu.lock").open("w") as lock:
        fcntl.flock(queue, fcntl.LOCK_EX)  # whoever waits for the lock is the next to get it
        fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(queue, fcntl.LOCK_UN)
        yield
        if alone:
            import smemkit

            smemkit.empty_cache("cuda:0")


@pytest.fixture
def device(request):
    """The name of an available device."""
    return request.param


@pytest.fixture
def compiled_when_used(request, monkeypatch):
    """A `smemkit.Kernel` compiles only the builds that the test uses: most kernels of tests with this fixture are
    checked and not launched. Tests with `compiled_at_once` have kernels as users have them."""
    if "compiled_at_once" not in request.fixturenames:
        from smemkit.user_kernel.program import Program

        monkeypatch.setattr(Program, "can_compile", lambda program, device: False)


@pytest.fixture
def compiled_at_once():
    """See `compiled_when_used`."""


@pytest.fixture(scope="session")
def cpu_ladders():
    """The ladders of float32 on the CPU device, by op: small, measured once per session, not to be changed."""
    import importlib

    import smemkit

    module = importlib.import_module("smemkit.ladder")  # smemkit.ladder is the function
    shapes = {"matmul": (40, 20, 30), "reduce": (3000,), "transpose": (64, 96)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SECONDS", 0.001)
        patch.setattr(module, "SMALL", {"matmul": (32, 32, 32), "reduce": (500,), "transpose": (32, 32)})
        return {op: smemkit.ladder(op, shape, device="cpu") for op, shape in shapes.items()}


@pytest.fixture
def kernel(request):
    """A `cases.Kernel` that the device can launch."""
    return request.param
