"""``smemkit support``: what kernels may use on the CPU device, read from the code that supports it."""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Iterator

from smemkit.checker.allowances import COST_KINDS
from smemkit.ci.fail_on import GRAMMAR
from smemkit.ci.formats import FORMATS
from smemkit.ci.results import FINDING_TITLES
from smemkit.cuda_source import dialect
from smemkit.cuda_source.declarations import DEVICE_WORDS, TYPE_WORDS, declarations_in
from smemkit.cuda_source.lexer import mask
from smemkit.cuda_source.ptx_instructions import instruction_names
from smemkit.measure.occupancy import TABLE
from smemkit.user_kernel import launch_text
from smemkit.user_kernel.compiler import INCLUDE, expanded_headers
from smemkit.version import version

__all__ = ["add_arguments", "main", "supported_headers", "supported_names"]

_WIDTH = 80
_OWN = re.compile(r"smemkit|SMEMKIT|^__(?:asm__|stack_chk_fail)$|^nodiscard$")  # the dialect's own names


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of ``smemkit support``."""
    parser.description = "Prints what kernels may use on the CPU device, read from the code that supports it."
    parser.add_argument("names", nargs="*", metavar="NAME", help="only say whether these are supported")
    parser.set_defaults(command=main)


def main(options: argparse.Namespace) -> int:
    """Prints all, or of some names whether they are supported; the exit status is 1 if one is not."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    groups = supported_names()
    if options.names:
        return _look_up(options.names, groups)
    for title, names in _everything(groups):
        print(title)
        print(
            textwrap.fill(names, _WIDTH, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
        )
    return 0


def _look_up(names: list[str], groups: dict[str, tuple[str, ...]]) -> int:
    found = {name: title for title, listed in groups.items() for name in listed}
    found |= {name.rpartition("::")[2]: title for name, title in found.items()} | found
    found |= dict.fromkeys(supported_headers(), "header")
    for name in names:
        print(f"{name}: {found.get(name, 'not a supported name of CUDA')}")
    return 0 if all(name in found for name in names) else 1


def supported_headers() -> tuple[str, ...]:
    """The headers that a source may include: CUDA's, as the dialect has them."""
    paths = (path.relative_to(INCLUDE) for path in INCLUDE.rglob("*") if path.is_file())
    return tuple(sorted(str(path) for path in paths if path.parts[0] != "smemkit"))


def supported_names() -> dict[str, tuple[str, ...]]:
    """The functions and types that the dialect's headers declare, by what the header is about.

    Raises
    ------
    Error
        There is no compiler: its preprocessor expands the headers' macros.

    Examples
    --------
    >>> groups = supported_names()
    >>> "__shfl_down_sync" in groups["Barriers, shuffles and votes"]
    True
    """
    groups: dict[str, set[str]] = {}
    for file, text in expanded_headers(supported_headers()).items():
        names = set(_declared(mask(text)))
        if names:
            groups.setdefault(_title(file), set()).update(names)
    return {title: tuple(sorted(names)) for title, names in sorted(groups.items())}


def _declared(code: str) -> Iterator[str]:
    """The functions and types at namespace level, without the dialect's own."""
    for declaration in declarations_in(code, 0, len(code), "", {}):
        if declaration.kind in ("function", "type"):
            for name in declaration.names - TYPE_WORDS - DEVICE_WORDS:
                if not _OWN.search(declaration.scope + name):
                    yield declaration.scope + name


def _title(file: str) -> str:
    """What a header is about: the first sentence of its comment."""
    comment = re.match(r"\s*/\*(.*?)\*/", (INCLUDE / file).read_text(encoding="utf-8"), re.DOTALL)
    words = " ".join(re.sub(r"\n\s*\*", " ", comment[1]).split()) if comment else file
    return re.split(r"(?<!\.\w)[.:](?= |$)", words)[0]


def _everything(groups: dict[str, tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    """Titles, and what is listed under them."""
    yield f"smemkit {version()}: what kernels may use on the CPU device, in addition to C++17", ""
    yield "Headers", " ".join(supported_headers())
    for title, names in groups.items():
        yield title, " ".join(names)
    yield "Instructions of inline PTX", " ".join(instruction_names())
    for reason, features in dialect.refused_features().items():
        yield f"Refused, because it {reason}", ", ".join(features)
    yield (
        "Faults that a check finds",
        ", ".join(
            f"{title} ({kind})" for kind, title in FINDING_TITLES.items() if kind not in (*COST_KINDS, "compile")
        ),
    )
    yield "--fail-on", GRAMMAR
    yield "--format", ", ".join(FORMATS)
    yield (
        "Types of --arg, in addition to NumPy's",
        ", ".join(
            [
                *launch_text.C_TYPES,
                *launch_text.BFLOAT16,
                *launch_text.PAIRS,
                "float4 and the other vectors",
                "struct16",
            ]
        ),
    )
    yield "Compiler options", "-I -D -U, --std c++17, c++20 or c++23"
    yield "Compute capabilities of occupancy", ", ".join(f"{major}.{minor}" for major, minor in TABLE)
