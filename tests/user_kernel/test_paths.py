"""Kernels from files: reports, headers and the cache go by the path."""

import os
from pathlib import Path

import numpy as np
import pytest

import smemkit

SOURCE = '#include "value.cuh"\n__global__ void k(int *x) { x[threadIdx.x / 2] = VALUE; }\n'


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Two folders with the same file k.cu and different headers."""
    for name in "one", "two":
        (tmp_path / name).mkdir()
        (tmp_path / name / "k.cu").write_text(SOURCE)
        (tmp_path / name / "value.cuh").write_text(f"#define VALUE {len(name) + (name == 'two')}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(kernel):
    x = np.zeros(1, np.int32)
    with smemkit.Device("cpu"):
        kernel[1, 2](x)
    return x[0]


def test_headers_are_those_beside_the_file(folders):
    assert [run(smemkit.Kernel(f"{name}/k.cu")) for name in ("one", "two")] == [3, 4]


def test_a_changed_header_is_compiled_again(folders):
    before = run(smemkit.Kernel("one/k.cu"))
    (folders / "one" / "value.cuh").write_text("#define VALUE 7\n")
    assert (before, run(smemkit.Kernel("one/k.cu"))) == (3, 7)


def test_reports_name_the_path_that_was_given(folders):
    for path in "one/k.cu", str(folders / "two" / "k.cu"):
        kernel = smemkit.Kernel(path)
        report = smemkit.check(kernel[1, 2], np.zeros(1, np.int32))
        assert kernel.filename == path
        assert [fault.location for fault in report.faults] == [f"{path}:2"]
        assert f" at {path}:2" in report.headline


def test_equal_files_have_libraries_of_their_own(folders):
    """Debug information has the path, so that it is part of the cache's key."""
    (folders / "two" / "value.cuh").write_text((folders / "one" / "value.cuh").read_text())
    paths = {smemkit.Kernel(f"{name}/k.cu")._program.module("cpu", "k").path for name in ("one", "two", "one")}
    assert len(paths) == 2


class OtherPath(os.PathLike):
    def __fspath__(self):
        return "one/k.cu"


@pytest.mark.parametrize("path", ["one/k.cu", Path("one", "k.cu"), OtherPath(), "one/k.cuh", Path("one/k.txt")])
def test_what_is_a_path(folders, path):
    if not Path(path).exists():
        Path(path).write_text(SOURCE)
    assert smemkit.Kernel(path).filename == os.fspath(path)


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("no/k.cu", FileNotFoundError, "no/k.cu"),
        ("one", ValueError, r"got none in kernel\.cu; a str ending in \.cu or \.cuh is a path"),
        ("one/k.cpp", ValueError, "a str ending in .cu or .cuh is a path"),
        (Path("one"), IsADirectoryError, "one"),
        (3, TypeError, "source: expected CUDA C\\+\\+ as str, or the path of a file, got int"),
    ],
)
def test_mistaken_paths(folders, source, error, message):
    with pytest.raises(error, match=message):
        smemkit.Kernel(source)
