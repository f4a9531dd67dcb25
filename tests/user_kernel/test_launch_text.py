"""`smemkit check`: the syntax of its arguments, its exit status and its errors, without compiler and executor."""

import io
import json
import re

import ml_dtypes
import numpy as np
import pytest
from reports import RACE, Kernel, halo, report, unpadded

import smemkit
from smemkit import ops
from smemkit.__main__ import main
from smemkit.ci import command, results
from smemkit.user_kernel.launch_text import join_values, parse_argument, parse_dimensions

# ---- the grammar of --arg ----


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-3", -3),
        ("+7", 7),
        ("0x10", 16),
        ("10u", 10),
        ("5ULL", 5),
        ("0.5", 0.5),
        (".5f", 0.5),
        ("2.", 2.0),
        ("1e-3f", 1e-3),
        ("-1E6", -1e6),
        ("inf", np.inf),
        ("-inf", -np.inf),
        ("true", True),
        ("false", False),
    ],
)
def test_scalars(text, value):
    found = parse_argument(text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("tensormap half[128,64] box 64,64 swizzle 128", "float16, shape (128, 64), box (64, 64), swizzle 128"),
        ("tensormap float[8,32]=zeros box 8,32", "float32, shape (8, 32), box (8, 32), swizzle 0"),
        ("tensormap float[8,8] box 4 , 8 tf32 fill nan", "swizzle 0, rounded to TF32"),
        ("tensormap float[64,8] swizzle 32 box 4,8 element_strides 2,1", "element strides (2, 1)"),
        ("tensormap float[64,8] box 4,8 strides 16,4", "strides (16, 4)"),
    ],
)
def test_tensor_maps(text, shown):
    found = parse_argument(text)
    assert isinstance(found, smemkit.TensorMap) and shown in repr(found)
    assert found.fill == ("nan" if "nan" in text else "zeros")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tensormap half[128,64]", "expected the box of the tensor map, such as box 64,64"),
        ("tensormap half[128,64] box", "got box$"),
        ("tensormap half[128,64] box 64,64 swizzle x", "got swizzle x"),
        ("tensormap half[128,64] box 64,64 tf32 1", "got tf32 1"),
        ("tensormap half[128,64] box 64,64 swizzle 96", "swizzle: expected one of 0, 32, 64, 128, got 96"),
        ("tensormap float[64,8] box 4,8 strides 64,4", "strides: expected at most the 2048 bytes of the array"),
        ("tensormap half[128,64] box 64,64 swizzle 128,64", "got swizzle 128,64"),
        ("tensormap half[128,64] box 64,64 box 8,64", "box is given twice"),
        (
            "tensormap half[128,64] box 64,64 interleave 16",
            "expected box, swizzle, fill, .*; got box 64,64 interleave 16",
        ),
        ("tensormap 3 box 64,64", "expected an array, such as half.128,64., got '3'"),
        ("tensormap half[x] box 64,64", "expected a shape of whole numbers in brackets"),
    ],
)
def test_texts_that_are_no_tensor_map(text, message):
    with pytest.raises(ValueError, match=f"^--arg .*{message}"):
        parse_argument(text)


def test_a_null_pointer():
    assert parse_argument("nullptr") is None


def test_nan_is_a_scalar():
    assert np.isnan(parse_argument("nan"))


@pytest.mark.parametrize(
    ("text", "dtype", "value"),
    [
        ("float=0.5", np.float32, 0.5),
        ("double = 3", np.float64, 3.0),
        ("unsigned char=255", np.uint8, 255),
        ("long long=-9223372036854775808", np.int64, -(2**63)),
        ("size_t=18446744073709551615", np.uint64, 2**64 - 1),
        ("bool=true", np.bool_, True),
        ("half=0.5", np.float16, 0.5),
        ("bfloat16=0.5", ml_dtypes.bfloat16, 0.5),
        ("int=4.0", np.int32, 4),
    ],
)
def test_scalars_with_a_type(text, dtype, value):
    found = parse_argument(text)
    assert found.dtype == dtype
    assert found == value
    assert found.shape == ()


@pytest.mark.parametrize(
    ("text", "dtype", "shape"),
    [
        ("float[1024]", "float32", (1024,)),
        ("double[8, 4]", "float64", (8, 4)),
        ("int[2][3]", "int32", (2, 3)),
        ("unsigned[4]", "uint32", (4,)),
        ("unsigned int[4]", "uint32", (4,)),
        ("unsigned  long long [4]", "uint64", (4,)),
        ("char[4]", "int8", (4,)),
        ("uint8_t[1_000]", "uint8", (1000,)),
        ("uint[256]", "uint32", (256,)),
        ("uchar[4]", "uint8", (4,)),
        ("ushort[4]", "uint16", (4,)),
        ("ulonglong[4]", "uint64", (4,)),
        ("half[64]", "float16", (64,)),
        ("half2[8]", "float16", (8, 2)),
        ("__nv_bfloat162[8]", "bfloat16", (8, 2)),
        ("long long int[4]", "int64", (4,)),
        ("long unsigned[4]", "uint64", (4,)),
        ("short int[4]", "int16", (4,)),
        ("signed char[4]", "int8", (4,)),
        ("const unsigned short[4]", "uint16", (4,)),
        ("cuComplex[4]", "complex64", (4,)),
        ("ptrdiff_t[4]", "int64", (4,)),
        ("uint8[4]", "uint8", (4,)),
        ("float64[4]", "float64", (4,)),
        ("complex64[4]", "complex64", (4,)),
        ("__half[4]", "float16", (4,)),
        ("__nv_bfloat16[4]", "bfloat16", (4,)),
        ("bool[4]", "bool", (4,)),
        ("float4[16]", "float32", (16, 4)),
        ("uint2[3,5]", "uint32", (3, 5, 2)),
        ("float[0]", "float32", (0,)),
        ("struct16[5]", "void128", (5,)),
        ("struct3[2,2]=zeros", "void24", (2, 2)),
        ("struct3[2,2]", "void24", (2, 2)),
    ],
)
def test_arrays(text, dtype, shape):
    found = parse_argument(text)
    assert (found.dtype.name, found.shape) == (dtype, shape)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("float[3]=zeros", [0, 0, 0]),
        ("float[3]=ones", [1, 1, 1]),
        ("int[2,2]=iota", [[0, 1], [2, 3]]),
        ("float[2]=-1.5", [-1.5, -1.5]),
        ("int[2]=7", [7, 7]),
        ("float[2]=inf", [np.inf, np.inf]),
        ("bool[2]=ones", [True, True]),
    ],
)
def test_fills(text, values):
    np.testing.assert_array_equal(parse_argument(text), values)


def test_random_data_depends_on_seed_and_argument():
    first = parse_argument("float[100]", 0, seed=1)
    np.testing.assert_array_equal(first, parse_argument("float[100]=random", 0, seed=1))
    assert not np.array_equal(first, parse_argument("float[100]", 1, seed=1))
    assert not np.array_equal(first, parse_argument("float[100]", 0, seed=2))
    integers = parse_argument("int[1000]")
    assert (integers.min(), integers.max()) == (0, 99)
    assert 100 < parse_argument("bool[1000]").sum() < 900


def test_files(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.arange(6, dtype=np.int16).reshape(2, 3))
    for text in (f"@{path}", str(path), f"short[2,3]=@{path}", f"short[2,3]={path}"):
        np.testing.assert_array_equal(parse_argument(text), np.arange(6, dtype=np.int16).reshape(2, 3))


def test_files_are_looked_for_in_the_folder(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(3))
    assert parse_argument("x.npy", folder=tmp_path).size == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected an array TYPE[SHAPE] or TYPE[SHAPE]=FILL"),
        ("x", "expected an array TYPE[SHAPE]"),
        ("__import__('os').system('true')", "expected an array TYPE[SHAPE]"),
        ("float[__import__('os')]", "expected a shape of whole numbers in brackets, [1024] or [64,64]"),
        ("float", "a type is not an argument: float[1024] is an array, float=3 a scalar"),
        ("floot[4]", "unknown type 'floot'; expected one of C's"),
        ("object[4]", "unknown type 'object'; expected one of C's"),
        ("float[]", "expected a shape of whole numbers in brackets"),
        ("float[4", "expected a shape of whole numbers in brackets"),
        ("float[-4]", "expected a shape of whole numbers in brackets"),
        ("float[4.5]", "expected a shape of whole numbers in brackets"),
        ("float[4]=", "expected an array TYPE[SHAPE]"),
        ("float[4]=one", "expected one of random, zeros, ones, iota, a number or @FILE.npy; got 'one'"),
        ("float=iota", "expected a number after the equals sign, got 'iota'; an array is float[1024]"),
        ("unsigned char=300", "300 is not in the range of uint8, 0 to 255"),
        ("unsigned char[4]=-1", "-1 is not in the range of uint8, 0 to 255"),
        ("int=0.5", "0.5 is not an integer, as int32 requires"),
        ("float=1e50", "1e+50 is not in the range of float32"),
        ("half[4]=70000", "70000 is not in the range of float16"),
        ("int=nan", "nan is not an integer, as int32 requires"),
        ("char[300]=iota", "iota counts to 299, which int8 cannot hold"),
        ("struct16[4]=ones", "structures are filled with random, zeros or @FILE.npy; got 'ones'"),
        ("struct16=1", "a vector or structure by value is not supported"),
        ("struct0[4]", "unknown type 'struct0'"),
        ("float4=1", "a vector or structure by value is not supported; float4[1] is an array of one"),
        ("float[1000000000000000000]", "an array of that size does not fit in memory"),
        ("float[99999999999999999999999]", "--arg "),
        ("char int[4]", "unknown type 'char int'"),
        ("long long long[4]", "unknown type 'long long long'"),
        ("unsigned float[4]", "unknown type 'unsigned float'"),
        ("nowhere.npy", "cannot read 'nowhere.npy' as a .npy file: No such file or directory"),
        ("float[4]=@nowhere.npy", "cannot read 'nowhere.npy' as a .npy file: No such file or directory"),
    ],
)
def test_invalid_arguments_are_rejected(text, message):
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        parse_argument(text)
    assert str(error.value).startswith("--arg ")


def save(path, kind):
    if kind == "pickle":
        np.save(path, np.array([{}]), allow_pickle=True)
    elif kind == "npz":
        with path.open("wb") as file:
            np.savez(file, x=np.zeros(3))
    elif kind == "text":
        path.write_text("1 2 3")
    elif kind == "empty":
        path.write_bytes(b"")
    else:
        np.save(path, np.zeros((3, 2)))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("pickle", "cannot read"),
        ("text", "cannot read"),
        ("empty", "cannot read"),
        ("npz", "holds several arrays; expected a .npy file, not .npz"),
        ("other", "holds float64 of shape (3, 2), not float32 of shape (4,)"),
    ],
)
def test_files_that_do_not_fit(tmp_path, kind, message):
    path = tmp_path / "x.npy"
    save(path, kind)
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_argument(f"float[4]=@{path}")


@pytest.mark.parametrize(
    ("text", "value"), [("4", (4,)), ("4,2", (4, 2)), ("4x2x1", (4, 2, 1)), ("(4, 2)", (4, 2))]
)
def test_dimensions(text, value):
    assert parse_dimensions(text, "--grid") == value


@pytest.mark.parametrize("text", ["", "0", "-1", "4,", "4,2,1,1", "four", "4.0", "²"])
def test_invalid_dimensions_are_rejected(text):
    with pytest.raises(ValueError, match="--grid: expected one to three numbers above 0, such as 4 or 4,2,1; got"):
        parse_dimensions(text, "--grid")


def test_values_may_begin_with_a_hyphen():
    words = ["check", "k.cu", "--option", "-DTILE=16", "--arg", "-1.5f", "--arg=-2", "--grid", "4"]
    assert join_values(words) == ["check", "k.cu", "--option=-DTILE=16", "--arg=-1.5f", "--arg=-2", "--grid", "4"]


# ---- the command ----


@pytest.fixture
def checks(monkeypatch):
    """Replaces smemkit.check by a function that records its arguments and returns `report`."""
    calls = []

    def check(target, *args, **keywords):
        calls.append((target, args, keywords))
        return check.report

    check.report, check.calls = report(), calls
    monkeypatch.setattr(results, "check", check)
    monkeypatch.setattr(command, "check", check)
    monkeypatch.setattr(results, "Kernel", Kernel)
    Kernel.made.clear()
    return check


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "k.cu"
    path.write_text("__global__ void halo(float *x, int n) {}\n")
    return str(path)


LAUNCH = ["--grid", "4,2", "--block", "256"]


def test_check_prints_the_report(checks, file, capsys):
    line = ["--kernel", "halo", "--arg", "float[64]=iota", "--arg", "64", "--arg", "-0.5f", "--shared", "128"]
    line += ["--option", "-DTILE=16", "--option", "-DFAST", "--seed", "3", "--blocks", "7", "--schedule", "random"]
    assert main(["check", file, *LAUNCH, *line]) == 0
    assert capsys.readouterr().out == f"{report()}\n"
    ((kernel, launch), arguments, keywords) = checks.calls[0]
    assert (kernel.name, kernel.options, launch) == ("halo", ("-DTILE=16", "-DFAST"), ((4, 2), (256,), 128))
    np.testing.assert_array_equal(arguments[0], np.arange(64, dtype=np.float32))
    assert arguments[1:] == (64, -0.5)
    assert keywords == {"schedule": "random", "seed": 3, "blocks": 7}


def test_options_are_spelt_as_compilers_take_them(checks, file):
    line = ["-I", "inc", "-Ilib", "-D", "TILE=16", "-DFAST", "-UDEBUG", "--std=c++20"]
    assert main(["check", file, *LAUNCH, *line]) == 0
    assert Kernel.made[0].options == ("-Iinc", "-Ilib", "-DTILE=16", "-DFAST", "-UDEBUG", "-std=c++20")
    for spelling in (["-std=c++20"], ["--std", "c++20"]):
        assert main(["check", file, *LAUNCH, *spelling]) == 0
        assert Kernel.made[-1].options == ("-std=c++20",)


def test_check_exits_with_1_on_a_fault(checks, file, capsys):
    checks.report = report(halo([RACE]))
    assert main(["check", file, *LAUNCH]) == 1
    assert "race (RAW) at kernel.cu:10" in capsys.readouterr().out
    assert checks.calls[0][2] == {"schedule": "serial", "seed": 0, "blocks": "auto"}


def test_check_writes_json(checks, file, capsys, tmp_path):
    checks.report, path = report(unpadded(), halo()), tmp_path / "report.json"
    assert main(["check", file, *LAUNCH, "--json", str(path)]) == 1
    assert json.loads(path.read_text()) == json.loads(json.dumps(checks.report.to_dict()))
    assert "race (RAW)" in capsys.readouterr().out
    assert main(["check", file, *LAUNCH, "--json", "-"]) == 1
    assert json.loads(capsys.readouterr().out)["schema"] == "smemkit.report"


def test_check_of_an_op(checks):
    shapes = ["--shape", "8,4", "--shape", "4,16"]
    assert (
        main(["check", "--op", "matmul", *shapes, "--dtype", "double", "--tile", "16", "--kernel", "tiled"]) == 0
    )
    (target, arguments, keywords) = checks.calls[0]
    assert target is ops.matmul
    assert [(x.shape, str(x.dtype)) for x in arguments] == [((8, 4), "float64"), ((4, 16), "float64")]
    assert (keywords["kernel"], keywords["tile"]) == ("tiled", 16)
    assert "pad" not in keywords


def test_ascii_terminals_get_replacement_characters(checks, file, monkeypatch):
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", out)
    assert main(["check", file, *LAUNCH]) == 0
    out.flush()
    assert b"? no faults in 1,024 blocks; 32-way bank conflict" in out.buffer.getvalue()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["{}", "--block", "32"], "smemkit: --grid: expected the number of blocks, such as --grid 4,2"),
        (["{}", "--grid", "4"], "smemkit: --block: expected the number of threads in a block"),
        (["{}", "--grid", "4", "--block", "0"], "smemkit: --block: expected one to three numbers above 0"),
        (["{}", *LAUNCH, "--shared", "-1"], "smemkit: --shared: expected a number of bytes, 0 or more, got -1"),
        (["{}", *LAUNCH, "--blocks", "some"], "smemkit: --blocks: expected auto, all or a number above 0"),
        (["{}", *LAUNCH, "--cluster", "0"], "smemkit: --cluster: expected one to three numbers above 0"),
        (["{}", *LAUNCH, "--fail-on", "rase"], "smemkit: --fail-on: expected a list of errors, warnings,"),
        (["{}", *LAUNCH, "--jobs", "0"], "smemkit: --jobs: expected a number above 0, got 0"),
        (["{}", *LAUNCH, "--update-baseline"], "smemkit: --update-baseline: expected --baseline FILE"),
        (["{}", *LAUNCH, "--baseline", "/no/file"], "/no/file: no such file; --update-baseline writes it"),
        (["{}", *LAUNCH, "--arg", "x"], "smemkit: --arg x: expected an array TYPE[SHAPE]"),
        (["{}", *LAUNCH, "--shape", "4"], "smemkit: --shape: goes with --op"),
        (["{}", *LAUNCH, "--op", "transpose"], "smemkit: check: expected either a FILE.cu or --op"),
        ([], "smemkit: check: expected either a FILE.cu or --op"),
        (["no.cu", *LAUNCH], "smemkit: no.cu: no such file"),
        (["/", *LAUNCH], "smemkit: /: expected a file"),
        (["--op", "transpose"], "smemkit: --shape: expected 1 for transpose, got 0"),
        (["--op", "matmul", "--shape", "4,4"], "smemkit: --shape: expected 2 for matmul, got 1"),
        (["--op", "transpose", "--shape", "4,4", "--grid", "4"], "smemkit: --grid: goes with a FILE.cu"),
        (["{}", *LAUNCH, "--json", "/no/such/folder/x"], "No such file or directory"),
    ],
)
def test_misuse_exits_with_2(checks, file, capsys, line, message):
    assert main(["check", *(word.format(file) for word in line)]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "line", [["--schedule", "parallel"], ["--shared", "many"], ["--seed"], ["--op", "sort"], ["--nonsense"]]
)
def test_argparse_errors_exit_with_2(checks, file, line):
    with pytest.raises(SystemExit) as exit:
        main(["check", file, *LAUNCH, *line])
    assert exit.value.code == 2


@pytest.mark.parametrize(
    "error", [smemkit.CompileError("k.cu:3: 'z' was not declared"), TypeError("n: expected an int, got an array")]
)
def test_launch_errors_exit_with_2(checks, file, capsys, monkeypatch, error):
    def check(*_, **__):
        raise error

    monkeypatch.setattr(results, "check", check)
    assert main(["check", file, *LAUNCH]) == 2
    assert capsys.readouterr().err == f"smemkit: {error}\n"
