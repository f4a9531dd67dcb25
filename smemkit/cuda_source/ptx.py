"""Inline PTX as C++: an asm statement becomes a block that calls the functions of the dialect.

Registers become local variables that hold bits: uint16_t, uint32_t, uint64_t, and bool for predicates. A predicate
becomes an `if`, a branch a `goto` to a label that is local to the block. The operands are read and written by the
kernel's own code, so that a check sees those accesses.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from string import Template

from .asm_statements import AsmOperand, AsmStatement
from .ptx_instructions import SPECIAL_REGISTERS, Form, forms_of
from .ptx_reader import Block, Declaration, Instruction, Label, Operand, PtxError, read_ptx

__all__ = ["Translation", "translate"]

_WIDTHS = {"h": 16, "r": 32, "l": 64, "f": 32, "d": 64, "n": 64}
_DEFAULTS = {"round": "rn", "near": "exact", "order": "relaxed", "bit": "none", "space": "generic"}
_REGISTER_TYPE = re.compile(r"(?:[bsuf]|bf)(?P<bits>8|16|32|64)(?P<pair>x2)?")
_PREFIX = "smemkit::ptx_"


@dataclass(frozen=True)
class Translation:
    """A block of C++, and the headers of the dialect that it needs: {"matrix"}."""

    text: str
    headers: frozenset[str]


def translate(statement: AsmStatement) -> Translation:
    """The C++ of an asm statement.

    Raises
    ------
    PtxError
        It is not PTX, or has an instruction that the CPU device lacks.

    Examples
    --------
    >>> translate(AsmStatement(0, 0, "mov.u32 %0, %%laneid;", (AsmOperand("", "=r", "(lane)"),), (), "")).text
    ... # doctest: +NORMALIZE_WHITESPACE
    'do { auto &&smemkit_to_0 = (lane); uint32_t smemkit_0; smemkit_0 = smemkit::lane();
    smemkit_to_0 = smemkit::ptx_as<decltype(smemkit_to_0)>(smemkit_0); } while (0)'
    """
    if statement.hidden:
        raise PtxError(statement.hidden, "a macro that is not defined in the source")
    return _Writer(statement).translation()


class _Names(dict):
    """The values of the names in a form's template. Beside those that are set, $flag_x is true if the instruction
    has the modifier x, $initial_x is the first letter of $x, and modifiers left out have the defaults of PTX."""

    def __missing__(self, key: str) -> str:
        if key.startswith("flag_"):
            return "true" if key.removeprefix("flag_") in self["modifiers"] else "false"
        if key.startswith("initial_"):
            return self[key.removeprefix("initial_")][0]
        return _DEFAULTS[key]


class _Writer:
    def __init__(self, statement: AsmStatement):
        self._operands = (*statement.outputs, *statement.inputs)
        self._outputs = len(statement.outputs)
        self._numbers = {operand.name: number for number, operand in enumerate(self._operands) if operand.name}
        self._tied: dict[int, int] = {}
        self._scopes: list[dict[str, str]] = []  # registers of the blocks around: name → C++ type
        self._labels: list[str] = []
        self._block = read_ptx(statement.text)
        self._in_place = {self._number_of(placeholder) for placeholder in _in_place(self._block)}
        self._used = {self._number_of(placeholder) for placeholder in _placeholders(self._block)}
        self._headers = {"registers"} if self._operands else set()  # smemkit::ptx_operand
        self._carries = False

    def translation(self) -> Translation:
        body = [*self._items(self._block)]
        labels = f"__label__ {', '.join(self._labels)}; " if self._labels else ""
        carry = "bool smemkit_carry = false; " if self._carries else ""
        lines = [*self._reads(), *body, *self._writes()]
        return Translation(f"do {{ {labels}{carry}{' '.join(lines)} }} while (0)", frozenset(self._headers))

    # ---- the statement's operands ----

    def _reads(self) -> Iterator[str]:
        for number, operand in enumerate(self._operands[: self._outputs]):
            yield f"auto &&smemkit_to_{number} = {operand.expression};"
        for number, operand in enumerate(self._operands):
            letter = self._letter(operand)
            if self._stays(number, operand):
                if number >= self._outputs:
                    yield f"auto &&smemkit_to_{number} = {operand.expression};"
                continue
            value = f"smemkit::ptx_operand<'{letter}'>({operand.expression})"
            if number < self._outputs:
                value = f"smemkit::ptx_operand<'{letter}'>(smemkit_to_{number})"
            is_read = number >= self._outputs or "+" in operand.constraint
            yield f"uint{_WIDTHS[letter]}_t smemkit_{number}{f' = {value}' if is_read else ''};"
        for number, output in self._tied.items():
            yield f"smemkit_{output} = smemkit_{number};"

    def _writes(self) -> Iterator[str]:
        for number in range(self._outputs):
            if self._stays(number, self._operands[number]):
                continue
            yield (f"smemkit_to_{number} = smemkit::ptx_as<decltype(smemkit_to_{number})>(smemkit_{number});")

    def _stays(self, number: int, operand: AsmOperand) -> bool:
        """Whether an operand is neither read nor written here: an instruction has its address, or none uses it, as
        in asm volatile("" : "+f"(x)), which is for the compiler alone."""
        return number in self._in_place or ("+" in operand.constraint and number not in self._used)

    def _letter(self, operand: AsmOperand) -> str:
        constraint = operand.constraint.strip("=+& ")
        if constraint.isdigit() and int(constraint) < self._outputs:
            self._tied[self._operands.index(operand)] = int(constraint)
            return self._letter(self._operands[int(constraint)])
        if constraint not in _WIDTHS:
            raise PtxError(f'the constraint "{operand.constraint}"', "expected one of r l h f d n")
        return constraint

    # ---- blocks, labels, registers ----

    def _items(self, block: Block) -> Iterator[str]:
        self._scopes.append({})
        for item in block.items:
            if isinstance(item, Block):
                yield f"{{ {' '.join(self._items(item))} }}"
            elif isinstance(item, Declaration):
                yield from self._declared(item)
            elif isinstance(item, Label):
                self._add_label(item.name)
                yield f"{_label(item.name)}: ;"
            else:
                yield self._instruction(item)
        self._scopes.pop()

    def _add_label(self, name: str) -> None:
        if _label(name) in self._labels:
            raise PtxError(name, "a label at two positions")
        self._labels.append(_label(name))

    def _declared(self, declaration: Declaration) -> Iterator[str]:
        bits = _REGISTER_TYPE.fullmatch(declaration.type)
        if declaration.type != "pred" and not bits:
            raise PtxError(f".reg .{declaration.type}")
        width = int(bits["bits"]) * (2 if bits["pair"] else 1) if bits else 0
        kind = f"uint{width}_t" if width else "bool"
        for name in declaration.names:
            self._scopes[-1][name] = kind
            yield f"{kind} {_register(name)};"

    def _kind(self, name: str) -> str | None:
        return next((scope[name] for scope in reversed(self._scopes) if name in scope), None)

    # ---- instructions ----

    def _instruction(self, instruction: Instruction) -> str:
        text = self._unconditional(instruction)
        if instruction.predicate is None:
            return text
        return f"if ({self._predicate(instruction.predicate, str(instruction))}) {text}"

    def _predicate(self, operand: Operand, what: str) -> str:
        if self._kind(str(operand.value)) != "bool":
            raise PtxError(what, f"no predicate {operand.value}")
        return ("!" if operand.negated else "") + _register(str(operand.value))

    def _unconditional(self, instruction: Instruction) -> str:
        if instruction.name[0] == "bra":
            if len(instruction.operands) != 1 or instruction.name[1:] not in ((), ("uni",)):
                raise PtxError(str(instruction))
            return f"goto {_label(str(instruction.operands[0].value))};"
        for form in forms_of(instruction.name[0]):
            chosen = form.match(instruction.name)
            if chosen is None:
                continue
            operands = self._matched(form, instruction)
            if operands is not None:
                return self._filled(form, chosen, operands, instruction)
        raise PtxError(str(instruction), self._unknown_name(instruction))

    def _unknown_name(self, instruction: Instruction) -> str:
        for operand in instruction.operands:
            for part in (operand, *operand.parts):
                name = str(part.value)
                if part.kind == "name" and name not in SPECIAL_REGISTERS and name != "_" and not self._kind(name):
                    return f"of {name}"
        return ""

    def _matched(self, form: Form, instruction: Instruction) -> list[tuple[str, Operand | None]] | None:
        """The form's operands with those of the instruction, if the kinds of these fit."""
        given = list(instruction.operands)
        least = sum("?" not in pattern for pattern in form.operands)
        if not least <= len(given) <= len(form.operands):
            return None
        pairs = list(zip(form.operands, [*given, *[None] * (len(form.operands) - len(given))], strict=True))
        return pairs if all(operand is None or _fits(role, operand) for role, operand in pairs) else None

    def _filled(self, form: Form, chosen: dict[str, str], operands, instruction: Instruction) -> str:
        self._headers.add(form.header)
        names = _Names(
            modifiers=frozenset(instruction.name) | chosen.keys(), **{k: _word(v) for k, v in chosen.items()}
        )
        before: list[str] = []
        after: list[str] = []
        for role, operand in operands:
            key = role.strip("[]{}&")[0]
            if operand is None:
                names[key] = role.partition("?")[2]
            elif role[0] == "[":
                space = role.strip("[]").partition(":")[2] or names["space"]
                if operand.second:
                    self._vector("v", "uint32_t", operand.second, instruction, names, before, after)
                names[key] = f"@at_{space}({self._address(operand, instruction)})"
            elif role.startswith("{&"):
                self._addresses(key, operand, instruction, names, before)
            elif role[0] == "{":
                self._vector(key, form.word, operand, instruction, names, before, after)
            else:
                names[key] = self._value(operand, instruction, written=key in "dpq")
                self._add_second(role, operand, instruction, names)
        text = Template(form.statement).substitute(names).replace("@", _PREFIX) + ";"
        self._carries |= "smemkit_carry" in text
        return f"{{ {' '.join([*before, text, *after])} }}" if before or instruction.predicate else text

    def _add_second(self, role: str, operand: Operand, instruction: Instruction, names: _Names) -> None:
        """The predicate behind a `|`: $p is a pointer to it, $q what is assigned to."""
        second = self._value(operand.second, instruction, written=True) if operand.second else None
        if role.endswith("|p"):
            names["p"] = f"&{second}" if second else "nullptr"
        elif role.endswith("|q"):
            names["q"] = second or f"{_PREFIX}nothing()"
        elif second:
            raise PtxError(str(instruction))

    def _vector(self, key, word, operand, instruction, names, before, after) -> None:
        parts = operand.parts if operand.kind == "vector" else (operand,)
        written = key == "d"
        texts = [self._value(part, instruction, written=written) for part in parts]
        names[key], names[f"n{key}"] = f"smemkit_{key}", str(len(parts))
        values = "" if written else f" = {{{', '.join(f'({word}){text}' for text in texts)}}}"
        before.append(f"{'' if written else 'const '}{word} smemkit_{key}[{len(parts)}]{values};")
        if written:
            after += [f"{text} = smemkit_{key}[{i}];" for i, text in enumerate(texts)]

    def _addresses(self, key: str, operand: Operand, instruction: Instruction, names: _Names, before) -> None:
        parts = operand.parts if operand.kind == "vector" else (operand,)
        if any(part.kind != "placeholder" for part in parts):
            raise PtxError(str(instruction), "with registers that are not operands of the asm statement")
        texts = [f"smemkit_to_{self._number_of(part)}" for part in parts]
        addresses = ", ".join(f"{_PREFIX}address({text})" for text in texts)
        names[key], names[f"{key}_at"] = f"smemkit_{key}", f"smemkit_{key}_at"
        at = key if key == "d" else f"{key}_at"
        before.append(f"void *const smemkit_{at}[{len(parts)}] = {{{addresses}}};")
        if key != "d":
            values = ", ".join(f"{_PREFIX}register({text})" for text in texts)
            before.append(f"const uint32_t smemkit_{key}[{len(parts)}] = {{{values}}};")

    def _address(self, operand: Operand, instruction: Instruction) -> str:
        return " + ".join(f"(uint64_t){self._value(part, instruction)}" for part in operand.parts)

    def _value(self, operand: Operand, instruction: Instruction, *, written: bool = False) -> str:
        if operand.kind == "placeholder":
            return self._placeholder(operand, instruction)
        if operand.kind == "number" and not written:
            return _constant(operand.value, instruction.name[-1])
        name = str(operand.value)
        if operand.kind != "name":
            raise PtxError(str(instruction))
        if name == "_" and written:
            return f"{_PREFIX}nothing()"
        if self._kind(name):
            return ("!" if operand.negated else "") + _register(name)
        if name in SPECIAL_REGISTERS and not written:
            return SPECIAL_REGISTERS[name]
        raise PtxError(str(instruction), f"of {name}")

    def _placeholder(self, operand: Operand, instruction: Instruction) -> str:
        number = self._number_of(operand)
        if not 0 <= number < len(self._operands):
            raise PtxError(str(instruction), f"of the operand %{operand.value}, which the statement lacks")
        if number in self._in_place:
            raise PtxError(str(instruction), f"of the operand %{operand.value}, which is a register of wgmma")
        return f"smemkit_{number}"

    def _number_of(self, operand: Operand) -> int:
        text = str(operand.value)
        return int(text) if text.isdigit() else self._numbers.get(text, -1)


def _instructions(block: Block) -> Iterator[Instruction]:
    for item in block.items:
        if isinstance(item, Block):
            yield from _instructions(item)
        elif isinstance(item, Instruction):
            yield item


def _all_parts(operand: Operand | None) -> Iterator[Operand]:
    if operand:
        yield operand
        yield from _all_parts(operand.second)
        for part in operand.parts:
            yield from _all_parts(part)


def _placeholders(block: Block) -> Iterator[Operand]:
    """The asm operands that instructions name."""
    for instruction in _instructions(block):
        for operand in (*instruction.operands, instruction.predicate):
            yield from (part for part in _all_parts(operand) if part.kind == "placeholder")


def _in_place(block: Block) -> Iterator[Operand]:
    """Those that stay where they are: the registers of wgmma, which are in use until a wait."""
    for instruction in _instructions(block):
        if instruction.name[:2] == ("wgmma", "mma_async"):
            for operand in instruction.operands[:2]:
                parts = operand.parts if operand.kind == "vector" else ()
                yield from (part for part in parts if part.kind == "placeholder")


def _fits(role: str, operand: Operand) -> bool:
    if role[0] == "[":
        return operand.kind == "address" and (operand.second is not None) == (";v" in role)
    if role.startswith("{&"):
        return operand.kind == "vector"
    if role[0] == "{":
        return operand.kind in ("vector", "placeholder", "name")
    return operand.kind in ("placeholder", "name", "number")


def _word(modifier: str) -> str:
    """A modifier as part of a C++ name: shared::cta is shared."""
    return modifier.partition("::")[0]


def _register(name: str) -> str:
    return f"smemkit_register_{name.replace('$', '_')}"


def _label(name: str) -> str:
    return f"smemkit_label_{name.replace('$', '_')}"


def _constant(value: int | float, kind: str) -> str:
    """An immediate operand of an instruction whose type is `kind`, as bits."""
    if isinstance(value, float):
        form, bits = (">d", ">Q") if kind.endswith("64") else (">f", ">I")
        value = struct.unpack(bits, struct.pack(form, value))[0]
    if value < 0:
        return f"({value}ll)"
    return f"{value}{'ull' if value > 0x7FFFFFFF else ''}"
