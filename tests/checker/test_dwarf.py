"""Line programs opcode by opcode; those, their headers and the address ranges of the package's own library and of
compilers' DWARF 2 to 5 against pyelftools."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import smemkit
from smemkit.checker.dwarf import line_rows, unit_ranges
from smemkit.checker.elf import read_sections
from smemkit.checker.line_programs import SECTIONS, line_program

HEADER = {
    "opcode_base": 14,  # one more than the standard's: opcode 13 is unknown, and has two arguments
    "line_base": -5,
    "line_range": 14,
    "minimum_instruction_length": 4,
    "standard_opcode_lengths": [0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 2],
}
COPY = bytes([1])
SET_ADDRESS = bytes([0, 9, 2]) + (0x1_0000_0000).to_bytes(8, "little")


@pytest.mark.parametrize(
    ("code", "row"),
    [
        (COPY, (0, 1, 1, 0)),
        (SET_ADDRESS + COPY, (0x1_0000_0000, 1, 1, 0)),
        (bytes([2, 0x81, 0x01]) + COPY, (129 * 4, 1, 1, 0)),  # advance_pc
        (bytes([3, 0xFF, 0x00]) + COPY, (0, 128, 1, 0)),  # advance_line
        (bytes([3, 40, 3, 0x7F]) + COPY, (0, 40, 1, 0)),  # … back by one
        (bytes([4, 3]) + COPY, (0, 1, 3, 0)),  # set_file
        (bytes([5, 0x80, 0x01, 6, 7, 10, 11, 12, 5]) + COPY, (0, 1, 1, 0)),  # what a row does not hold
        (bytes([8]) + COPY, ((255 - 14) // 14 * 4, 1, 1, 0)),  # const_add_pc
        (bytes([9, 0x34, 0x12]) + COPY, (0x1234, 1, 1, 0)),  # fixed_advance_pc
        (bytes([13, 0x81, 0x01, 2]) + COPY, (0, 1, 1, 0)),  # unknown
        (bytes([0, 3, 0x80, 1, 1]) + COPY, (0, 1, 1, 0)),  # unknown and extended
        (bytes([14 + 14 * 2 + 8]), (2 * 4, 4, 1, 0)),  # special
        (bytes([3, 8, 0, 1, 1]), (0, 9, 1, 1)),  # end_sequence
        (bytes([3, 8, 4, 2, 2, 1, 0, 1, 1]) + COPY, (0, 1, 1, 0)),  # … after which all starts anew
    ],
)
def test_opcodes(code, row):
    assert tuple(line_rows(code, HEADER)[-1]) == row


def test_no_code_has_no_rows():
    assert line_rows(b"", HEADER).shape == (0, 4)


@pytest.fixture
def debug():
    """pyelftools' view of the package's checked library."""
    from elftools.elf.elffile import ELFFile

    (library,) = Path(smemkit.__file__).parent.glob("*checked*.so")
    with library.open("rb") as file:
        yield ELFFile(file).get_dwarf_info()


def test_no_ranges():
    assert unit_ranges(b"").shape == (0, 3)


def test_ranges_of_the_package_are_those_of_pyelftools(debug):
    entries = sorted(debug.get_aranges().entries, key=lambda entry: (entry.begin_addr, entry.info_offset))
    expected = [(entry.begin_addr, entry.begin_addr + entry.length, entry.info_offset) for entry in entries]
    ranges = unit_ranges(debug.debug_aranges_sec.stream.getvalue())
    assert len(expected) > 1000
    assert_array_equal(ranges, np.array([entry for entry in expected if entry[1] > entry[0]]))


def test_rows_of_the_package_are_those_of_pyelftools(debug):
    compared, stream = 0, debug.debug_line_sec.stream
    for unit in debug.iter_CUs():
        program = debug.line_program_for_CU(unit)
        size = program.program_end_offset - program.program_start_offset
        if size < 10_000:
            stream.seek(program.program_start_offset)
            rows = line_rows(stream.read(size), program.header)
            states = [entry.state for entry in program.get_entries() if entry.state]
            expected = [(state.address, state.line, state.file, state.end_sequence) for state in states]
            assert_array_equal(rows, np.array(expected))
            compared += len(expected)
    assert compared > 1000


SOURCE = """#include <array>
static int twice(int x) { return 2 * x; }
namespace inside { struct pair { int a; std::array<int, 3> b; }; }
extern "C" int sum(const inside::pair *p) { return twice(p->a) + int(p->b.size()); }
"""


@pytest.mark.parametrize("compress", ["none", "zlib"])
@pytest.mark.parametrize("version", [2, 3, 4, 5])
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.covering(1)
def test_line_programs_are_found_in_each_version(tmp_path, compiler, version, compress):
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    (tmp_path / "a.cpp").write_text(SOURCE)
    (tmp_path / "b.cpp").write_text(SOURCE.replace("sum", "other"))
    flags = [f"-gdwarf-{version}", f"-gz={compress}", "-shared", "-fPIC", "-Wl,--build-id=none"]
    command = [compiler, *flags, "a.cpp", "b.cpp", "-o", "ab.so"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert compare_units(tmp_path / "ab.so") == 2


def test_line_programs_of_the_package_are_found():
    (library,) = Path(smemkit.__file__).parent.glob("*checked*.so")
    assert compare_units(library) > 10


def compare_units(library):
    """Compares the line program of each unit of a library with pyelftools'; returns how many there are."""
    from elftools.elf.elffile import ELFFile

    sections, compared = read_sections(library, SECTIONS), 0
    with library.open("rb") as file:
        debug = ELFFile(file).get_dwarf_info(relocate_dwarf_sections=False)
        for unit in debug.iter_CUs():
            program = debug.line_program_for_CU(unit)
            debug.debug_line_sec.stream.seek(program.program_start_offset)
            code, header, files = line_program(sections, unit.cu_offset)
            size = program.program_end_offset - program.program_start_offset
            assert code == debug.debug_line_sec.stream.read(size)
            assert header == {name: program.header[name] for name in header}
            expected = [entry.name.decode() for entry in program.header.file_entry]
            assert files == (expected if program.header.version >= 5 else ["", *expected])
            compared += 1
    return compared


def test_what_is_no_library_or_has_no_line_program(tmp_path):
    file = tmp_path / "x.so"
    file.write_bytes(b"MZ" + bytes(100))
    with pytest.raises(ValueError, match="expected a 64-bit little-endian ELF file"):
        read_sections(file, SECTIONS)
    unit = bytes([11, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8, 1])  # of DWARF 4, whose only abbreviation has no attribute
    sections = {".debug_info": unit, ".debug_abbrev": bytes([1, 0x11, 0, 0, 0, 0]), ".debug_line": b""}
    with pytest.raises(ValueError, match="no line program"):
        line_program(sections, 0)
    with pytest.raises(ValueError, match="32-bit DWARF 2 to 5, got version 6"):
        line_program(sections | {".debug_info": unit[:4] + b"\6" + unit[5:]}, 0)
    with pytest.raises(ValueError, match="expected abbreviation 1"):
        line_program(sections | {".debug_abbrev": bytes(1)}, 0)
