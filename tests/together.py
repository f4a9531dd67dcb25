"""Sources that differ in one kernel as one source, which is compiled in little more time than one of them."""

import re
from bisect import bisect_right
from functools import cached_property

import pytest

import smemkit


def together(name, texts):
    """A source with the kernels of all texts, called name0, name1, …; what precedes the kernel stands once."""
    heads = {text.partition("__global__")[0] for text in texts}
    assert len(heads) == 1, "the texts differ before their kernels"
    head = heads.pop()
    kernels = []
    for i, text in enumerate(texts):
        renamed, count = re.subn(rf"\b{name}\(", f"{name}{i}(", text[len(head) :])
        assert count, f"no kernel {name} in {text}"
        kernels.append(renamed)
    return head + "\n".join(kernels)


class Kernels:
    """The kernels of a module's tests, which are compiled together: `kernels["name"]` is one of them. The module
    adds their sources while it is imported; they are compiled when the first kernel is asked for."""

    def __init__(self, options=()):
        self.options, self.texts = options, []

    def add(self, text):
        """Adds a source, and returns it."""
        if text not in self.texts:
            self.texts.append(text)
        return text

    @cached_property
    def source(self):
        return "\n".join(self.texts)

    @cached_property
    def all(self):
        with smemkit.Device("cpu"):
            return smemkit.Kernel(self.source, options=self.options)

    def __getitem__(self, name):
        return self.all[name]

    def line(self, mark, name=""):
        """The line of the source where a mark first occurs, after the name of a kernel."""
        start = re.search(rf"\b{name}\(", self.source).start() if name else 0
        return self.source[: self.source.index(mark, start)].count("\n") + 1


class Variants(Kernels):
    """Variants of one kernel: `variants[text]` is that of an added text."""

    def __init__(self, name, options=()):
        super().__init__(options)
        self.name = name

    @cached_property
    def source(self):
        return together(self.name, self.texts)

    def __getitem__(self, text):
        return self.all[f"{self.name}{self.texts.index(text)}"]

    def line(self, mark, text=None):
        """The line of the source where a mark first occurs in a text, or before the kernels."""
        return super().line(mark, f"{self.name}{self.texts.index(text)}" if text else "")


def compile_errors(name, texts, options=()):
    """The messages of variants of a kernel that do not compile, each its own, by one compilation."""
    source = together(name, texts)
    with smemkit.Device("cpu"), pytest.raises(smemkit.CompileError) as caught:
        smemkit.Kernel(source, options=options)
    begins = (re.search(rf"\b{name}{i}\(", source).start() for i in range(len(texts)))
    starts = [source[:begin].count("\n") + 1 for begin in begins]
    messages = [""] * len(texts)
    for error in caught.value.errors:
        if error.line is not None and error.file == "kernel.cu" and error.line >= starts[0]:
            messages[bisect_right(starts, error.line) - 1] += f"{error}\n"
    return messages
