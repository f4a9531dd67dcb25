"""A kernel's registers and static shared memory without a GPU: from nvcc's log, and from the source."""

import re

import pytest

import smemkit
from smemkit.__main__ import main
from smemkit.measure.ptxas import find_resources, read_log

# nvcc 13.0 -Xptxas -v, for two architectures
LOG = """\
ptxas info    : 8 bytes gmem, 400 bytes cmem[3]
ptxas info    : Compiling entry function '_Z4plusIfEvPT_' for 'sm_90'
ptxas info    : Function properties for _Z4plusIfEvPT_
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers
ptxas info    : Compile time = 1.121 ms
ptxas info    : Compiling entry function '_Z4plusIdEvPT_' for 'sm_90'
ptxas info    : Used 14 registers, used 0 barriers
ptxas info    : Compiling entry function '_ZN5outer4tileEPKfPf' for 'sm_90'
ptxas info    : Used 168 registers, used 1 barriers, 4096 bytes smem
ptxas info    : Compiling entry function '_ZN5outer4tileEPKfPf' for 'sm_80'
ptxas info    : Used 40 registers, 4096+0 bytes smem, 368 bytes cmem[0]
ptxas info    : Compiling entry function 'plain' for 'sm_90a'
ptxas info    : Used 32 registers
"""
SOURCE = """\
namespace outer { template <class T> struct Pair { __device__ T *both() { __shared__ T pair[2]; return pair; } }; }
__shared__ int at_file_scope[7];
template <class T, int N> __device__ T *buffer() { __shared__ T values[N]; return values; }
__device__ double not_called() { __shared__ double unused[100]; return unused[threadIdx.x]; }
__global__ void tile(float *x)
{
    extern __shared__ float dynamic[];
    __shared__ float s[32][32];
    s[0][0] = at_file_scope[0] + *buffer<short, 50>() + *outer::Pair<char>().both() + dynamic[0];
    x[0] = s[0][0];
}
__global__ void none(float *x) { x[0] = 1; }
"""


def test_the_kernels_of_a_log():
    found = [
        (kernel.symbol, kernel.architecture, kernel.registers, kernel.shared_bytes) for kernel in read_log(LOG)
    ]
    assert found == [
        ("_Z4plusIfEvPT_", "90", 10, 0),
        ("_Z4plusIdEvPT_", "90", 14, 0),
        ("_ZN5outer4tileEPKfPf", "90", 168, 4096),
        ("_ZN5outer4tileEPKfPf", "80", 40, 4096),
        ("plain", "90", 32, 0),
    ]


@pytest.mark.parametrize(
    ("name", "architecture", "registers"),
    [
        ("outer::tile", "90", 168),
        ("tile", "80", 40),
        ("tile", "75", 168),
        ("plus<float>", "90", 14),
        ("plain", "90", 32),
    ],
)
def test_a_kernel_of_a_log(name, architecture, registers):
    assert find_resources(LOG, name, architecture).registers == registers


@pytest.mark.parametrize("name", ["ile", "til", "tiles", "lus"])
def test_other_kernels_are_refused_with_those_there_are(name):
    with pytest.raises(
        ValueError, match=rf"log: expected the output of nvcc -Xptxas -v with kernel {name}; its ker.*plain"
    ):
        find_resources(LOG, name, "90")


# ---- a source ----


@pytest.fixture(scope="module")
def kernel():
    return smemkit.Kernel(SOURCE, "tile")


def test_static_shared_memory_of_a_source(kernel):
    assert kernel.static_shared == {"s": 4096, "at_file_scope": 28, "values": 100, "pair": 2}
    assert kernel["none"].static_shared == {}


def test_static_shared_memory_is_of_one_kernel():
    with pytest.raises(ValueError, match=re.escape('expected kernel["name"] with one of tile, none')):
        _ = smemkit.Kernel(SOURCE).static_shared


def test_occupancy_of_a_source_counts_its_shared_memory(kernel):
    found = smemkit.occupancy(kernel, block_size=64, shared_bytes=6000, capability="9.0")
    row = next(row for row in found.resources if row.name == "shared memory")
    assert row.per_block == 11264  # 4226 + 6000 + 1024, rounded up to 128
    assert found == smemkit.occupancy(block_size=64, shared_bytes=10226, capability="9.0")
    assert str(found).endswith(
        "4,226 bytes of static shared memory by the source; registers are assumed not to limit, as up to 32 never "
        "do; nvcc -Xptxas -v prints them"
    )


def test_given_registers_are_not_assumed(kernel):
    found = smemkit.occupancy(kernel, block_size=64, registers=128, capability="9.0")
    assert found.limited_by == "registers"
    assert found.notes == ("4,226 bytes of static shared memory by the source",)


def test_occupancy_by_a_log(kernel, tmp_path):
    file = tmp_path / "build.log"
    file.write_text(LOG)
    for log in (LOG, file, str(file)):
        found = smemkit.occupancy(kernel, block_size=256, capability="9.0", log=log)
        assert (found.blocks, found.limited_by) == (1, "registers")
        assert found.notes == ("168 registers and 4,096 bytes by nvcc for sm_90",)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"log": LOG}, "log: expected only with a target and without a GPU"),
        (
            {"target": "kernel", "log": LOG.replace("tile", "rows")},
            "with kernel tile; its kernels: _Z4plusIfEvPT_",
        ),
        ({"target": "kernel", "log": "some\ntext"}, "with kernel tile; its kernels: none"),
    ],
)
def test_logs_that_do_not_fit(kernel, arguments, message):
    arguments = {name: kernel if value == "kernel" else value for name, value in arguments.items()}
    with pytest.raises(ValueError, match=re.escape(message)):
        smemkit.occupancy(block_size=64, capability="9.0", **arguments)


def test_the_command_line(tmp_path, capsys):
    file, log = tmp_path / "k.cu", tmp_path / "build.log"
    file.write_text(SOURCE)
    log.write_text(LOG)
    line = ["occupancy", str(file), "--kernel", "tile", "--block-size", "256", "--capability", "sm_90"]
    assert main(line) == 0
    assert "4,226 bytes of static shared memory by the source" in capsys.readouterr().out
    assert main([*line, "--log", str(log)]) == 0
    assert "1 block of 256 threads" in capsys.readouterr().out
    assert main(["occupancy", "--block-size", "64", "--capability", "9.0", "--log", str(log)]) == 2
    assert "smemkit: --log: goes with a FILE.cu" in capsys.readouterr().err
