"""The devices that a test runs on: every one, if it asks for `device`. What it runs there is in cases.py.

smemkit is imported late: the executor's own tests need no package.
"""

import gc

import pytest

DEVICES = {"cpu": (), "cuda:0": (pytest.mark.gpu,)}


def pytest_collection_finish():
    """The tests themselves stay to the end: without them, those that collect garbage do so in no time."""
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
