"""Kernels that share a name: each is named with its parameters' types, "scale(float *, int)"."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["alias", "base_name", "normalised", "signature", "template_name"]

_IGNORED = re.compile(r"\b(?:__restrict__|__restrict|__grid_constant__|register)\b")


def signature(declarations: Sequence[str], names: Sequence[str]) -> str:
    """The types of a kernel's parameters.

    Examples
    --------
    >>> signature(("const float *x", "int n", "float s[4]", "void (*f)(int)"), ("x", "n", "s", "f"))
    'const float *, int, float *, void (*)(int)'
    """
    return ", ".join(_type(declaration, name) for declaration, name in zip(declarations, names, strict=True))


def _type(declaration: str, name: str) -> str:
    text = declaration.partition("=")[0]
    text = re.sub(rf"\b{name}\b(?!.*\b{name}\b)", " ", text) if name else text
    text = re.sub(r"\[[^\]]*\]", " * ", _IGNORED.sub(" ", text), count=1)
    if "*" not in text and "&" not in text:
        text = re.sub(r"\b(?:const|volatile)\b", " ", text)  # of a copy, which is not part of the function's type
    return normalised(text)


def normalised(text: str) -> str:
    """A type, or a name with types, with spaces in the same places.

    Examples
    --------
    >>> normalised("scale( const float*x ,int )")
    'scale(const float *x, int)'
    """
    text = re.sub(r"\s*([*&,()<>])\s*", r"\1", " ".join(text.split()))
    text = re.sub(r"(?<=[\w>])([*&])|(?<=\w)(\()(?=\*)", r" \1\2", text)
    return text.replace(",", ", ")


def base_name(name: str) -> str:
    """A kernel's name without the types of its parameters.

    Examples
    --------
    >>> base_name("outer::scale(pair<int> *)"), base_name("scale<int>")
    ('outer::scale', 'scale<int>')
    """
    return name.partition("(")[0] if template_name(name) == name else name


def template_name(name: str) -> str:
    """A kernel's name without template arguments.

    Examples
    --------
    >>> template_name("scale<int>"), template_name("scale(pair<int> *)")
    ('scale', 'scale(pair<int> *)')
    """
    base = name.partition("<")[0]
    return name if "(" in base else base


def alias(name: str, number: int) -> tuple[str, str]:
    """C++ that defines a pointer to a kernel, and the expression that stands for the kernel. Only one that shares
    its name needs the pointer: its types are looked up in its namespace."""
    if base_name(name) == name:
        return "", name
    *spaces, last = base_name(name).split("::")
    types, variable = name[len(base_name(name)) + 1 : -1], f"smemkit_overload_{number}"
    pointer = f"static constexpr auto {variable} = static_cast<void (*)({types})>(&{last});"
    opening = "".join(f"namespace {space} {{ " for space in spaces)
    return f"{opening}{pointer}{' }' * len(spaces)} ", "*" + "::".join([*spaces, variable])
