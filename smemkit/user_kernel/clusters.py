"""The cluster of a launch: that of ``kernel[grid, block, …, cluster]``, or of ``__cluster_dims__``."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextlib import suppress

from smemkit.cuda_source.declarations import TYPE_WORDS
from smemkit.cuda_source.includes import line_marker, source_location
from smemkit.cuda_source.lexer import identifiers, matching_angle_bracket
from smemkit.cuda_source.overloads import base_name, template_name
from smemkit.cuda_source.scanner import DeviceCode, Outline

__all__ = ["MAX_CLUSTER", "cluster_lines", "cluster_of_launch", "require_known_cluster"]

MAX_CLUSTER = 16  # blocks
_DIMS_ARE_ARGUMENTS = """
#undef SMEMKIT_CLUSTER_DIMS
#define SMEMKIT_CLUSTER_DIMS(...) ) __VA_ARGS__ SMEMKIT_SKIP SMEMKIT_NOTHING() (
"""
_END = """
#undef SMEMKIT_CLUSTER_DIMS
#define SMEMKIT_CLUSTER_DIMS(...)
#endif"""
_SPECIALISATION = re.compile(r"template\s*<\s*>")
Dimensions = tuple[int, int, int]


def cluster_lines(code: DeviceCode, kernels: Sequence[str]) -> dict[int, str]:
    """C++ that defines a variable for the ``__cluster_dims__`` of each kernel, by the start of its declaration.

    It goes there because macros may change later. The first declaration that no #if excludes has the numbers.
    """
    with_dims = [outline for outline in code.outlines if outline.cluster is not None and outline.kernel]
    numbers: dict[str, list[int]] = {}
    for number, kernel in enumerate(kernels if with_dims else ()):
        with suppress(ValueError):  # told when it is launched
            require_known_cluster(code, kernel)
            numbers.setdefault(template_name(kernel), []).append(number)
    lines: dict[int, str] = {}
    for outline in with_dims:
        own = numbers.get(outline.kernel, ())
        head, line = code.text[outline.start : outline.head_end], source_location(code.text, outline.start)
        variables = [f"{line_marker(*line)}SMEMKIT_CLUSTER({n}, SMEMKIT_DIMS_OF({head}\n));" for n in own]
        if own:
            first = f"SMEMKIT_HAS_CLUSTER_{own[0]}"
            begin = f"#ifndef {first}\n#define {first}{_DIMS_ARE_ARGUMENTS}"
            lines[outline.start] = "\n".join([begin, *variables, _END])
    return lines


def require_known_cluster(code: DeviceCode, kernel: str) -> None:
    """Refuses a kernel whose ``__cluster_dims__`` may have numbers that `cluster_lines` does not know.

    Raises
    ------
    ValueError
        The numbers are parameters of its template, or a specialisation has others; a macro defines the kernel;
        or it is an attribute.
    """
    name = template_name(kernel)
    own = [outline for outline in code.outlines if outline.kernel == name]
    unknown = _unknown_cluster(code, base_name(name).rpartition("::")[2], own)
    if unknown:
        raise ValueError(
            f"{kernel}: expected {unknown}, on the CPU device; leave it out, and give the launch a cluster"
        )


def _unknown_cluster(code: DeviceCode, short: str, own: Sequence[Outline]) -> str:
    """What is wrong with the ``__cluster_dims__`` of a kernel's declarations; "" if nothing is."""
    others = [outline for outline in code.outlines if not outline.kernel or short in outline.words]
    if not own and any("__cluster_dims__" in outline.words for outline in others):
        return "no __cluster_dims__ in a macro that defines a kernel"
    special = [
        outline for outline in others if _SPECIALISATION.match(code.text, outline.start) and short in outline.words
    ]
    if special and any(outline.cluster for outline in [*own, *special]):
        return "no __cluster_dims__ of a template that is specialised"
    for words in (outline.cluster for outline in own if outline.cluster):
        if {"__attribute__", "cluster_dims"} <= words:
            return "__cluster_dims__, got the attribute cluster_dims"
    found = sorted(frozenset().union(*(_template_parameters(code, outline) for outline in own)))
    return f"no parameters of its template in __cluster_dims__, got {', '.join(found)}" if found else ""


def _template_parameters(code: DeviceCode, outline: Outline) -> frozenset[str]:
    """The parameters of a kernel's template that its ``__cluster_dims__`` mentions: perhaps all its words, if a
    macro names them."""
    words = (outline.cluster or frozenset()) - TYPE_WORDS - {"__cluster_dims__"}
    head = code.text[outline.start : outline.head_end]
    if found := re.match(r"template\s*<", head):
        return words & identifiers(head[: matching_angle_bracket(head, found.end() - 1)])
    is_template = any(function.template for function in code.functions if function.name == outline.kernel)
    return words if is_template else frozenset()


def cluster_of_launch(
    given: Dimensions | None, declared: Dimensions | None, grid: Dimensions
) -> Dimensions | None:
    """The cluster of a launch, None without one.

    Raises
    ------
    ValueError
        The launch and the kernel differ, it is too large, or it does not divide the grid.
    """
    if given and declared and given != declared:
        raise ValueError(f"cluster: expected {declared}, the kernel's __cluster_dims__, got {given}")
    cluster = given or declared
    if cluster is None:
        return None
    if math.prod(cluster) > MAX_CLUSTER:
        raise ValueError(f"cluster: expected at most {MAX_CLUSTER} blocks, got {cluster}")
    if any(blocks % size for blocks, size in zip(grid, cluster, strict=True)):
        raise ValueError(f"cluster: expected a divisor of the grid {grid} in each dimension, got {cluster}")
    return cluster
