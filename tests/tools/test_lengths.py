"""Files and functions of csrc/ fit on a few screens."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAX_FILE, MAX_FUNCTION = 600, 60  # lines


def sources(root):
    return [path for path in sorted((root / "csrc").rglob("*.[ch]")) if "vendor" not in path.parts]


def functions(lines):
    """Name and length of each function whose braces stand in the first column."""
    start = None
    for number, line in enumerate(lines):
        if line == "{":
            start = number
            while start and lines[start - 1] and not lines[start - 1].endswith((";", "*/", "}")):
                start -= 1
        elif line == "}" and start is not None:
            yield lines[start], number - start + 1
            start = None


def too_long(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    found = [f"{path.name}: {len(lines)} lines"] if len(lines) > MAX_FILE else []
    return found + [f"{name}: {length} lines" for name, length in functions(lines) if length > MAX_FUNCTION]


def test_files_and_functions_are_short():
    paths = sources(ROOT)
    assert len(paths) > 100
    assert [text for path in paths for text in too_long(path)] == []


@pytest.mark.parametrize(("body", "what"), [(61, "int long_one(void)"), (700, "x.c")])
def test_long_ones_are_found(tmp_path, body, what):
    path = tmp_path / "x.c"
    path.write_text("int long_one(void)\n{\n" + "    f();\n" * body + "}\n", encoding="utf-8")
    assert any(text.startswith(what) for text in too_long(path))
