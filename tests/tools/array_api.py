"""Runs the array API's own test suite on the functions that smemkit has.

    python tests/tools/array_api.py CHECKOUT [--max-examples N]

CHECKOUT is a clone, with its submodule, of https://github.com/data-apis/array-api-tests, whose requirements.txt is
installed. Exit status 0: all of those tests pass, and no function of `smemkit.array_api` is without one.
"""

import os
import re
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parent
OPERATORS = {  # the suite's names of tests of operators and of special cases
    "add": ("__add__", "__iadd__"),
    "subtract": ("__sub__", "__isub__"),
    "multiply": ("__mul__", "__imul__"),
    "divide": ("__truediv__", "__itruediv__"),
    "negative": ("__neg__",),
    "equal": ("__eq__",),
    "not_equal": ("__ne__",),
    "less": ("__lt__",),
    "less_equal": ("__le__",),
    "greater": ("__gt__",),
    "greater_equal": ("__ge__",),
    "matmul": ("__matmul__", "__imatmul__"),
}
OTHERS = {  # tests that are not named after a function
    *("test_scalar_casting", "test_irrational_numbers", "test_inf", "test_nan", "test_newaxis", "test_setitem"),
    *("test_getitem", "test_asarray_scalars", "test_asarray_arrays", "test_finfo_dtype", "test_iinfo_dtype"),
    *("test_dlpack_device", "test_dunder_dlpack", "test_default_dtypes", "test_devices", "test_capabilities"),
    *("test_array_namespace_info_dtypes", "test_info_func_signature"),
}
PARAMETRISED = {  # tests whose parameter begins with a function's name
    *("test_func_signature", "test_array_method_signature", "test_binary_with_scalars_real", "test_unary"),
    *("test_binary", "test_iop", "test_nan_propagation"),
}
NOT_THERE = {  # a test of ours, and the reason why it is not run
    "test_array_method_signature[__getitem__]": "x[mask] is not supported",
}


class Selection:
    """A pytest plugin: keeps the tests of what smemkit has, and counts the tests of each function."""

    def __init__(self, functions, array):
        self.methods = {name for names in OPERATORS.values() for name in names} | set(dir(array))
        self.functions = set(functions)
        self.tested = set()

    def wants(self, item):
        parameter = getattr(getattr(item, "callspec", None), "id", "")
        subject = re.match(r"\w*", parameter).group()
        if item.name in NOT_THERE:
            return False
        if item.originalname in PARAMETRISED:
            return self.has(subject)
        name = item.originalname.removeprefix("test_")
        return item.originalname in OTHERS or self.has(name)

    def has(self, name):
        if name in self.functions:
            self.tested.add(name)
        return name in self.functions or (name.startswith("__") and name in self.methods)

    def pytest_collection_modifyitems(self, items):
        items[:] = [item for item in items if self.wants(item)]


def main(arguments):
    """Runs the suite in the checkout that the first argument names; the exit status."""
    checkout = Path(arguments[0]).resolve()
    sys.path[:0] = [str(TOOLS), str(TOOLS.parents[1]), str(checkout)]
    os.environ |= {"ARRAY_API_TESTS_MODULE": "array_api_subject", "SMEMKIT_DEVICE": "cpu"}
    os.chdir(checkout)
    from smemkit import Array, array_api

    functions = {name for name in array_api.__all__ if callable(getattr(array_api, name))}
    selection = Selection(functions, Array)
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--disable-warnings", "-o", "addopts="]
    status = pytest.main([*options, *arguments[1:], "array_api_tests"], plugins=[selection])
    if untested := sorted(functions - selection.tested):
        print("without a test:", ", ".join(untested))
    return int(status) or len(untested)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
