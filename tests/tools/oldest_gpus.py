"""Compiles each kernel for the oldest GPU that it needs, without optimisation, in a tenth of the time.
This tool and a build with SMEMKIT_ARCHS=90a-real compile what a CUDA build does where no GPU is seen.

    python tests/tools/oldest_gpus.py [FOLDER]

Prints the messages of those that do not compile, and exits with 1. Needs nvcc, 12.9 or newer, and setuptools.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FAST_COMPILATION = (12, 9)  # the first nvcc with -Ofc
sys.path.insert(0, str(ROOT / "tests"))
from setup_file import build  # noqa: E402


def compile_for(arch, nvcc, folder, source):
    """nvcc's messages, or an empty string."""
    command = [nvcc, "-std=c++17", "-Ofc=max", *build.NVCC_UNUSED_RESULT, f"-arch=sm_{arch}", "-cubin"]
    command += [f"-I{folder}/kernels", source, "-o", os.devnull]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return f"{source}\n{done.stdout}" if done.returncode else ""


def main(folder=ROOT):
    toolkits = [kit for kit in map(build.ask_nvcc, build.nvcc_candidates()) if kit.version >= FAST_COMPILATION]
    if not toolkits:
        sys.exit("oldest_gpus: there is no nvcc of CUDA 12.9 or newer")
    jobs = []
    for row in build.read_table((folder / "kernels/kernels.def").read_text()):
        oldest = build.OLDEST_ARCH if row.needs == "ANY" else row.needs.removeprefix("SM_").lower()
        if oldest not in ("host", "90a"):  # the build compiles those for 90a alone
            jobs.append((oldest, toolkits[0].nvcc, folder, folder / "kernels" / row.source))
    jobs.sort(key=lambda job: -job[-1].stat().st_size)  # so that no core waits for the last
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        failed = [text for text in pool.map(lambda job: compile_for(*job), jobs) if text]
    print(*failed, f"{len(jobs)} kernels compiled for the oldest GPUs, {len(failed)} failed", sep="\n")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
