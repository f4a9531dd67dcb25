"""Each experiment runs once per session, on the CPU device."""

import functools

import pytest

import smemkit
from smemkit import lab


@functools.cache
def run(name):
    with smemkit.Device("cpu"):
        return lab.EXPERIMENTS[name]("cpu")


@pytest.fixture(scope="session", params=list(lab.EXPERIMENTS))
def experiment(request):
    """The result of each experiment, not to be changed."""
    return run(request.param)
