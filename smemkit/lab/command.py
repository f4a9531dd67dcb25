"""``smemkit lab``: lists the experiments, or runs one."""

from __future__ import annotations

import difflib
import textwrap
from typing import Any

from smemkit.lab.catalogue import EXPERIMENTS, purpose
from smemkit.lab.experiment import Experiment

__all__ = ["listed", "listing", "run"]

WIDTH = 80
NAME_WIDTH = 15


def listing() -> str:
    """The experiments, with what each shows."""
    lines = ["smemkit lab NAME runs an experiment:", ""]
    for name in EXPERIMENTS:
        indent = " " * NAME_WIDTH
        lines += textwrap.wrap(
            purpose(name), WIDTH, initial_indent=f"{name:<{NAME_WIDTH}}", subsequent_indent=indent
        )
    return "\n".join(lines)


def listed() -> dict[str, Any]:
    """The list in plain types."""
    names = {name: purpose(name) for name in EXPERIMENTS}
    return {"schema": "smemkit.experiments", "version": 1, "experiments": names}


def run(name: str, device: str | None) -> Experiment:
    """Runs an experiment by name."""
    if name not in EXPERIMENTS:
        near = difflib.get_close_matches(name, EXPERIMENTS, 1)
        hint = f"did you mean {near[0]}?" if near else "`smemkit lab` lists them"
        raise ValueError(f"lab: there is no experiment {name!r}; {hint}")
    return EXPERIMENTS[name](device)
