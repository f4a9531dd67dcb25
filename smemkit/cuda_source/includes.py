"""The user's own headers, in place of their #include lines; and source locations in the expanded text."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from pathlib import Path

from smemkit.cuda_source.lexer import DIRECTIVE, mask

__all__ = ["INCLUDE", "Locations", "expand_includes", "line_marker", "line_markers", "source_location"]

INCLUDE = re.compile(r"""[ \t]*#[ \t]*include[ \t]*(?P<file><[^>\n]+>|"[^"\n]+")""")
_LINE_MARKER = re.compile(r'^#line (\d+) "((?:[^"\\]|\\.)*)"$', re.MULTILINE)


def expand_includes(
    text: str, filename: str, home: Path | None, folders: list[Path], sources: dict[str, str], outer: tuple = ()
) -> str:
    """`text` with the user's own headers instead of their #include lines, between #line markers.

    Parameters
    ----------
    text, filename : str
        A source, and its name in messages.
    home : Path, optional
        Its folder, which is searched for "quoted" headers.
    folders : list of Path
        The folders that are searched for all headers.
    sources : dict
        Receives the files that were read: filename → text.
    outer : tuple of str
        The files that include this one.
    """
    sources[filename] = text
    pieces, done = [line_marker(1, filename)], 0
    for directive in DIRECTIVE.finditer(mask(text)):
        match = INCLUDE.match(text, directive.start())
        found = match and _find_header(match["file"], home, folders)
        if not found:
            continue
        pieces.append(text[done : match.start()])
        done = directive.end()
        name = _known_name(found, sources)
        content = sources.get(name) or found.read_text(encoding="utf-8-sig", errors="replace")
        if name in (filename, *outer) or (name in sources and re.search(r"#\s*pragma\s+once\b", content)):
            continue
        pieces.append(expand_includes(content, name, found.parent, folders, sources, (*outer, filename)))
        pieces.append("\n" + line_marker(text.count("\n", 0, done) + 1, filename))
    return "".join([*pieces, text[done:]])


def _find_header(quoted: str, home: Path | None, folders: list[Path]) -> Path | None:
    searched = [home, *folders] if home and quoted[0] == '"' else folders
    return next((folder / quoted[1:-1] for folder in searched if (folder / quoted[1:-1]).is_file()), None)


def _known_name(file: Path, sources: dict[str, str]) -> str:
    """The name of a file: that by which it has been read, perhaps by another path."""
    if str(file) in sources:
        return str(file)
    return next((name for name in sources if Path(name).name == file.name and _same_file(name, file)), str(file))


def _same_file(name: str, file: Path) -> bool:
    return Path(name).is_file() and file.samefile(name)


def line_marker(line: int, filename: str) -> str:
    """The directive that gives the next line its number and its file."""
    escaped = filename.replace("\\", "\\\\").replace('"', '\\"')
    return f'#line {line} "{escaped}"\n'


def line_markers(text: str) -> Iterator[tuple[int, int, str, int]]:
    """The sections of expanded text: the start of each, the number and the file of its first line, its end."""
    markers = list(_LINE_MARKER.finditer(text))
    for marker, end in zip(markers, [*(m.start() for m in markers[1:]), len(text)], strict=True):
        yield marker.end() + 1, int(marker[1]), re.sub(r"\\(.)", r"\1", marker[2]), end


def source_location(text: str, at: int) -> tuple[int, str]:
    """The line and the file of a position in expanded text."""
    markers = list(_LINE_MARKER.finditer(text, 0, at))
    if not markers:
        return text.count("\n", 0, at) + 1, ""
    line = int(markers[-1][1]) + text.count("\n", markers[-1].end() + 1, at)
    return line, re.sub(r"\\(.)", r"\1", markers[-1][2])


class Locations:
    """The lines and files of positions in an expanded text: `source_location` of many."""

    def __init__(self, text: str):
        self._lines = [match.start() for match in re.finditer("\n", text)]
        self._markers = list(_LINE_MARKER.finditer(text))
        self._ends = [marker.end() for marker in self._markers]

    def at(self, position: int) -> tuple[int, str]:
        """The line and the file of a position."""
        line = bisect_left(self._lines, position)
        number = bisect_right(self._ends, position) - 1
        if number < 0:
            return line + 1, ""
        marker = self._markers[number]
        first = bisect_left(self._lines, marker.end() + 1)
        return int(marker[1]) + line - first, re.sub(r"\\(.)", r"\1", marker[2])
