"""resources.py reads what ptxas reports."""

import pytest
import resources

REPORT = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z12matmul_tiledIfLi32EEvPKT_S2_PS0_lllll6corner' for 'sm_90a'
ptxas info    : Function properties for _Z12matmul_tiledIfLi32EEvPKT_S2_PS0_lllll6corner
    8 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 31 registers, used 1 barriers, 8 bytes cumulative stack size, 8192 bytes smem
ptxas info    : Compiling entry function '_Z12matmul_tiledIfLi16EEvPKT_S2_PS0_lllll6corner' for 'sm_90a'
ptxas info    : Function properties for _Z12matmul_tiledIfLi16EEvPKT_S2_PS0_lllll6corner
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 2048 bytes smem
ptxas info    : Compiling entry function '_Z12matmul_tiledIdLi32EEvPKT_S2_PS0_lllll6corner' for 'sm_90a'
ptxas info    : Function properties for _Z12matmul_tiledIdLi32EEvPKT_S2_PS0_lllll6corner
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 99 registers, used 1 barriers, 16384 bytes smem
ptxas info    : Compiling entry function '_Z12matmul_tiledI7complexIfELi32EEvPKT_S4_PS2_lllll6corner' for 'sm_90a'
ptxas info    : Function properties for _Z12matmul_tiledI7complexIfELi32EEvPKT_S4_PS2_lllll6corner
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 97 registers, used 1 barriers, 16384 bytes smem
ptxas info    : Compiling entry function '_Z17matmul_add_slicesIfEvPKfPfll' for 'sm_90a'
ptxas info    : Function properties for _Z17matmul_add_slicesIfEvPKfPfll
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 98 registers, used 1 barriers, 99 bytes smem
"""


def test_the_instances_in_float32_are_read():
    assert resources.parse(REPORT, 32) == resources.Resources(registers=31, shared=8192, spilled=12)
    assert resources.parse(REPORT) == resources.Resources(registers=40, shared=8192, spilled=12)
    without_shared = REPORT.replace("Used 40 registers, used 1 barriers, 2048 bytes smem", "Used 7 registers")
    halves = REPORT.replace("tiledIfLi32E", "tiledI6__halfLi32E")
    assert resources.parse(halves, 32, "float16") == resources.Resources(registers=31, shared=8192, spilled=12)
    assert resources.parse(without_shared, 16) == resources.Resources(registers=7, shared=0, spilled=0)
    with pytest.raises(ValueError, match="no kernel in float32"):
        resources.parse(REPORT.replace("If", "Id"))


def test_what_spills_is_told_but_for_the_functions_that_may():
    found = resources.spilling(REPORT)
    assert len(found) == 1 and found[0].startswith("12 bytes: void matmul_tiled<float, 32>(float const*")
    assert not resources.spilling(REPORT.replace("12matmul_tiledIfLi32E", "15matmul_stream_kILb0E"))


def test_functions_of_the_next_file_are_not_called_by_the_last_kernel():
    next_file = """ptxas info    : 0 bytes gmem
ptxas info    : Function properties for _Z9store_anyIdEvPvT_
    8 bytes stack frame, 100 bytes spill stores, 100 bytes spill loads
ptxas info    : Compiling entry function '_Z11reduce_rowsIdEvPKd' for 'sm_90a'
ptxas info    : Function properties for _Z11reduce_rowsIdEvPKd
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers
"""
    assert resources.spilling(REPORT + next_file) == resources.spilling(REPORT)
    same_file = next_file.replace("ptxas info    : 0 bytes gmem\n", "")
    assert any("200 bytes: void matmul_add_slices" in line for line in resources.spilling(REPORT + same_file))


def test_products_that_wait_for_each_other_are_told():
    note = "ptxas info    : (C7513) Potential Performance Loss: wgmma.mma_async instructions are serialized due to"
    waits = f"{REPORT}{note} non wgmma instructions in the function '_Z12matmul_wgmmaIfEvPKf'\n"
    assert [
        line
        for line in resources.spilling(waits)
        if line == "wgmma is serialised: void matmul_wgmma<float>(float const*)"
    ]


def test_stream_k_is_read_as_float32():
    name = "_Z15matmul_stream_kILb1EEv8matricesPf13matmul_sharesP6piecesl"
    report = (
        f"ptxas info    : Compiling entry function '{name}' for 'sm_90a'\nptxas info    : Used 128 registers\n"
    )
    assert resources.parse(report).registers == 128


def test_a_rung_that_leaves_no_room_for_a_second_block_is_told():
    many = REPORT.replace("12matmul_tiledIf", "16matmul_warp_tileIf").replace(
        "Used 40 registers", "Used 129 registers"
    )
    assert [line for line in resources.spilling(many) if line.startswith("129 registers: void matmul_warp_tile")]


def test_lines_that_a_parallel_build_has_mixed_hide_no_spill():
    first, *others = REPORT.split("ptxas info    : Compiling")[1:]
    name, properties, spills, used, _ = first.split("\n")
    torn = "\n".join(f"ptxas info    : Compiling{x}" for x in (name, *others)) + "\n".join(
        (properties, spills, used)
    )
    assert resources.spilling(torn) == resources.spilling(REPORT)
    lost = REPORT.replace(f"{properties}\n{spills}\n", "")
    assert [line[:45] for line in resources.spilling(lost)] == ["nothing is reported of the spills of void mat"]
    rung = REPORT.replace("12matmul_tiledIf", "16matmul_warp_tileIf").replace("Used 40 registers, ", "")
    assert any(
        line.startswith("None registers: void matmul_warp_tile<float, 16>") for line in resources.spilling(rung)
    )


def test_a_log_that_has_no_kernels_is_refused():
    with pytest.raises(ValueError, match="no kernel"):
        resources.spilling("nvcc warning : nothing to say")
