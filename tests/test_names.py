"""The names of the package: the public ones are what `dir` shows, and the modules are importable."""

import importlib
import importlib.metadata

import pytest
from cases import run_python

import smemkit
from smemkit.measure import tuned


def test_dir_shows_the_public_names_only():
    shown = set(dir(smemkit))
    assert set(smemkit.__all__) <= shown
    assert all(name.startswith("__") and name.endswith("__") for name in shown - set(smemkit.__all__))
    assert shown.isdisjoint({"ops", "arrays", "checker", "table", "measure", "_core"})


@pytest.mark.parametrize(
    "name", ["ops", "arrays", "devices", "ladder", "demo", "checker.check", "table.kernel_table", "bench.command"]
)
def test_files_are_importable(name):
    assert importlib.import_module(f"smemkit.{name}").__name__ == f"smemkit.{name}"


def test_every_public_name_exists():
    done = run_python("-c", "from smemkit import *\nimport smemkit\nassert set(smemkit.__all__) <= set(globals())")
    assert done.returncode == 0, done.stderr


def test_a_source_tree_that_is_not_installed_works(monkeypatch):
    """What asks for the version, such as the cache of tuned choices, does not need a version."""

    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", lambda name: f"1.0 of {name}")
    assert smemkit.__version__ == "1.0 of smemkit"
    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert smemkit.__version__ == "uninstalled"
    assert "uninstalled" in tuned.key_of(smemkit.Device("cpu"))
