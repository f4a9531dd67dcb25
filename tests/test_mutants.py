"""The list of mutants (tests/tools/mutants.py) fits the sources: each finds the text that it replaces."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "tools"))
import mutants


def test_every_mutant_finds_its_text():
    assert len(mutants.MUTANTS) > 50
    mutants.check_texts(mutants.MUTANTS)
