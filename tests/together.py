"""Sources that differ in one kernel as one source, which is compiled in little more time than one of them."""

import re


def together(name, texts):
    """A source with the kernels of all texts, called name0, name1, …; what precedes the kernel stands once."""
    (head,) = {text.partition("__global__")[0] for text in texts}
    kernels = (re.sub(rf"\b{name}\(", f"{name}{i}(", text[len(head) :]) for i, text in enumerate(texts))
    return head + "\n".join(kernels)
