"""The list of mutants (mutants.py) fits the sources: each finds the text that it replaces."""

import mutants


def test_every_mutant_finds_its_text():
    assert len(mutants.MUTANTS) > 50
    mutants.check_texts(mutants.MUTANTS)
