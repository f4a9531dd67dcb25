"""The examples in the docstrings do what they say, on the CPU device."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import smemkit

MODULES = [
    module.name
    for module in pkgutil.walk_packages(smemkit.__path__, "smemkit.")
    if "._" not in module.name and not module.ispkg
]


LONG = {  # these examples measure or compile; other tests make such calls, too
    *("smemkit.ladder", "smemkit.measure.benchmarks", "smemkit.user_kernel.chain", "smemkit.ci.support"),
}
assert {*MODULES} >= LONG


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in MODULES]
)
@pytest.mark.covering(1)
def test_examples(name):
    module = importlib.import_module(name)
    with smemkit.Device("cpu"):
        results = doctest.testmod(module)
    assert results.failed == 0


@pytest.mark.parametrize("name", [name for name in smemkit.__all__ if inspect.isfunction(getattr(smemkit, name))])
def test_every_function_has_an_example(name):
    assert doctest.DocTestFinder(recurse=False).find(getattr(smemkit, name))[0].examples


@pytest.mark.parametrize("name", smemkit.__all__)
def test_every_name_is_documented(name):
    assert inspect.getdoc(getattr(smemkit, name))
