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


class Variants:
    """Variants of a kernel, which are compiled together. A module adds all texts that its tests use while it is
    imported; `variants[text]` is the kernel of one, and is compiled with the others when it is first asked for."""

    def __init__(self, name, options=()):
        self.name, self.options, self.texts = name, options, []

    def add(self, text):
        """Adds a text, and returns it."""
        if text not in self.texts:
            self.texts.append(text)
        return text

    @cached_property
    def source(self):
        return together(self.name, self.texts)

    @cached_property
    def _kernels(self):
        with smemkit.Device("cpu"):
            return smemkit.Kernel(self.source, options=self.options)

    def kernel_name(self, text):
        return f"{self.name}{self.texts.index(text)}"

    def __getitem__(self, text):
        return self._kernels[self.kernel_name(text)]

    def line(self, text, mark):
        """The line of the source where a mark first occurs in a text."""
        start = self.source.index(f"{self.kernel_name(text)}(")
        return self.source[: self.source.index(mark, start)].count("\n") + 1


def compile_errors(name, texts, options=()):
    """The messages of variants of a kernel that do not compile, each its own, by one compilation."""
    source = together(name, texts)
    with smemkit.Device("cpu"), pytest.raises(smemkit.CompileError) as caught:
        smemkit.Kernel(source, options=options)
    starts = [source[: source.index(f"{name}{i}(")].count("\n") + 1 for i in range(len(texts))]
    messages = [""] * len(texts)
    for error in caught.value.errors:
        if error.line is not None and error.file == "kernel.cu" and error.line >= starts[0]:
            messages[bisect_right(starts, error.line) - 1] += f"{error}\n"
    return messages
