"""The one lexer of CUDA C++: comments and literals, identifiers, directives, brackets, blocks.

It works on text whose comments and literals `mask` has blanked, in which positions are those of the source. The
compiler does the rest.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence

__all__ = [
    "DEFINE",
    "DIRECTIVE",
    "blank",
    "enclosing_braces",
    "enclosing_directive",
    "end_of_block",
    "end_of_expression",
    "end_of_statement",
    "find_at_top_level",
    "identifiers",
    "insert",
    "mask",
    "matching_angle_bracket",
    "matching_bracket",
    "matching_open_bracket",
    "split_commas",
    "text_before_brace",
]

# A number is matched so that the apostrophes in 1'000 do not start a character literal.
_COMMENT_OR_LITERAL = re.compile(
    r"""(?P<number>\b\d[\w.]*(?:'[\w.]+)*)|//[^\n]*|/\*.*?\*/"""
    r"""|R"([^\s()\\]{0,16})\(.*?\)\2"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'""",
    re.DOTALL,
)
_NOT_LINE_END = re.compile(r"[^\n]")
_IDENTIFIER = re.compile(r"\b[A-Za-z_]\w*")
# name, and the rest of its line with continuation lines
DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(?P<name>\w*)(?P<rest>(?:\\\r?\n|[^\n])*)", re.MULTILINE)
DEFINE = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(?P<name>\w+)(?:\((?P<parameters>[^)]*)\))?(?P<body>(?:\\\r?\n|[^\n])*)",
    re.MULTILINE,
)
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_OPENING = {")": "(", "]": "[", ">": "<"}


@functools.lru_cache(maxsize=8)  # the steps of a translation mask the same text, if they have nothing to rewrite
def mask(source: str) -> str:
    """The source with comments, strings and character literals blanked; positions stay the same."""
    return _COMMENT_OR_LITERAL.sub(
        lambda match: match[0] if match["number"] else _NOT_LINE_END.sub(" ", match[0]), source
    )


def mask_comments(source: str) -> str:
    """The source with comments blanked; positions stay the same."""
    return _COMMENT_OR_LITERAL.sub(
        lambda match: _NOT_LINE_END.sub(" ", match[0]) if match[0].startswith(("//", "/*")) else match[0], source
    )


def identifiers(text: str) -> frozenset[str]:
    """The identifiers and keywords in a text."""
    return frozenset(_IDENTIFIER.findall(text))


def insert(source: str, edits: list[tuple[int, str]]) -> str:
    """The source with these texts inserted at their positions."""
    for at, text in sorted(edits, reverse=True):
        source = source[:at] + text + source[at:]
    return source


def blank(text: str, ranges: Iterable[tuple[int, int]], directives: Sequence[re.Match] = ()) -> str:
    """`text` with blanks in some ranges; directives stay, so that each #if keeps its #endif."""
    starts = [d.start() for d in directives]
    pieces, done = [], 0
    for start, end in sorted(ranges):
        start = max(start, done)
        for number in range(bisect_left(starts, start), bisect_left(starts, end)):
            d = directives[number]
            pieces += [text[done:start], re.sub(r"[^\n]", " ", text[start : d.start()])]
            done = start = d.start()
            pieces.append(text[done : d.end()])
            done = start = d.end()
        if end > start:
            pieces += [text[done:start], re.sub(r"[^\n]", " ", text[start:end])]
            done = end
    return "".join([*pieces, text[done:]])


# ---- brackets ----


def matching_bracket(code: str, at: int) -> int:
    """The bracket that closes the one at `at`, or the end."""
    open_, close, depth = code[at], _CLOSING[code[at]], 0
    for found in re.compile(rf"[\{open_}\{close}]").finditer(code, at):
        depth += 1 if found[0] == open_ else -1
        if depth == 0:
            return found.start()
    return len(code) - 1


def matching_angle_bracket(code: str, at: int) -> int:
    """The `>` that closes the `<` at `at`, or the end."""
    depth = 0
    while at < len(code):
        if code[at] == "(":
            at = matching_bracket(code, at)
        depth += {"<": 1, ">": -1}.get(code[at], 0)
        if depth == 0:
            return at
        at += 1
    return len(code) - 1


def matching_open_bracket(masked: str, at: int) -> int:
    """The bracket that the one at `at` closes. Comparisons in template arguments are in parentheses."""
    close, depth = masked[at], 0
    while at > 0:
        character = masked[at]
        if character == close:
            depth += 1
        elif character == _OPENING[close]:
            depth -= 1
            if depth == 0:
                return at
        elif close == ">" and character == ")":
            at = matching_open_bracket(masked, at)
        at -= 1
    return 0


def find_at_top_level(masked: str, start: int, end: int, character: str) -> list[int]:
    """The positions of a character outside of parentheses, which are all that the preprocessor knows."""
    depth, found = 0, []
    for at in range(start, end):
        depth += {"(": 1, ")": -1}.get(masked[at], 0)
        if depth == 0 and masked[at] == character:
            found.append(at)
    return found


def split_commas(text: str) -> list[str]:
    """The parts between commas outside of brackets; none for blank text.

    Examples
    --------
    >>> split_commas("pair<int, 2> a, int b[f(1, 2)]")
    ['pair<int, 2> a', 'int b[f(1, 2)]']
    """
    parts, depth, start = [], 0, 0
    for at, character in enumerate(text):
        if character in "([{<":
            depth += 1
        elif character in ")]}>":
            depth -= 1
        elif character == "," and depth <= 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()] if text.strip() else []


# ---- blocks, statements, directives ----


def enclosing_directive(masked: str, at: int) -> re.Match[str] | None:
    """The preprocessor's directive around a position."""
    return next((match for match in DIRECTIVE.finditer(masked) if match.start() <= at < match.end()), None)


def enclosing_braces(masked: str, position: int) -> list[tuple[int, str]]:
    """The braces around a position, innermost first, each with the text before it, which may tell its kind."""
    depth, found = 0, []
    for at in range(position - 1, -1, -1):
        depth += (masked[at] == "}") - (masked[at] == "{")
        if depth < 0:
            found.append((at, text_before_brace(masked, at)))
            depth = 0
    return found


def text_before_brace(masked: str, opening: int) -> str:
    """The text before a brace, back to the end of the previous statement or directive."""
    start = max(masked.rfind(mark, 0, opening) for mark in ";{}") + 1
    for before in DIRECTIVE.finditer(masked, start, opening):
        start = before.end()
    return masked[start:opening]


def end_of_block(masked: str, start: int) -> int:
    """The brace that closes the block around `start`."""
    depth = 0
    for at in range(start, len(masked)):
        depth += (masked[at] == "{") - (masked[at] == "}")
        if depth < 0:
            return at
    return len(masked)


def end_of_expression(masked: str, start: int) -> int:
    """Where the expression at `start` ends: at a comma, a semicolon, or the bracket around it."""
    depth = 0
    for at in range(start, len(masked)):
        depth += (masked[at] in "([{") - (masked[at] in ")]}")
        if depth < 0 or (depth == 0 and masked[at] in ";,"):
            return at
    return len(masked)


def end_of_statement(masked: str, start: int) -> int:
    """The semicolon that ends the statement at `start`, which may have braces; -1 if there is none."""
    depth = 0
    for at in range(start, len(masked)):
        depth += (masked[at] in "{(") - (masked[at] in "})")
        if masked[at] == ";" and depth == 0:
            return at
        if depth < 0:
            break
    return -1
