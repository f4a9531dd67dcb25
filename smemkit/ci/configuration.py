"""smemkit.toml: the launches of a project that `smemkit check` checks.

    [defaults]                       # of every check
    fail_on = "errors,conflict>=8"
    include = ["include"]

    [[check]]
    file = "kernels/halo.cu"
    kernel = "halo"
    grid = 4
    block = [256, 1]
    args = ["float[1024]", "float[1024]=zeros", 1024]

Paths are relative to the file's folder.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from smemkit.ci import fail_on
from smemkit.ci.results import Check

__all__ = ["FILENAME", "Configuration", "read_configuration"]

FILENAME = "smemkit.toml"
_SCHEDULES = ("serial", "lockstep", "random")


class Configuration(NamedTuple):
    """The checks of a smemkit.toml, and the path of its baseline, or None."""

    checks: tuple[Check, ...]
    baseline: str | None


def read_configuration(path: str | Path) -> Configuration:
    """Reads a smemkit.toml.

    Raises
    ------
    ValueError
        It is not TOML, or breaks the grammar; the message names the key, what was expected, and what was given.
    OSError
        It cannot be read.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    path = Path(path)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: {error}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: expected UTF-8: {error}") from error
    _refuse_unknown(content, ("check", "defaults"), str(path))
    defaults, checks = content.get("defaults", {}), content.get("check", [])
    if not isinstance(checks, list) or not all(isinstance(check, dict) for check in checks):
        raise ValueError(f"{path}: check: expected a table [[check]] per launch; defaults go into [defaults]")
    if not isinstance(defaults, dict):
        raise ValueError(f"{path}: defaults: expected a table, got {defaults!r}")
    if not checks:
        raise ValueError(f"{path}: expected at least one [[check]] with a file, a grid and a block")
    baseline = defaults.get("baseline")
    if baseline is not None:
        baseline = str(path.parent / _string(baseline, f"{path}: defaults: baseline"))
    _refuse_unknown(defaults, (*_KEYS, "baseline"), f"{path}: defaults")
    shared = {key: value for key, value in defaults.items() if key != "baseline"}
    found = [
        found_check
        for number, check in enumerate(checks, 1)
        for found_check in _checks(shared | check, path, number)
    ]
    return Configuration(tuple(found), baseline)


def _checks(entry: Mapping[str, Any], path: Path, number: int) -> Iterator[Check]:
    """The checks of a table: one per file that it names."""
    origin = f"{path}: check {number}"
    _refuse_unknown(entry, ("file", *_KEYS), origin)
    files = _strings(entry.get("file", ()), f"{origin}: file")
    if not files:
        raise ValueError(f"{origin}: file: expected the path of a .cu file, got nothing")
    values = {key: read(entry[key], f"{origin}: {key}") for key, read in _KEYS.items() if key in entry}
    for key in "grid", "block":
        if key not in values:
            raise ValueError(
                f"{origin}: {key}: expected numbers, such as {key} = 4 or {key} = [4, 2]; got nothing"
            )
    fail_on.parse_limits(values.get("fail_on", fail_on.DEFAULT), f"{origin}: fail_on")
    names = {"args": "arg"}
    fields = {names.get(key, key): value for key, value in values.items() if key not in _COMPILER_KEYS}
    option = _compiler_options(values, path.parent)
    for file in files:
        where = {"folder": str(path.parent), "origin": origin}
        yield Check(str(path.parent / file), option=option, **where, **fields)


def _compiler_options(values: Mapping[str, Any], folder: Path) -> tuple[str, ...]:
    """The options of `smemkit.Kernel`, with the folders of headers relative to that of the file."""
    options = [f"-I{folder / name}" for name in values.get("include", ())]
    options += [f"-D{name}" for name in values.get("define", ())]
    options += [f"-std={values['std']}"] if "std" in values else []
    for option in values.get("options", ()):
        options.append(f"-I{folder / option[2:]}" if option.startswith("-I") else option)
    return tuple(options)


def _refuse_unknown(table: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for key in table:
        if key not in known:
            from difflib import get_close_matches

            near = get_close_matches(key, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(known)}"
            raise ValueError(f"{where}: unknown key {key!r}; {hint}")


# ---- the values of the keys ----


def _expected(where: str, wanted: str, value: Any) -> ValueError:
    return ValueError(f"{where}: expected {wanted}, got {value!r}")


def _string(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise _expected(where, "a string", value)
    return value


def _strings(value: Any, where: str) -> tuple[str, ...]:
    """A string, or a list of them."""
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, (list, tuple)) or not all(isinstance(item, str) for item in values):
        raise _expected(where, "a string or a list of strings", value)
    return tuple(values)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _integer(value: Any, where: str) -> int:
    if not _is_integer(value) or value < 0:
        raise _expected(where, "a whole number, 0 or more", value)
    return value


def _dimensions(value: Any, where: str) -> str:
    """A grid or a block as text: 4, [4, 2] or "4,2"."""
    if isinstance(value, str):
        return value
    numbers = value if isinstance(value, list) else [value]
    if not 1 <= len(numbers) <= 3 or not all(_is_integer(number) and number > 0 for number in numbers):
        raise _expected(where, "one to three numbers above 0, such as 4 or [4, 2]", value)
    return ",".join(map(str, numbers))


def _blocks(value: Any, where: str) -> str:
    if value in ("auto", "all") or (_is_integer(value) and value > 0):
        return str(value)
    raise _expected(where, '"auto", "all" or a number above 0', value)


def _schedule(value: Any, where: str) -> str:
    if value not in _SCHEDULES:
        raise _expected(where, f"one of {', '.join(_SCHEDULES)}", value)
    return value


def _arguments(value: Any, where: str) -> tuple[str, ...]:
    """The kernel's arguments: strings as --arg takes them, and plain numbers."""
    if not isinstance(value, list) or not all(isinstance(item, (str, int, float)) for item in value):
        raise _expected(where, 'a list such as ["float[1024]", 1024, 0.5, true]', value)
    return tuple(item if isinstance(item, str) else repr(item).lower() for item in value)


def _list(value: Any, where: str) -> str:
    """A list of `--fail-on`: one string, or several."""
    return ",".join(_strings(value, where))


_COMPILER_KEYS: dict[str, Callable[[Any, str], Any]] = {
    "include": _strings,
    "define": _strings,
    "std": _string,
    "options": _strings,
}
_KEYS: dict[str, Callable[[Any, str], Any]] = {
    "kernel": _string,
    "args": _arguments,
    "grid": _dimensions,
    "block": _dimensions,
    "shared": _integer,
    "cluster": _dimensions,
    "blocks": _blocks,
    "schedule": _schedule,
    "seed": _integer,
    "fail_on": _list,
    **_COMPILER_KEYS,
}
