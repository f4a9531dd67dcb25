"""Fixes of misaligned accesses, and of matrices with a wrong distance between rows."""

from __future__ import annotations

import re

from smemkit.checker.edits import Fix, line_edits
from smemkit.checker.evidence import Evidence, Launch

__all__ = ["fix_matrix_rows", "fix_misaligned", "fix_read_only_load"]


def fix_misaligned(launch: Launch, evidence: Evidence) -> Fix:
    """An access whose address is not a multiple of its size."""
    raw, size = evidence.raw, evidence.raw["size"]
    if raw["message"]:
        return _fix_instruction(evidence)
    if raw["space"] == "shared" and raw["rank"] > 1:
        return _fix_row_padding(launch, evidence)
    if raw["space"] == "shared":
        return Fix(
            f"Begin each part of the shared memory at a multiple of {size} bytes: round the offset "
            "up, or put the type "
            "with the largest alignment first."
        )
    return Fix(
        f"Access {size} bytes at multiples of {size} bytes only: begin at a multiple of the vector, "
        "or load scalars "
        "(memcpy into a local variable reads bytes at any address)."
    )


def _fix_row_padding(launch: Launch, evidence: Evidence) -> Fix:
    """Rows of a shared array that vectors do not divide."""
    raw, name = evidence.raw, evidence.name
    unit = raw["size"] // max(1, raw["element"])
    row = raw["dims"][raw["rank"] - 1]
    padded = -(-row // max(1, unit)) * unit
    text = (
        f"Rows of {name} have {row} elements, which is not a multiple of {raw['size']} bytes: give them "
        f"{padded}, or load "
        "scalars."
    )
    for file in launch.texts:
        source = launch.source(file)
        found = source and re.search(rf"__shared__[^;]*?\b{name}\s*(?:\[[^\]]*\]\s*)*\[([^\]]*)\]", source.code)
        if found and padded != row:
            return Fix(text, line_edits(file, source, [(found.start(1), found.end(1), str(padded))]))
    return Fix(text)


def _fix_instruction(evidence: Evidence) -> Fix:
    """An instruction that the executor has refused: of matrices, mbarriers or asynchronous copies."""
    message = evidence.raw["message"]
    if "leading dimension" in message:
        return Fix(
            "Give the rows of the array a multiple of 16 bytes, 8 elements of half or 4 of float, with padding "
            "where the matrix has fewer, and pass that number as the leading dimension (PTX ISA, wmma.load, "
            "wmma.store: stride)."
        )
    multiple = re.search(r"not (?:a |)multiples? of (\d+)", message)
    rule = next((text for word, text in _RULES.items() if word in message), "")
    return Fix(
        f"Begin at a multiple of {multiple[1] if multiple else 16} bytes{rule}: declare the array alignas(16) or "
        "with elements of that size, pad its rows to a multiple, and check the offset that is added."
    )


_RULES = {
    "mbarrier": " (PTX ISA, mbarrier: the object has 8 bytes)",
    "matrix_sync": " (PTX ISA, wmma.load, wmma.store)",
    "ldmatrix": " (PTX ISA, ldmatrix)",
    "stmatrix": " (PTX ISA, stmatrix)",
    "bulk": " (PTX ISA, cp.async.bulk)",
    "asynchronous copy": ", the number of bytes that cp.async copies (PTX ISA, cp.async)",
}


def fix_matrix_rows(evidence: Evidence) -> Fix | None:
    """A matrix of wmma whose rows leave the array, or overlap."""
    found = re.search(r"\b(load|store)_matrix_sync\b", evidence.fault.text)
    if not found or evidence.raw["message"]:
        return None
    return Fix(
        f"{found[0]} takes rows that begin a leading dimension apart (PTX ISA, wmma.{found[1]}: stride): pass the "
        f"length of a row of {evidence.name or 'the array'}, with its padding, in elements, and give the array as "
        "many rows as the matrix has; a tile at the edge needs padding up to whole matrices."
    )


_READ_ONLY = (("__ldg(", "*("), (".global.nc.", ".global."), (".nc.", "."))


def fix_read_only_load(launch: Launch, evidence: Evidence) -> Fix | None:
    """A non-coherent load of memory that the kernel writes: an ordinary load."""
    if not evidence.raw["incoherent"]:
        return None
    fault = evidence.fault
    for file, line in ((fault.file, fault.line), (fault.other_file, fault.other_line)):
        source = launch.source(file) if line else None
        start, end = source.extent(line) if source else (0, 0)
        text = source.text[start:end] if source else ""
        for special, ordinary in _READ_ONLY:
            at = text.find(special)
            if at >= 0:
                change = (start + at, start + at + len(special), ordinary)
                return Fix(
                    f"Make the load of line {line} an ordinary one, without __ldg or .nc; if other threads write "
                    "what it reads, they must be ordered as well.",
                    line_edits(file, source, [change]),
                )
    return Fix("Make the load an ordinary one, without __ldg or .nc; or write the results to another array.")
