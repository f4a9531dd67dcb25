"""The flags that compile kernels for the CPU device."""

from collections.abc import Callable, Sequence

__all__ = ["LOCALS_FLAG", "compile_flags"]

# The flags of every kernel. CUDA and the hardware define behaviour that C++ leaves open, and host compilers
# exploit that. With these flags, memory has no type (a float may be read as an int, two halves as a half2);
# integers and addresses wrap around; a null pointer is an address like any other, so that its use faults; an
# endless loop does not end; a function without its return does not run into the next one; a char is signed; each
# operation rounds once, to its own type. nvcc fuses a * b + c where it chooses, which differs between releases;
# here only fma fuses, on every processor. Other flags keep variables of the same name in different kernels apart,
# keep a large frame from skipping the guard of its stack, find a local array that was written past its end when
# its function returns, and leave malloc and free, which csrc/executor/heap.c implements, where they are.
_SEMANTIC_FLAGS = (
    *("-std=c++17", "-fno-exceptions", "-fno-strict-aliasing", "-fwrapv", "-fno-strict-overflow"),
    *("-fno-delete-null-pointer-checks", "-fsigned-char", "-ffp-contract=off"),
    *("-fstack-protector-strong", "-fno-builtin-malloc", "-fno-builtin-free"),
)
_OPTIONAL_FLAGS = ("-fno-finite-loops", "-fstack-clash-protection", "-fno-gnu-unique", "-Wno-psabi")

# The flags of a checked build: not optimised, with a hook at every access and basic block, and with line tables.
# It is linked with csrc/checker/hooks.c instead of a sanitizer's runtime library.
_CHECKED_FLAGS = (
    "-O0",
    "-g1",
    "-gdwarf-4",
    "-fsanitize=thread",
    "-fsanitize-coverage=trace-pc",
    "-DSMEMKIT_CHECKED=1",
    "-fno-elide-constructors",  # then a function, with hooks, copies a struct into or out of a call
    *("-fno-builtin-memcpy", "-fno-builtin-memmove", "-fno-builtin-memset"),  # calls, which hooks.c implements
)

# With which clang calls hooks for elements of local arrays, too, which its -fsanitize=thread leaves out: the
# accumulators of wgmma are such elements. They slow all other kernels down for nothing.
LOCALS_FLAG = "-fsanitize-coverage=trace-pc,trace-loads,trace-stores"


def compile_flags(
    accepts: Callable[[str], bool], *, checked: bool = False, extra_flags: Sequence[str] = ()
) -> list[str]:
    """The flags that compile kernels, for setup.py and for `smemkit.Kernel`.

    Parameters
    ----------
    accepts : callable
        Whether the compiler accepts a flag.
    checked : bool
        Whether to make a checked build.
    extra_flags : sequence of str
        The caller's further flags. If they enable a whole sanitizer, it reports its findings instead of trapping.
    """
    clang = accepts("-fsanitize=array-bounds")
    flags = ["-O2", "-fsanitize=return"]
    if accepts("-fsanitize-trap=return"):
        flags.append("-fsanitize-trap=return")
    elif not any(flag.startswith("-fsanitize=") and "undefined" in flag for flag in extra_flags):
        flags.append(
            "-fsanitize-undefined-trap-on-error"
        )  # older gcc: applies to everything that the sanitizer checks
    if checked and clang:  # which otherwise does not instrument a read before a write
        tsan = ["-mllvm", "-tsan-instrument-read-before-write=1", "-mllvm", "-tsan-distinguish-volatile=1"]
        flags = [*_CHECKED_FLAGS, "-fsanitize=array-bounds,return", "-gdwarf-aranges", *tsan]
    elif checked:
        flags = [*_CHECKED_FLAGS, "-fsanitize=bounds-strict,return", "--param=tsan-distinguish-volatile=1"]
    return [*flags, *_SEMANTIC_FLAGS, *filter(accepts, _OPTIONAL_FLAGS)]
