"""The pytest plugin of smemkit: each launch of a smemkit.toml is a test.

It is a module beside the package, and imports it only where there is a smemkit.toml: pytest loads its plugins at
the start of every run.
"""

import os
from collections import Counter
from pathlib import Path

import pytest


def pytest_configure(config):
    config.addinivalue_line("markers", "smemkit: a launch of a kernel, from smemkit.toml")


def pytest_collect_file(file_path, parent):
    return SmemkitFile.from_parent(parent, path=file_path) if file_path.name == "smemkit.toml" else None


class SmemkitFile(pytest.File):
    """A smemkit.toml."""

    def collect(self):
        from smemkit.ci.configuration import read_configuration

        path = Path(os.path.relpath(self.path))  # as it is shown in reports
        try:
            checks, baseline = read_configuration(self.path if ".." in path.parts else path)
        except ValueError as error:
            raise self.CollectError(str(error)) from None
        seen = Counter()
        for check in checks:
            name = f"{Path(check.file).name}: {check.title}"
            seen[name] += 1
            name += f" #{seen[name]}" if seen[name] > 1 else ""
            yield Launch.from_parent(self, name=name, check=check, baseline=baseline)


class Launch(pytest.Item):
    """A launch, which passes if no finding is one that its `fail_on` names."""

    def __init__(self, *, check, baseline, **keywords):
        super().__init__(**keywords)
        self.check, self.baseline = check, baseline
        self.add_marker("smemkit")

    def runtest(self):
        from smemkit.ci.baseline import Baseline
        from smemkit.ci.results import run_check
        from smemkit.ci.verdict import judge

        verdict = judge([run_check(self.check)], Baseline(self.baseline) if self.baseline else None)
        if verdict.status:
            raise LaunchFailedError(verdict)

    def repr_failure(self, excinfo, style=None):
        """The report, or the reason why there is none, instead of a traceback."""
        if not isinstance(excinfo.value, LaunchFailedError):
            return super().repr_failure(excinfo, style)
        from smemkit.ci.formats import failure_text

        (judged,) = excinfo.value.verdict.judged
        return failure_text(judged) if judged.outcome.report is not None else judged.outcome.problem

    def reportinfo(self):
        return self.path, None, self.name


class LaunchFailedError(Exception):
    """Something was found that fails, or the launch could not be checked."""

    def __init__(self, verdict):
        super().__init__("; ".join(f"{finding.title} at {finding.location}" for finding in verdict.failing))
        self.verdict = verdict
