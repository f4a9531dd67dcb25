"""tests/tools/oldest_gpus.py, with a compiler that refuses what the kernel's text says."""

from pathlib import Path

import oldest_gpus
import pytest

TABLE = """
KERNEL(matmul, tiled, 20, ANY, CPU, EVERY, RUNG)
KERNEL(matmul, pipelined, 70, SM_80, CPU, EVERY, RUNG)
KERNEL(matmul, wgmma, 90, SM_90A, CPU, EVERY, RUNG)
KERNEL(matmul, sequential, 0, HOST, CPU, EVERY, RUNG)
"""
NVCC = """#!/bin/sh
for option; do
    case $option in -arch=*) arch=$option ;; *.cu) source=$option ;; esac
done
! grep -q "refuse $arch" "$source" || { echo "no such instruction"; exit 1; }
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A tree with a table of kernels, and a compiler."""
    nvcc = tmp_path / "nvcc"
    nvcc.write_text(NVCC)
    nvcc.chmod(0o755)
    kits = [
        oldest_gpus.build.Toolkit(Path("/old/nvcc"), (12, 4), []),
        oldest_gpus.build.Toolkit(nvcc, (13, 0), []),
    ]
    monkeypatch.setattr(oldest_gpus.build, "nvcc_candidates", lambda: kits)
    monkeypatch.setattr(oldest_gpus.build, "ask_nvcc", lambda kit: kit)
    (tmp_path / "kernels/matmul/ladder").mkdir(parents=True)
    (tmp_path / "kernels/kernels.def").write_text(TABLE)
    for name in "20_tiled.cu", "70_pipelined.cu", "90_wgmma.cu", "00_sequential.c":
        (tmp_path / "kernels/matmul/ladder" / name).write_text("refuse -arch=sm_90a")
    return tmp_path


def test_kernels_compile_for_the_oldest_gpu_that_they_need(folder, capsys):
    assert oldest_gpus.main(folder) == 0
    assert "2 kernels compiled for the oldest GPUs, 0 failed" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "arch"), [("20_tiled.cu", "sm_75"), ("70_pipelined.cu", "sm_80")])
def test_one_that_does_not_compile_fails_with_its_messages(folder, capsys, name, arch):
    (folder / "kernels/matmul/ladder" / name).write_text(f"refuse -arch={arch}")
    assert oldest_gpus.main(folder) == 1
    text = capsys.readouterr().out
    assert name in text
    assert "no such instruction" in text
    assert "1 failed" in text
