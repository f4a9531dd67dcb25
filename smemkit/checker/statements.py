"""The statements of a function as a tree: where a barrier can stand, and which conditions guard a line.

Only the outlines are parsed: blocks, conditionals, loops, and statements that end with a semicolon. Positions are
those of the source.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from smemkit.cuda_source.lexer import DIRECTIVE, blank, end_of_statement, mask, mask_comments, matching_bracket

__all__ = ["ASSIGNMENT", "LOOPS", "Function", "Sequence", "SourceText", "Statement", "functions"]

LOOPS = ("for", "while", "do")
ASSIGNMENT = re.compile(  # to a variable, or to an element
    r"(?P<element>\*?\s*[A-Za-z_]\w*(?:\s*\[[^=;]*\])?)\s*(?P<op>[-+*/%&|^]|<<|>>)?=(?!=)\s*(?P<value>[^;]+);$",
    re.S,
)
_KEYWORD = re.compile(r"(if|for|while|do|switch|else)\b(?:\s*constexpr\b)?\s*")
_LABEL = re.compile(r"(?:case\b[^:;{}]*|default\s*|[A-Za-z_]\w*\s*):(?!:)")
_NOT_A_FUNCTION = re.compile(r"\b(?:namespace|struct|class|union|enum|extern)\b(?![^{]*\))")
_PARAMETERS = re.compile(r"([A-Za-z_]\w*)\s*\(")


@dataclass(eq=False)
class Sequence:
    """The statements of a block, or the one statement of an unbraced branch or loop body."""

    start: int
    end: int
    braced: bool
    owner: Statement | None = None
    statements: list[Statement] = field(default_factory=list)


@dataclass(eq=False)
class Statement:
    """A statement: its kind ("simple", "block", "if", "switch", or one of LOOPS), its extent, the extent of its
    condition with the parentheses, and its branches or body."""

    kind: str
    start: int
    end: int
    head: tuple[int, int] = (0, 0)
    parts: list[Sequence] = field(default_factory=list)
    within: Sequence | None = None

    @property
    def index(self) -> int:
        """Its position in its sequence."""
        return self.within.statements.index(self)

    def ancestors(self) -> Iterator[Statement]:
        """The statement and those around it, innermost first."""
        statement: Statement | None = self
        while statement:
            yield statement
            statement = statement.within.owner


@dataclass(eq=False)
class Function:
    """A function with a body: its name, the extent of its parameters, and its statements."""

    name: str
    parameters: tuple[int, int]
    body: Sequence
    is_kernel: bool

    def walk(self, sequence: Sequence | None = None) -> Iterator[Statement]:
        """All its statements, outer ones first."""
        for statement in (sequence or self.body).statements:
            yield statement
            for part in statement.parts:
                yield from self.walk(part)

    def statement_at(self, position: int) -> Statement | None:
        """The innermost statement around a position."""
        return max(
            (statement for statement in self.walk() if statement.start <= position < statement.end),
            key=lambda statement: statement.start,
            default=None,
        )


class SourceText:
    """A source file: its text, the same without comments, literals and directives, and its functions."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.without_comments = mask_comments(text)
        masked = mask(text)
        self.code = blank(masked, [found.span() for found in DIRECTIVE.finditer(masked)])
        self.starts = [0, *(found.end() for found in re.finditer("\n", text))]
        self.functions = list(functions(self.code))

    def extent(self, line: int) -> tuple[int, int]:
        """The positions of a line, without its end."""
        if not 0 < line <= len(self.starts):
            return 0, 0
        end = self.starts[line] - 1 if line < len(self.starts) else len(self.text)
        return self.starts[line - 1], end

    def line(self, position: int) -> int:
        """The number of the line at a position."""
        return self.text.count("\n", 0, position) + 1

    def function_at(self, line: int) -> Function | None:
        """The function whose body, or header, is at a line."""
        start, end = self.extent(line)
        found = [
            function for function in self.functions if function.parameters[0] < end and start <= function.body.end
        ]
        return found[-1] if found else None

    def last_line(self, statement: Statement) -> int:
        """The number of a statement's last line."""
        return self.line(statement.end - 1)


def functions(code: str, start: int = 0, end: int | None = None) -> Iterator[Function]:
    """The functions in a masked text."""
    end = len(code) if end is None else end
    at = last = start
    while (at := code.find("{", at, end)) >= 0:
        close = matching_bracket(code, at)
        last = max(last, *(code.rfind(mark, last, at) + 1 for mark in ";}"))
        head = code[last:at]
        named = _PARAMETERS.search(head[_specifiers(head) :])
        if _NOT_A_FUNCTION.search(head) or not named:
            yield from functions(code, at + 1, close)
        else:
            opening = last + _specifiers(head) + named.end() - 1
            body = Sequence(at + 1, close, True)
            _parse_sequence(code, body)
            yield Function(
                named[1],
                (opening, matching_bracket(code, opening)),
                body,
                bool(re.search(r"\b__global__\b", head)),
            )
        at = last = close + 1


def _specifiers(head: str) -> int:
    """The end of the words with parentheses before a function's name: __launch_bounds__(256)."""
    found = list(re.finditer(r"\b(?:__launch_bounds__|__align__|alignas|decltype|__attribute__)\s*\(", head))
    return matching_bracket(head, found[-1].end() - 1) + 1 if found else 0


# ---- parsing ----


def _skip_blanks(code: str, at: int, end: int) -> int:
    while at < end and code[at].isspace():
        at += 1
    return at


def _parse_sequence(code: str, sequence: Sequence) -> None:
    at = _skip_blanks(code, sequence.start, sequence.end)
    while at < sequence.end:
        label = _LABEL.match(code, at, sequence.end)
        if label:
            at = _skip_blanks(code, label.end(), sequence.end)
            continue
        statement = _parse_statement(code, at, sequence)
        at = _skip_blanks(code, max(statement.end, at + 1), sequence.end)


def _parse_statement(code: str, at: int, within: Sequence) -> Statement:
    """Parses the statement at `at` and adds it to its sequence."""
    keyword = _KEYWORD.match(code, at, within.end)
    if code[at] == "{":
        statement = Statement("block", at, matching_bracket(code, at) + 1, within=within)
        _add_part(code, statement, at)
    elif keyword:
        statement = Statement(keyword[1], at, at, within=within)
        _parse_compound(code, statement, keyword.end())
    else:
        end = end_of_statement(code, at)
        statement = Statement("simple", at, end + 1 if 0 <= end < within.end else within.end, within=within)
    within.statements.append(statement)
    return statement


def _parse_compound(code: str, statement: Statement, at: int) -> None:
    """Parses the head and the parts of a conditional or a loop."""
    if statement.kind not in ("do", "else") and at < len(code) and code[at] == "(":
        statement.head = (at, matching_bracket(code, at) + 1)
        at = statement.head[1]
    at = _add_part(code, statement, _skip_blanks(code, at, len(code)))
    if statement.kind == "if":
        after = _skip_blanks(code, at, len(code))
        if re.compile(r"else\b").match(code, after):
            at = _add_part(code, statement, _skip_blanks(code, after + 4, len(code)))
    if statement.kind == "do":
        opening = code.find("(", at)
        if opening >= 0:
            statement.head = (opening, matching_bracket(code, opening) + 1)
            at = end_of_statement(code, opening) + 1
    statement.end = at


def _add_part(code: str, statement: Statement, at: int) -> int:
    """Adds the branch or body at `at` and returns its end."""
    if at < len(code) and code[at] == "{":
        part = Sequence(at + 1, matching_bracket(code, at), True, statement)
        _parse_sequence(code, part)
        end = part.end + 1
    else:
        part = Sequence(at, len(code), False, statement)
        end = part.end = _parse_statement(code, at, part).end if at < len(code) else at
    statement.parts.append(part)
    return end
