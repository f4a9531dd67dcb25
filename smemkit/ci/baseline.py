"""A baseline: the findings of a project that are known, so that only new ones fail.

A finding is recognised by its kind, file, kernel, variable and the text of its line, and not by the line's number:
it stays known while code above it changes. A bank conflict or waste that has become worse is new.
"""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from smemkit.ci.results import Finding

__all__ = ["Baseline", "fingerprint"]

_SCHEMA, _VERSION = "smemkit.baseline", 1
_Key = tuple[str, str, str, str, str]


def fingerprint(finding: Finding, folder: str | Path = "") -> _Key:
    """What a finding is recognised by; its file is relative to `folder`."""
    file = Path(os.path.relpath(finding.file, folder or None)).as_posix() if finding.file else ""
    variable = re.sub(r"\[.*", "", finding.variable)
    return finding.kind, file, finding.kernel, variable, " ".join(finding.text.split())


class Baseline:
    """The known findings in a file.

    Parameters
    ----------
    path : path
        A file that `write` has written.

    Raises
    ------
    ValueError
        It is not such a file.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._left: dict[_Key, list[float]] = defaultdict(list)
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
            if (content["schema"], content["version"]) != (_SCHEMA, _VERSION):
                raise KeyError("schema")
            for entry in content["findings"]:
                key = tuple(str(entry[name]) for name in ("kind", "file", "kernel", "variable", "text"))
                self._left[key].append(float(entry["value"]))  # type: ignore[index]
        except FileNotFoundError:
            raise ValueError(f"{path}: no such file; --update-baseline writes it") from None
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise ValueError(f"{path}: expected a baseline that smemkit check has written; {error!r}") from error

    def new(self, found: Iterable[Finding]) -> list[Finding]:
        """The findings that are not known. Each entry stands for one finding, over all calls."""
        return [finding for finding in found if not self._take(finding)]

    def _take(self, finding: Finding) -> bool:
        """Uses up the entry of a finding, the smallest that is as bad; False if there is none."""
        values = self._left.get(fingerprint(finding, self.path.parent), [])
        fitting = [value for value in values if finding.value <= value * 1.0001]
        if fitting:
            values.remove(min(fitting))
        return bool(fitting)

    @property
    def gone(self) -> int:
        """The entries that no call of `new` has used."""
        return sum(map(len, self._left.values()))

    @staticmethod
    def write(path: str | Path, found: Iterable[Finding]) -> int:
        """Writes these findings as known, and returns their number."""
        entries: list[dict[str, Any]] = []
        for finding in found:
            key = fingerprint(finding, Path(path).parent)
            named = dict(zip(("kind", "file", "kernel", "variable", "text"), key, strict=True))
            entries.append(named | {"value": round(finding.value, 4)})
        entries.sort(key=lambda entry: list(map(str, entry.values())))
        content = {"schema": _SCHEMA, "version": _VERSION, "findings": entries}
        Path(path).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        return len(entries)
