"""Sources that differ in one kernel as one source, which is compiled in little more time than one of them."""

import re


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
