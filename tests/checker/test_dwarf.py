"""Line programs opcode by opcode; those and the address ranges of the package's own library against pyelftools."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import smemkit
from smemkit.checker.dwarf import line_rows, unit_ranges

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
