"""Reads PTX: the text of an asm statement becomes declarations, labels, instructions and blocks.

The PTX ISA describes the syntax ("Syntax", "Instruction Statements"); %0, %[name], %% and %= are those of nvcc's
inline assembly. ptx_instructions.py knows what instructions mean.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Block", "Declaration", "Instruction", "Label", "Operand", "PtxError", "read_ptx"]

# in this order, because 0f3F800000 and 0x1F begin with digits; %= makes names unique, and a C++ label is local
_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/|%=)
    |(?P<placeholder>%\d+|%\[\w+\])
    |(?P<name>%{0,2}[A-Za-z_$][\w$]*(?:%=)?(?:\.[\w$]+|::[\w$]+)*)
    |(?P<directive>\.[A-Za-z][\w$]*(?:\.[\w$]+|::[\w$]+)*)
    |(?P<number>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?
        |\d+\.\d*(?:[eE][-+]?\d+)?|\d+(?:[eE][-+]?\d+)|\d+U?)
    |(?P<mark>[{}\[\](),;:@!|+<>-])""",
    re.VERBOSE | re.DOTALL,
)


class PtxError(Exception):
    """What cannot be read, or is not supported: the instruction or the text, and why, or ""."""

    def __init__(self, what: str, why: str = ""):
        super().__init__(what, why)
        self.what, self.why = what, why


@dataclass(frozen=True)
class Operand:
    """An operand.

    Attributes
    ----------
    kind : str
        "placeholder" (its number or name), "name" of a register or a label, "number" (an int or a float),
        "address" (its base and offset are in `parts`, the coordinates of a tensor map in `second`), "vector" (its
        elements are in `parts`).
    value : str, int or float
    negated : bool
        Whether a `!` or a `-` is in front.
    second : Operand, optional
        The one behind a `|`.
    """

    kind: str
    value: str | int | float = ""
    parts: tuple[Operand, ...] = ()
    negated: bool = False
    second: Operand | None = None


@dataclass(frozen=True)
class Declaration:
    """Registers: their type, such as "b32", and their names."""

    type: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Label:
    name: str


@dataclass(frozen=True)
class Instruction:
    """An instruction: its dotted name split, its operands, and the predicate in front of it."""

    name: tuple[str, ...]
    operands: tuple[Operand, ...]
    predicate: Operand | None = None

    def __str__(self) -> str:
        return ".".join(self.name)


@dataclass(frozen=True)
class Block:
    items: tuple[Block | Declaration | Label | Instruction, ...]


def read_ptx(text: str) -> Block:
    """Reads the text of an asm statement, in which C++'s escapes are resolved.

    Raises
    ------
    PtxError
        The text is not PTX.

    Examples
    --------
    >>> block = read_ptx("{ .reg .pred p; setp.ne.s32 p, %0, 0; @p bar.sync 1; }")
    >>> [str(item) for item in block.items[0].items[1:]]
    ['setp.ne.s32', 'bar.sync']
    """
    return _Reader(list(_tokens(text))).block("")


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if not match:
            raise PtxError(text[at:].split()[0])
        if match.lastgroup != "space":
            yield match.lastgroup or "", match[0]
        at = match.end()


def _number(text: str) -> int | float:
    kind = text[:2].lower()
    if kind == "0f":
        return struct.unpack(">f", bytes.fromhex(text[2:]))[0]
    if kind == "0d":
        return struct.unpack(">d", bytes.fromhex(text[2:]))[0]
    if kind not in ("0x", "0b") and any(mark in text for mark in ".eE"):
        return float(text)
    text = text.removesuffix("U")
    octal = len(text) > 1 and text.isdigit() and text[0] == "0"
    return int(text, 8 if octal else 0)


class _Reader:
    """A recursive descent: each method reads one thing, and moves on."""

    def __init__(self, tokens: list[tuple[str, str]]):
        self._tokens = tokens
        self._at = 0

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("end", "")

    def _next(self) -> tuple[str, str]:
        token = self._peek()
        self._at += 1
        return token

    def _take(self, mark: str) -> bool:
        if self._peek() == ("mark", mark):
            self._at += 1
            return True
        return False

    def _expect(self, mark: str, what: str) -> None:
        if not self._take(mark):
            raise PtxError(what, f"expected {mark} before {self._peek()[1] or 'the end'}")

    def block(self, end: str) -> Block:
        items: list[Block | Declaration | Label | Instruction] = []
        while self._peek() != ("mark", end) and self._peek()[0] != "end":
            if self._take(";"):
                continue
            items.append(self._item())
        if end:
            self._expect(end, "{")
        return Block(tuple(items))

    def _item(self) -> Block | Declaration | Label | Instruction:
        if self._take("{"):
            return self.block("}")
        kind, text = self._peek()
        if kind == "directive":
            return self._declaration()
        if kind == "name" and self._tokens[self._at + 1 : self._at + 2] == [("mark", ":")]:
            self._at += 2
            return Label(text.replace("%=", ""))
        return self._instruction()

    def _declaration(self) -> Declaration:
        what = self._next()[1]
        if what != ".reg" and not what.startswith(".reg."):
            raise PtxError(what)
        dotted = what.removeprefix(".reg") or self._next()[1]
        names = []
        while True:
            name = self._next()[1].lstrip("%")
            if self._take("<"):
                names += [f"{name}{i}" for i in range(int(self._next()[1]))]
                self._expect(">", what)
            else:
                names.append(name)
            if not self._take(","):
                break
        self._expect(";", what)
        return Declaration(dotted.lstrip("."), tuple(names))

    def _instruction(self) -> Instruction:
        predicate = None
        if self._take("@"):
            negated = self._take("!")
            predicate = Operand("name", self._next()[1].lstrip("%"), negated=negated)
        kind, name = self._next()
        if kind != "name":
            raise PtxError(name or "@", "expected an instruction")
        operands = []
        while self._peek() != ("mark", ";"):
            operands.append(self._operand(name))
            if not self._take(","):
                break
        self._expect(";", name)
        return Instruction(tuple(name.split(".")), tuple(operands), predicate)

    def _operand(self, what: str) -> Operand:
        negated = self._take("!") or self._take("-")
        if self._take("{"):
            return Operand("vector", parts=self._list(what, "}"))
        if self._take("["):
            base, *offsets = self._sum(what)
            second = self._operand(what) if self._take(",") else None
            self._expect("]", what)
            return Operand("address", parts=(base, *offsets), second=second)
        kind, text = self._next()
        if kind == "number":
            value = _number(text)
            return Operand("number", -value if negated else value)
        if kind not in ("placeholder", "name"):
            raise PtxError(what, f"expected an operand before {text or 'the end'}")
        value = text[1:].strip("[]") if kind == "placeholder" else text.replace("%=", "").lstrip("%")
        second = self._operand(what) if self._take("|") else None
        return Operand(kind, value, negated=negated, second=second)

    def _list(self, what: str, end: str) -> tuple[Operand, ...]:
        parts = [self._operand(what)]
        while self._take(","):
            parts.append(self._operand(what))
        self._expect(end, what)
        return tuple(parts)

    def _sum(self, what: str) -> list[Operand]:
        parts = [self._operand(what)]
        while self._take("+") or self._peek() == ("mark", "-"):
            parts.append(self._operand(what))
        return parts
