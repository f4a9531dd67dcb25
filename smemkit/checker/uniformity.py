"""Which threads of a block enter a branch: computed where a condition depends on indices and constants only,
otherwise judged by what its names are assigned from."""

from __future__ import annotations

import ast
import re
from functools import cached_property

import numpy as np

from smemkit.checker.statements import LOOPS, Function, SourceText, Statement
from smemkit.cuda_source.lexer import end_of_expression

__all__ = ["Guards"]

_INDEX = re.compile(r"\b(threadIdx|blockDim|blockIdx|gridDim)\s*\.\s*([xyz])\b")
_VARYING = re.compile(
    r"\bthreadIdx\b|\batomic\w+|\b__shfl\w*|\b__ballot\w*|\b__(?:any|all|match|reduce)\w*|\b__activemask\b|\bclock\w*"
    r"|\bthread_rank\b|\bmeta_group_rank\b|\bthread_index\b|\blaneid\b|\b__pipeline\w*"
)
_VOTE = re.compile(r"\b__syncthreads_(?:or|and|count)\s*\((?:[^()]|\([^()]*\))*\)")
_ASSIGNMENT = re.compile(r"\b([A-Za-z_]\w*)\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)\s*")
_STEP = re.compile(r"(?:\+\+|--)\s*([A-Za-z_]\w*)|\b([A-Za-z_]\w*)\s*(?:\+\+|--)")
_TOKENS = re.compile(r"\s*(?:[A-Za-z_]\w*|\d[\w.]*|&&|\|\||[=!<>]=|<<|>>|[-+*/%<>!&|^~()])")
_NAME = re.compile(r"\b[A-Za-z_]\w*")


class Guards:
    """Judges the conditions of one function, launched with blocks of these dimensions."""

    def __init__(self, source: SourceText, function: Function, block: tuple[int, int, int]) -> None:
        self.source, self.function, self.block = source, function, block
        self.code = source.code[function.body.start : function.body.end]

    def is_uniform(self, statement: Statement) -> bool:
        """Whether all threads of the block take the same branch of a conditional, or run a loop equally often."""
        if statement.kind in ("block", "simple"):
            return True
        head = self.source.code[slice(*statement.head)]
        threads = self.threads(statement)
        if threads is not None:
            return bool(threads.all() or not threads.any())
        return not self.is_varying(head)

    def fills_warps(self, statement: Statement) -> bool:
        """Whether each warp enters a conditional as a whole, or not at all."""
        threads = self.threads(statement)
        if threads is None:
            return self.is_uniform(statement)
        padded = np.resize(threads, -(-threads.size // 32) * 32)
        padded[threads.size :] = threads[-1]
        warps = padded.reshape(-1, 32)
        return bool((warps.all(1) | ~warps.any(1)).all())

    def threads(self, statement: Statement) -> np.ndarray | None:
        """The threads for which an `if`'s condition holds; None if that is not known."""
        if statement.kind != "if":
            return None
        value = self.evaluate(self.source.code[slice(*statement.head)])
        if value is None:
            return None
        return np.broadcast_to(np.asarray(value) != 0, (int(np.prod(self.block)),))

    def evaluate(self, expression: str, depth: int = 0) -> np.ndarray | int | None:
        """The value of an integer expression for each thread of the block; None if it depends on more than
        indices and constants."""
        names: dict[str, np.ndarray | int] = {}

        def index(found: re.Match[str]) -> str:
            names[f"{found[1]}_{found[2]}"] = self._index_value(found[1], found[2])
            return f"{found[1]}_{found[2]}"

        text = _INDEX.sub(index, expression)
        if depth > 8 or any(value is None for value in names.values()) or _TOKENS.sub("", text).strip():
            return None
        for name in set(_NAME.findall(text)) - names.keys():
            values = [value for assigned, value, _ in self._assignments if assigned == name]
            value = self.evaluate(values[0], depth + 1) if len(values) == 1 else None
            if name == "warpSize":
                value = 32
            if value is None:
                return None
            names[name] = value
        return _arithmetic(text, names)

    def _index_value(self, name: str, axis: str) -> np.ndarray | int | None:
        number = "xyz".index(axis)
        if name == "blockDim":
            return self.block[number]
        if name != "threadIdx":
            return None
        z, y, x = np.meshgrid(*(np.arange(size) for size in reversed(self.block)), indexing="ij")
        return (x, y, z)[number].ravel()

    def is_varying(self, expression: str) -> bool:
        """Whether the threads of a block may compute different values."""
        expression = _VOTE.sub("1", expression)
        return bool(_VARYING.search(expression)) or any(
            name in self._varying for name in _NAME.findall(expression)
        )

    @cached_property
    def _assignments(self) -> list[tuple[str, str, int]]:
        """The assignments in the function: name, value, position."""
        start = self.function.body.start
        found = [
            (match[1], self.code[match.end() : end_of_expression(self.code, match.end())], start + match.start())
            for match in _ASSIGNMENT.finditer(self.code)
        ]
        return found + [
            (match[1] or match[2], match[1] or match[2], start + match.start())
            for match in _STEP.finditer(self.code)
        ]

    @cached_property
    def _varying(self) -> frozenset[str]:
        """The names whose values may differ among the threads of a block."""
        varying = set(self._varying_parameters())
        shared = set(re.findall(r"__shared__[^;=]*?\b([A-Za-z_]\w*)\s*(?:\[[^;]*)?;", self.code))
        while True:
            new = {
                name
                for name, value, at in self._assignments
                if name not in varying
                and name not in shared
                and (self._mentions(value, varying) or self._is_guarded(at, varying))
            }
            if not new:
                return frozenset(varying)
            varying |= new

    def _varying_parameters(self) -> list[str]:
        """A kernel's parameters are the same for all threads; those of other functions need not be."""
        if self.function.is_kernel:
            return []
        text = self.source.code[slice(*self.function.parameters)].strip("()")
        return [
            _NAME.findall(declaration)[-1]
            for declaration in text.split(",")
            if _NAME.search(declaration) and "*" not in declaration
        ]

    @staticmethod
    def _mentions(value: str, varying: set[str]) -> bool:
        value = _VOTE.sub("1", value)
        return bool(_VARYING.search(value)) or any(name in varying for name in _NAME.findall(value))

    def _is_guarded(self, at: int, varying: set[str]) -> bool:
        """Whether a position is in a branch, or in a loop's body, that some threads may not enter."""
        statement = self.function.statement_at(at)
        around = list(statement.ancestors())[0 if statement.kind == "simple" else 1 :] if statement else []
        return any(
            loop.kind in ("if", "switch", *LOOPS) and self._mentions(self.source.code[slice(*loop.head)], varying)
            for loop in around
        )


# ---- arithmetic ----

_OPERATORS = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.floor_divide,
    ast.Mod: np.mod,
    ast.BitAnd: np.bitwise_and,
    ast.BitOr: np.bitwise_or,
    ast.BitXor: np.bitwise_xor,
    ast.LShift: np.left_shift,
    ast.RShift: np.right_shift,
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
}


def _arithmetic(text: str, names: dict[str, np.ndarray | int]) -> np.ndarray | int | None:
    """Evaluates a C expression of integers; None if it has other parts."""
    text = text.replace("&&", " and ").replace("||", " or ")
    text = re.sub(r"!(?!=)", " not ", text)
    text = re.sub(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]+\b", r"\1", text)
    try:
        with np.errstate(all="ignore"):
            return _value(ast.parse(text.strip(), mode="eval").body, names)
    except (SyntaxError, KeyError, TypeError, ValueError, RecursionError):
        return None


def _value(node: ast.expr, names: dict[str, np.ndarray | int]) -> np.ndarray | int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.Name):
        return names[node.id]
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](_value(node.left, names), _value(node.right, names))
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _OPERATORS[type(node.ops[0])](_value(node.left, names), _value(node.comparators[0], names))
    if isinstance(node, ast.BoolOp):
        values = [np.asarray(_value(operand, names)) != 0 for operand in node.values]
        return (
            np.logical_and.reduce(np.broadcast_arrays(*values))
            if isinstance(node.op, ast.And)
            else (np.logical_or.reduce(np.broadcast_arrays(*values)))
        )
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return np.logical_not(_value(node.operand, names))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return np.negative(_value(node.operand, names))
    raise ValueError("an expression of another kind")
