"""The tool that compiles and checks public code."""

import argparse

import corpus

import smemkit


def test_seconds_are_medians_of_first_kernels_and_of_all(capsys):
    corpus.print_seconds(
        {"a.cu": {"check_seconds": [[1.0, 0.5], [0.2, 0.1]]}, "b.cu": {"check_seconds": [[3.0, 1.5]]}}
    )
    first, every = capsys.readouterr().out.splitlines()
    assert first == "a file's first kernel, compiled and checked: median 2.00 s, 1.00 CPU-s (2 kernels)"
    assert every == "every kernel, compiled and checked: median 1.00 s, 0.50 CPU-s (3 kernels)"


def test_without_checked_kernels_there_are_no_seconds(capsys):
    corpus.print_seconds({"a.cu": {"check_seconds": []}, "b.cu": {}})
    assert capsys.readouterr().out == ""


def test_a_file_that_fails_outside_its_own_lines_has_kernels(tmp_path):
    file = tmp_path / "k.cu"
    file.write_text("__global__ void k(int *x);\n")
    declared, failed = smemkit.CompileError("declared"), smemkit.CompileError("in a header")
    declared.errors, declared.undefined = [], ("k(int*)",)
    failed.errors, failed.undefined = [], ()
    assert corpus.defines_no_kernel(str(file), (), declared)
    assert not corpus.defines_no_kernel(str(file), (), failed)


def test_a_list_says_how_it_was_made(tmp_path):
    file = tmp_path / "list.tsv"
    options = argparse.Namespace(tsv=file, repository="a/b", commit="c", programs="p/*", draw=5, seed=3)
    options.check, options.nvcc, options.limit = True, file, 9
    corpus.write_list({"k.cu": {"verdict": "fails", "failures": {"k": "k.cu:3: no\nmore"}}}, options)
    assert file.read_text().splitlines() == [
        "# a/b c",
        "# --programs p/* --draw 5 --seed 3, --check, 9 s per file, without what nvcc refuses",
        "path\tverdict\tcause",
        "k.cu\tfails\tno",
    ]
