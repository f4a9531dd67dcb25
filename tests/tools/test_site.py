"""The documentation site lists each public name."""

import inspect

from cases import ROOT

import smemkit


def test_the_site_has_a_page_per_function_and_type():
    lines = {line.strip() for line in (ROOT / "docs" / "api.md").read_text(encoding="utf-8").splitlines()}
    named = {name for name in smemkit.__all__ if not inspect.ismodule(getattr(smemkit, name))}
    assert {name for name in named if callable(getattr(smemkit, name))} - lines == set()
