"""The devices that a test runs on: every one, if it asks for `device`. What it runs there is in cases.py.

smemkit is imported late: the executor's own tests need no package.
"""

import gc
import signal

import pytest

DEVICES = {"cpu": (), "cuda:0": (pytest.mark.gpu,)}

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as in the background job of a shell; tests interrupt calls
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="module")
def kept():
    """All that there is by now, the tests and their reports, stays to the end: what a test leaves is found without
    looking at it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(params=[pytest.param(name, marks=marks) for name, marks in DEVICES.items()])
def device(request):
    """The name of a device that is here."""
    if request.param != "cpu":
        from smemkit import _core

        if reason := _core.cuda_unavailable():
            pytest.skip(reason)
    return request.param


@pytest.fixture
def kernel(request, device):
    """A `cases.Kernel` that the device can launch."""
    if reason := request.param.skip_reason(device):
        pytest.skip(reason)
    return request.param
