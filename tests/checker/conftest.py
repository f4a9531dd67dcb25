"""Kernels of the checker's tests are compiled for what they are used for."""

import pytest


@pytest.fixture(autouse=True)
def _one_build(compiled_when_used):
    pass
