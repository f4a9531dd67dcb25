"""Whether racing stores are harmless, because the source proves that all threads store the same value.

A value is proved if it is made of literals, indices of the block, scalar parameters of the kernel, file-level
constants, macros of those, and local scalars that are declared once, with a proved initialiser; or if it is the
address of a shared array. None of them changes while the kernel runs. Each other mention of such a name must be a
plain read: one that may be another declaration, an assignment, a reference or an argument of a call leaves the
value unproved, and the race an error. Loads and calls are never proved.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from smemkit.checker.evidence import AccessPair, Evidence, Launch
from smemkit.checker.faults import between_blocks
from smemkit.checker.statements import ASSIGNMENT, SourceText
from smemkit.cuda_source.lexer import DEFINE, end_of_expression

__all__ = ["reads_same_value", "stores_same_value"]

_TYPE = r"(?:std::)?(?:bool|char|short|int|long|signed|unsigned|float|double|size_t|u?int(?:8|16|32|64)_t|uint)\b"
_WORD = rf"(?:(?:static|inline|__device__|__constant__|const|constexpr|auto)\b|{_TYPE})"
_KEYWORD = re.compile(rf"{_WORD}|(?:sizeof|static_cast|true|false|nullptr|NULL)\b")
_INDEX = re.compile(r"\b(?:blockIdx|blockDim|gridDim)\s*\.\s*[xyz]\b")
_INDEX_CHANGED = re.compile(r"\b(?:blockIdx|blockDim|gridDim)\b(?!\s*\.\s*[xyz]\b)")
_TOKEN = re.compile(
    r"\s*(?P<literal>\.?\d(?:[eEpP][-+]|[\w.'])*|'(?:\\.|[^'\\\n])+')|\s*(?P<name>[A-Za-z_]\w*)|\s*(?P<sign>\S)"
)
_UNDEFINED = re.compile(r"#[ \t]*undef[ \t]+(\w+)")
# A macro that does nothing to its arguments.
_HARMLESS = re.compile(r"(?:[\w\s.()*/%<>!~|^?:,\[\]\\]|(?<!\+)\+(?!\+)|(?<!-)-(?!-)|[=!<>]=|&&)*")
_CLASS = re.compile(r"\b(?:struct|union|operator)\b|(?<![<,])(?<![<,]\s)\bclass\b")
_REFERENCE = re.compile(r"[\w>]\s*&&?\s*\w*\s*[,)=;]")
_CALL = re.compile(r"\b(?!(?:if|while|for|switch)\b)\w+\s*(?:<[^;(]*>\s*)?\(")
_WRITE = re.compile(r"(?<![=!<>])=(?!=)|<<=|>>=|\+\+|--|\basm\b|\b\w*mem\w*\s*\(|\b\w*store\w*\s*\(|\b__st\w*")
_STEP = r"(?:\+\+|--)\s*{0}\b|\b{0}\s*(?:\+\+|--|[-+*/%&|^]=|<<=|>>=)"

# What stands before and after a plain read of a name.
_BEFORE_READ = re.compile(rf"(?:&&|[=!<>]=|[/%<>|^!~*]|(?<!\+)\+|(?<!-)-|\(\s*(?:{_TYPE}\s*)+\))$")
_ASSIGNED = re.compile(
    rf"(?:[;{{}})]|\belse|\bdo|\bfor\s*\()\s*(?:{_WORD}\s*)*\*?\w+\s*(?:\[[^;{{}}]*\]\s*)?(?:[-+*/%&|^]|<<|>>)?=$"
)
_AFTER_READ = re.compile(r"(?!\+\+|--|[-+*/%&|^]=|<<=|>>=)(?:[-+*/%<>|^&?)\];,]|[!=]=)")


def stores_same_value(launch: Launch, evidence: Evidence, pair: AccessPair) -> bool:
    """Whether a race is one of stores by one statement, of a value that is proved the same for all threads."""
    raw, fault = evidence.raw, evidence.fault
    if fault.hazard != "WAW" or not pair.is_leaf or pair.first is not pair.second:
        return False
    if raw["access"] != "store" or raw["other_access"] != "store" or raw["location"] != raw["other"]:
        return False
    found = _assignment(pair)
    proof = _Proof(launch, pair, between_blocks(fault))
    return bool(
        found
        and not found["op"]
        and proof.is_only_store(found["element"])
        and proof.is_scalar(re.search(r"\w+", found["element"])[0])
        and (proof.is_same(found["value"], pair.first.start) or proof.is_shared_array(found["value"].strip()))
    )


def reads_same_value(launch: Launch, evidence: Evidence, pair: AccessPair, same: list[Evidence]) -> bool:
    """Whether a thread reads a shared variable after its own store, while others store the same value there by the
    same statement, the only one that stores to the variable. The `same` are the races of such stores."""
    fault, first, second = evidence.fault, pair.first, pair.second
    stored = any((other.fault.file, other.fault.line) == (fault.other_file, fault.other_line) for other in same)
    found = _assignment(pair)
    if fault.hazard != "RAW" or not stored or not pair.is_leaf or not found:
        return False
    if not any(
        ancestor.within is first.within and first.index < ancestor.index for ancestor in second.ancestors()
    ):
        return False  # not each thread that reads has stored before
    code = pair.source.code[pair.function.body.start : pair.function.body.end]
    name = evidence.name
    shared = re.search(rf"\b__shared__\b[^;=]*\b{name}\b", code)
    stores = re.findall(rf"\b{name}\b\s*(?:\[[^\]]*\]\s*)*(?:[-+*/%&|^]|<<|>>)?=(?!=)", code)
    if not shared or len(stores) != 1 or re.search(r"\b(?:goto|switch)\b", code):
        return False
    index = re.fullmatch(rf"{name}(?:\s*\[(.*)\])?", found["element"].strip())
    if not index:
        return False
    return not index[1] or _Proof(launch, pair, between_blocks(fault)).is_same(index[1], first.start)


def _assignment(pair: AccessPair) -> re.Match[str] | None:
    """The first access, if it is an assignment to a variable or an element."""
    return ASSIGNMENT.fullmatch(pair.source.without_comments[pair.first.start : pair.first.end].strip())


class _Proof:
    """What the sources prove about the function of a store."""

    def __init__(self, launch: Launch, pair: AccessPair, blocks: bool) -> None:
        self.pair, self.function, self.blocks = pair, pair.function, blocks
        self.open: set[str] = set()  # the constants whose proof has begun
        self.sources = [source for file in launch.texts if (source := launch.source(file))]
        self.macros: dict[str, list[re.Match[str]]] = {}
        for source in self.sources:
            for found in DEFINE.finditer(source.without_comments):
                self.macros.setdefault(found["name"], []).append(found)
        self.undefined = {name for source in self.sources for name in _UNDEFINED.findall(source.without_comments)}
        code, start = pair.source.code, self.function.parameters[0]
        self.extent = max(code.rfind(mark, 0, start) for mark in ";}") + 1, self.function.body.end
        self.has_classes = any(_CLASS.search(source.code) for source in self.sources)
        # whether an operator or a constructor may take a variable by reference, where nothing shows it
        self.takes_references = self.has_classes and any(
            _REFERENCE.search(source.without_comments) for source in self.sources
        )
        # whether a name may mean, or undergo, something else than is written
        self.is_opaque = (
            any(re.search(r"\bdecltype\b", source.without_comments) for source in self.sources)
            or any(map(_KEYWORD.fullmatch, self.macros))
            or not all(map(_HARMLESS.fullmatch, self._macros_in(code[slice(*self.extent)])))
        )

    # ---- the store ----

    def is_only_store(self, element: str) -> bool:
        """Whether nothing else on the lines of the store may store."""
        source, store = self.pair.source, self.pair.first
        start, end = source.extent(source.line(store.start))[0], source.extent(source.last_line(store))[1]
        text = f"{source.code[start : store.start]} ; {source.code[store.end : end]} ; {element}"
        text = " ; ".join([text, *self._macros_in(text)])
        for name in re.findall(rf"(?:{_WORD}\s*)+\b(\w+)\s*=", text):  # local variables
            text = re.sub(rf"(?:{_WORD}\s*)+\b{name}\s*=(?!=)", "", text)
            text = re.sub(_STEP.format(name), "", text)
        calls = self.has_classes and _CALL.search(text)  # a method may store, which stands on one line
        return not (_WRITE.search(text) or calls or _CALL.search(element))

    def is_scalar(self, name: str) -> bool:
        """Whether a store to a variable or its elements converts the value without the author's code."""
        if name in self.macros:
            return False
        if self.function.is_kernel and not self.has_classes:
            return True
        if self.is_opaque:
            return False
        code = self.pair.source.code[slice(*self.extent)]
        scalar = (
            rf"(?:(?:{_TYPE}|const\b|volatile\b|extern\b|__shared__\b)\s*)+[*&]?\s*(?:__restrict__\b)?\s*"
            rf"\b{name}\s*[\[;,)=]"
        )
        # what may be a declaration; products of two names look the same
        other = rf"(?:[\w>]\s*[*&]+|(?!(?:return|else)\b)\b\w+(?:<[^;]*>)?)\s*\b{name}\s*[\[;,)=({{:]"
        return len(re.findall(scalar, code)) == len(re.findall(other, code)) == 1

    def is_shared_array(self, name: str) -> bool:
        """Whether it is the name of an array in shared memory: an address, the same in all of a block."""
        declared = re.compile(rf"\b__shared__\s+(?:{_TYPE}\s*)+\b(?P<name>{re.escape(name)})\s*\[")
        found = declared.search(self.pair.source.code, *self.extent)
        if not found or self.blocks or self.is_opaque or name in self.macros or self._is_in_macro(name):
            return False
        owner = self.function.statement_at(found.start())
        is_outermost = owner is not None and owner.within is self.function.body
        return is_outermost and _is_only_read(self.pair.source, name, found.start("name"), *self.extent)

    # ---- values ----

    def is_same(self, text: str, at: int | None) -> bool:
        """Whether an expression at a position of the function is proved: it has the same value for all threads,
        whenever they evaluate it. Without a position: one outside of functions."""
        text = self._expanded(text)
        if at is not None and not self._changes_index():
            text = _INDEX.sub(lambda found: found[0] if self.blocks and "blockIdx" in found[0] else "1", text)
        before = ""
        for token in _TOKEN.finditer(text):
            if name := token["name"]:
                is_keyword = _KEYWORD.fullmatch(name) and name not in self.macros
                if not is_keyword and not self._is_same_name(name, at):
                    return False
            elif token["literal"]:
                if "_" in token["literal"]:  # one of the author's own kind
                    return False
            elif not _is_operator(token["sign"], before, text[token.end() :]):
                return False
            before = token[0].strip()
        return bool(before)

    def _expanded(self, text: str) -> str:
        """A text with the macros that have no parameters replaced by what they stand for; those that are defined
        in several ways stay."""
        for _ in range(16):
            new = re.sub(r"\b[A-Za-z_]\w*", lambda found: self._expansion(found[0]), text)
            if new == text:
                break
            text = new
        return text

    def _expansion(self, name: str) -> str:
        found = self.macros.get(name, ())
        if len(found) != 1 or found[0]["parameters"] is not None or name in self.undefined:
            return name
        # behind #if, it may be a macro or a variable
        variable = re.compile(rf"\b(?!return\b|else\b)[A-Za-z_]\w*\s[\s*&]*{name}\s*(?:=(?!=)|[({{])")
        return name if any(variable.search(source.code) for source in self.sources) else found[0]["body"].strip()

    def _changes_index(self) -> bool:
        """Whether blockIdx, blockDim or gridDim may be a variable of the author's."""
        return any(_INDEX_CHANGED.search(source.without_comments) for source in self.sources)

    def _is_same_name(self, name: str, at: int | None) -> bool:
        """Whether a name is that of a proved variable."""
        if self.is_opaque or name in self.macros or self._is_in_macro(name):
            return False
        source = self.pair.source
        found = list(_declarations(source, name, *self.extent)) if at is not None else []
        if not found:
            return self._is_file_constant(name)
        declared = found[0]  # others are mentions that are no reads
        is_hidden = self.takes_references and not re.search(r"\bconst(?:expr)?\b", declared["words"])
        if is_hidden or not _is_only_read(source, name, declared.start("name"), *self.extent):
            return False
        if declared.start() < self.function.parameters[1]:
            is_one_value = self.function.is_kernel and "auto" not in declared["words"]
            return is_one_value and re.match(r"\s*[,)>=]", source.code[declared.end() :]) is not None
        return self._is_in_scope(declared, at) and self.is_same(
            _initialiser(source, declared), declared.start("words")
        )

    def _is_in_scope(self, declared: re.Match[str], at: int) -> bool:
        """Whether a position is in the scope of a declaration that begins a statement, or a loop's head."""
        owner, user = self.function.statement_at(declared.end()), self.function.statement_at(at)
        if owner is None or user is None or declared.end() > at:
            return False
        start = declared.start("words")
        if owner.kind == "simple":
            return start == owner.start and any(ancestor.within is owner.within for ancestor in user.ancestors())
        is_first = not self.pair.source.code[owner.head[0] + 1 : start].strip()
        return owner.head[0] < start < owner.head[1] and is_first and owner in user.ancestors()

    def _is_file_constant(self, name: str) -> bool:
        """Whether it is a constant outside of functions, with a proved value, or one in constant memory."""
        found = [(source, declared) for source in self.sources for declared in _declarations(source, name)]
        if len(found) != 1 or name in self.open:
            return False
        source, declared = found[0]
        words, own = declared["words"], declared.start("name")
        if not re.search(r"\b(?:const|constexpr|__constant__)\b", words) or declared[0][0] in "(,<":
            return False
        if not all(_is_only_read(each, name, own if each is source else -1) for each in self.sources):
            return False
        if "__constant__" in words and re.match(r"\s*;", source.code[declared.end() :]):
            return True
        self.open.add(name)
        is_same = self.is_same(_initialiser(source, declared), None)
        self.open.remove(name)
        return is_same

    def _is_in_macro(self, name: str) -> bool:
        """Whether a macro mentions a name, other than to read it or as its own parameter."""
        return any(
            not _is_read(found["body"], name, mention.start())
            for definitions in self.macros.values()
            for found in definitions
            if name not in re.findall(r"\w+", found["parameters"] or "")
            for mention in re.finditer(rf"\b{name}\b", found["body"])
        )

    def _macros_in(self, text: str) -> list[str]:
        """What the macros in a text stand for, and those in that."""
        found: dict[str, list[str]] = {}
        names = set(re.findall(r"\w+", text)) & self.macros.keys()
        while names:
            found |= {name: [macro["body"] for macro in self.macros[name]] for name in names}
            bodies = " ".join(body for name in names for body in found[name])
            names = set(re.findall(r"\w+", bodies)) & self.macros.keys() - found.keys()
        return [body for bodies in found.values() for body in bodies]


def _is_operator(sign: str, before: str, rest: str) -> bool:
    """Whether a sign is one of arithmetic between values, or a bracket around them."""
    if sign == "*":  # no load
        return re.search(r"[\w')]$", before) is not None
    if sign == "=":
        return before in ("=", "!", "<", ">") or rest[:1] == "="
    if sign in "+-:":
        return before != sign
    return sign in "/%<>!&|^?~()"


def _declarations(
    source: SourceText, name: str, start: int = 0, end: int = sys.maxsize
) -> Iterator[re.Match[str]]:
    """The declarations of scalars of a name, those of parameters included."""
    pattern = re.compile(rf"(?:^|[;{{}}(,<)])\s*(?P<words>(?:{_WORD}\s*)+)\b(?P<name>{name})\b")
    yield from pattern.finditer(source.code, start, end)


def _initialiser(source: SourceText, declared: re.Match[str]) -> str:
    """What follows `=` in a declaration; "" if it has no such initialiser."""
    equals = re.compile(r"\s*=(?!=)").match(source.code, declared.end())
    return source.without_comments[equals.end() : end_of_expression(source.code, equals.end())] if equals else ""


def _is_only_read(source: SourceText, name: str, own: int, start: int = 0, end: int = sys.maxsize) -> bool:
    """Whether all mentions of a variable but that of its declaration, at `own`, are reads."""
    mentions = re.compile(rf"\b{name}\b").finditer(source.code, start, end)
    return all(found.start() == own or _is_read(source.code, name, found.start()) for found in mentions)


def _is_read(code: str, name: str, at: int) -> bool:
    """Whether the mention of a variable at a position can only be a read of it, or is that of a member."""
    before, after = code[:at].rstrip(), code[at + len(name) :].lstrip()
    if before.endswith((".", "->")):
        return True
    if not _AFTER_READ.match(after):
        return False
    if before.endswith("(") and not after.startswith(","):
        word = re.search(r"(?:\b(if|while|switch)|[\w)\]>])$", before[:-1].rstrip())
        return bool(word[1]) if word else after[0] != ")"
    if before.endswith("["):
        return bool(re.search(r"[\w)\]](?<!\bauto)(?<!\bconst)(?<!\bvolatile)$", before[:-1].rstrip()))
    if before.endswith(">") and after[0] in ";,":  # vector<int> name;
        return False
    return bool(_BEFORE_READ.search(before) or _ASSIGNED.search(before[-200:]))
