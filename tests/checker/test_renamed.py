"""The verdicts on the kernels of faulty/ stay if variables are renamed and independent declarations reordered."""

import re
from collections import Counter

import pytest
from kernel_files import TESTS, read

from smemkit.cuda_source.lexer import mask

TYPE = r"\b(?:int|unsigned|float|double|half|char|short|bool|auto|uint4|float4|uint32_t|uint64_t|int8_t)\b"
DECLARED = re.compile(TYPE + r"(?:\s+(?:int|char|const))*[\s*&]+(\w+)\s*(?=[=;,\[)])")
FURTHER = re.compile(r",[\s*&]*(\w+)\s*(?=[=;,\[])")  # of the same declaration
DECLARATION = re.compile(r" +(?:__shared__|const|" + TYPE + r")[^(){}]*(?:\([^{}]*\))?[^(){}]*;[^;{}]*")
NAME = re.compile(r"(?<![.\w])(?<!->)(?<!::)[A-Za-z_]\w*")


def variables(text):
    """Names that are declared as variables, and used as nothing else."""
    code = mask(text)
    members = set(re.findall(r"(?:\.|->)\s*(\w+)", code)) | set(re.findall(r"\b(\w+)\s*\(", code))
    macros = set(re.findall(r"\w+", " ".join(re.findall(r"^\s*#.*", code, re.MULTILINE))))
    return sorted(set(DECLARED.findall(code)) - members - macros)


def renamed(text):
    """The source with other names for its variables; strings and comments, and so the marks, stay."""
    names = {name: f"renamed_{number}" for number, name in enumerate(variables(text))}
    pieces, end = [], 0
    for found in NAME.finditer(mask(text)):
        pieces += [text[end : found.start()], names.get(found[0], found[0])]
        end = found.end()
    return "".join(pieces) + text[end:]


def reordered(text):
    """The source with neighbouring declarations swapped of which the second does not use the first."""
    lines = text.split("\n")
    code = mask(text).split("\n")
    number = 0
    while number + 1 < len(lines):
        first, second = code[number : number + 2]
        names = DECLARED.findall(first) + FURTHER.findall(first)
        free = names and not set(names) & set(NAME.findall(second))
        if free and all(DECLARATION.fullmatch(line) and "extern" not in line for line in (first, second)):
            lines[number : number + 2] = lines[number + 1], lines[number]
            number += 1
        number += 1
    return "\n".join(lines)


def verdict(case):
    """The faults, with the marks of their lines."""
    faults = [related for fault in case.check().faults for related in (fault, *fault.knock_on)]
    return Counter(
        (
            fault.kind,
            fault.hazard,
            fault.severity,
            fault.rule,
            frozenset(map(case.marks.get, (fault.line, fault.other_line))),
        )
        for fault in faults
    )


PATHS = sorted((TESTS / "faulty").glob("*.cu"))


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in PATHS[::3]])  # each takes a second
@pytest.mark.covering(1, most=3)
def test_verdicts_stay(path, tmp_path, monkeypatch):
    monkeypatch.setenv("SMEMKIT_WATCHDOG", "1" if "fault: hang" in path.read_text() else "20")
    changed = tmp_path / path.name
    changed.write_text(reordered(renamed(path.read_text())))
    assert verdict(read(changed)) == verdict(read(path))


def test_most_kernels_are_changed():
    texts = [path.read_text() for path in PATHS]
    assert sum(renamed(text) != text for text in texts) > 0.9 * len(texts)
    assert sum(reordered(text) != text for text in texts) > 0.2 * len(texts)


def test_renamed_and_reordered():
    text = '    const int t = threadIdx.x; // t\n    int other = 3;\n    asm("t" : : "r"(t), "r"(p.other));\n'
    assert reordered(text).startswith("    int other = 3;\n    const int t = threadIdx.x; // t\n")
    assert '    const int renamed_0 = threadIdx.x; // t\n    int other = 3;\n    asm("t"' in renamed(text)
    assert '"r"(renamed_0)' in renamed(text)
