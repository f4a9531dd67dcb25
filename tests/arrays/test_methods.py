"""Array's methods and NumPy's functions on an Array, compared with those of NumPy's arrays."""

import copy
import io

import numpy as np
import pytest
from cases import DTYPES, expect_launches, integers, numbered, on
from numpy.testing import assert_array_equal

import smemkit

REDUCTIONS = ["sum", "prod", "min", "max", "mean", "var", "std", "any", "all", "argmin", "argmax", "count_nonzero"]


def numpys(name):
    return getattr(np, name)


# ---- reductions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(device, name):
    x = integers((3, 4, 5), "int32", 1)
    array, method = on(device, x), getattr(on(device, x), name)
    for axis in (None, 0, -1) if name.startswith("arg") else (None, 0, (0, 2)):
        for keepdims in (False, True):
            expected = np.asarray(numpys(name)(x, axis=axis, keepdims=keepdims))
            for result in (
                method(axis, keepdims=keepdims),
                method(axis=axis, keepdims=keepdims),
                numpys(name)(array, axis, keepdims=keepdims),
            ):
                assert isinstance(result, smemkit.Array)
                assert result.dtype == expected.dtype
                np.testing.assert_allclose(result.numpy(), expected, rtol=1e-15, strict=True)
    out = smemkit.empty((4, 5), method(0).dtype, device=device)
    assert method(0, out=out) is out
    assert_array_equal(out.numpy(), method(0).numpy())


def test_options_of_reductions(device):
    x = on(device, numbered((4, 5), np.int32))
    assert x.sum(dtype=np.float32).dtype == np.float32
    assert x.sum(initial=5).item() == 215
    assert x.max(initial=99).item() == 99
    assert x.var(ddof=1).item() == numbered((4, 5), np.int32).var(ddof=1)
    assert x.sum(1, block_size=64).tolist() == x.sum(1, kernel="tree").tolist() == x.sum(1).tolist()
    assert np.sum(x, 0, np.float64, initial=1).tolist() == (numbered((4, 5), np.float64).sum(0) + 1).tolist()
    assert np.var(x, ddof=1).item() == x.var(ddof=1).item()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: x.sum(0, np.int32), "sum: expected the axis alone by position, got 2 arguments"),
        (lambda x: x.sum(0, axis=0), "sum: got the axis by position and by name"),
        (lambda x: x.any(dtype=bool), r"any\(\) got an unexpected keyword argument 'dtype'"),
        (lambda x: x.mean(initial=1), r"mean\(\) got an unexpected keyword argument 'initial'"),
        (lambda x: x.sum(device="cpu"), r"sum\(\) got an unexpected keyword argument 'device'"),
        (lambda x: np.sum(x, where=True), r"numpy.sum: does not accept 'where' with a smemkit.Array; asarray"),
        (lambda x: np.var(x, mean=1), "numpy.var: does not accept 'mean'"),
        (
            lambda x: np.reshape(x, 4, order="F"),
            r"numpy.reshape: does not accept order='F' .* \.numpy\(\) convert",
        ),
        (lambda x: np.reshape(x, 4, copy=True), "numpy.reshape: does not accept 'copy'"),
        (lambda x: x.squeeze(axis="a"), "axis: "),
        (
            lambda x: f"{x:.2f}",
            r"format: expected an array of one element for '.2f', got 4; .numpy\(\) or .tolist",
        ),
    ],
)
def test_wrong_options(device, call, message):
    with expect_launches(0), pytest.raises(TypeError, match=message):
        call(smemkit.zeros(4, device=device))


# ---- shapes -----------------------------------------------------------------------------------------------------


def test_transpose_is_a_view(device):
    x = numbered((2, 3, 4), np.int32)
    array = on(device, x)
    every = ((), (None,), ((2, 0, 1),), (1, 2, 0), (-1, 0, 1))
    with expect_launches(0):
        views = [array.transpose(*axes) for axes in every]
        assert array[0, 0].transpose(0).shape == (4,)
        permuted = np.transpose(array, (1, 0, 2))
    for axes, view in zip(every, views, strict=True):
        assert view.strides == x.transpose(*axes).strides
        assert_array_equal(view.numpy(), x.transpose(*axes))
    assert_array_equal(permuted.numpy(), np.transpose(x, (1, 0, 2)))
    array.transpose(1, 2, 0)[0, 0, 0] = 99
    assert array[0, 0, 0].item() == 99
    with pytest.raises(ValueError, match="axes: expected 3 axes"):
        array.transpose(1, 0)
    with pytest.raises(ValueError, match="axes: "):
        array.transpose(0, 0, 1)


def test_squeeze(device):
    x = numbered((1, 3, 1, 1, 2), np.int32)
    array = on(device, x)
    for axis in (None, 0, -2, (0, 2), (), (3,)):
        assert array.squeeze(axis).strides == x.squeeze(axis).strides
        assert_array_equal(array.squeeze(axis=axis).numpy(), x.squeeze(axis))
    assert smemkit.zeros((1, 1), device=device).squeeze().shape == ()
    assert np.squeeze(array).shape == (3, 2)
    with pytest.raises(ValueError, match="axis: expected axes of length 1, but axis 1 has length 3"):
        array.squeeze((0, 1))
    with pytest.raises(np.exceptions.AxisError):
        array.squeeze(5)


# ---- elements ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_lists_and_fill(device, dtype):
    x = integers((2, 3), dtype)
    array = on(device, x)
    assert array.tolist() == x.tolist()
    assert array.T.tolist() == x.T.tolist()
    assert array[0, 0].tolist() == x[0, 0].tolist()
    assert_array_equal(array.get(), x)
    view = array[:, ::2]
    assert view.fill(1) is None
    x[:, ::2] = 1
    assert_array_equal(array.numpy(), x)


def test_fill_refuses_what_does_not_fit(device):
    with pytest.raises(OverflowError):
        smemkit.zeros(3, "int8", device=device).fill(300)
    with pytest.raises(ValueError, match="value: expected a shape that can be broadcast"):
        smemkit.zeros(3, device=device).fill([1, 2])


def test_one_element_is_formatted_and_rounded_as_a_number(device):
    for value in (np.float32(2.71828), np.int16(7), np.float64(-1.5), np.bool_(True)):
        for shape in ((), (1,), (1, 1)):
            x, number = on(device, np.full(shape, value)), value.item()
            assert f"{x:8.3f}" == f"{number:8.3f}"
            assert round(x) == round(number)
            assert type(round(x)) is type(round(number))
            assert round(x, 1) == round(number, 1)
            assert f"{x}" == str(x)
    assert f"{smemkit.zeros(2, device=device)}" == "[0. 0.]"
    with pytest.raises(ValueError, match="item: expected an array of one element, got 2"):
        round(smemkit.zeros(2, device=device))
    with pytest.raises(TypeError):
        round(on(device, np.complex64(1)))


def test_to_device_is_to(device):
    x = smemkit.zeros(3, device=device)
    assert x.to_device(device) is x
    assert x.to_device("cpu", stream=None).device == "cpu"
    with pytest.raises(ValueError, match=r"stream: expected None, got 7; `with Stream\(\):` sets the stream"):
        x.to_device(device, stream=7)


# ---- creation ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_of_one_value(device, dtype):
    for shape in ((), 3, (2, 0), (2, 3)):
        for name, arguments in (("ones", ()), ("full", (1,))):
            result = getattr(smemkit, name)(shape, *arguments, dtype=dtype, device=device)
            assert result.device == device
            assert_array_equal(result.numpy(), np.ones(shape, dtype), strict=True)
    like = on(device, integers((3, 2), dtype))
    for x in (like, like.T, integers((3, 2), dtype)):
        options = {} if isinstance(x, smemkit.Array) else {"device": device}
        assert_array_equal(smemkit.zeros_like(x, **options).numpy(), np.zeros(x.shape, dtype), strict=True)
        assert_array_equal(smemkit.ones_like(x, **options).numpy(), np.ones(x.shape, dtype), strict=True)
        assert_array_equal(smemkit.full_like(x, 0, **options).numpy(), np.zeros(x.shape, dtype), strict=True)
        empty = smemkit.empty_like(x, **options)
        assert (empty.shape, empty.dtype, empty.device, empty.is_contiguous) == (x.shape, x.dtype, device, True)


def test_dtypes_and_shapes_of_new_arrays(device):
    x = smemkit.zeros((2, 3), "int8", device=device)
    assert smemkit.ones(2, device=device).dtype == np.float32
    for value in (1, 1.5, True, 2j, np.float32(1), np.int8(2), [1, 2], np.uint16([3, 4]), x[0, :2]):
        expected = np.full(2, value.numpy() if isinstance(value, smemkit.Array) else value)
        assert_array_equal(smemkit.full(2, value, device=device).numpy(), expected, strict=True)
    assert smemkit.full(2, x[0, 0]).device == device
    assert smemkit.zeros_like(x, "float16", shape=7).shape == (7,)
    assert smemkit.empty_like(x, "float16", shape=(1, 2)).dtype == np.float16
    assert smemkit.zeros_like(x, device="cpu").device == "cpu"
    assert_array_equal(np.full_like(x, 3).numpy(), np.full((2, 3), 3, np.int8), strict=True)
    assert np.zeros_like(x, dtype=np.int16).dtype == np.int16
    with pytest.raises(OverflowError):
        smemkit.full(2, 300, "int8", device=device)
    with pytest.raises(ValueError, match="value: expected a shape that can be broadcast"):
        smemkit.full(3, [1, 2], device=device)


@pytest.mark.parametrize("arguments", [(5,), (2, 5), (5, 2, -1), (0, 1, 0.25), (2.5,), (3, 3), (0,)], ids=str)
def test_arange(device, arguments):
    assert_array_equal(smemkit.arange(*arguments, device=device).numpy(), np.arange(*arguments), strict=True)
    result = smemkit.arange(*arguments, dtype=np.float32, device=device)
    assert_array_equal(result.numpy(), np.arange(*arguments, dtype=np.float32), strict=True)


# ---- NumPy's functions ------------------------------------------------------------------------------------------


def test_functions_of_numpy_give_arrays(device):
    x = numbered((2, 1, 3), np.float32)
    array = on(device, x)
    for function, options in (
        (np.reshape, {"shape": (3, 2)}),
        (np.ravel, {}),
        (np.copy, {}),
        (np.matrix_transpose, {}),
        (np.squeeze, {"axis": 1}),
    ):
        result = function(array, **options)
        assert isinstance(result, smemkit.Array)
        assert_array_equal(result.numpy(), function(x, **options), strict=True)
    assert np.astype(array, np.int8).dtype == np.int8
    assert (np.shape(array), np.ndim(array), np.size(array), np.size(array, 2), np.size(array, (0, 2))) == (
        (2, 1, 3),
        3,
        6,
        3,
        6,
    )
    assert np.result_type(array, np.float64, np.int8([1])) == np.float64
    assert np.can_cast(array, np.float64)
    assert not np.can_cast(array, np.int8)
    assert np.isrealobj(array)
    assert np.iscomplexobj(array.astype(np.complex64))
    assert_array_equal(np.asarray(array), x)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("concatenate", lambda x: np.concatenate([x, x])),
        ("linalg.norm", lambda x: np.linalg.norm(x)),
        ("dot", lambda x: np.dot(x, x)),
        ("where", lambda x: np.where(x, x, x)),
        ("cumsum", lambda x: np.cumsum(np.ones(3), out=x)),
        ("copyto", lambda x: np.copyto(x, np.ones(3))),
        ("fill_diagonal", lambda x: np.fill_diagonal(x, 0)),
        ("sort", lambda x: np.sort(x)),
        ("save", lambda x: np.save(io.BytesIO(), x)),
    ],
)
def test_other_functions_of_numpy_refuse_an_array(device, name, call):
    message = rf"numpy\.{name}: does not accept a smemkit.Array; asarray\(\) and \.numpy\(\) convert"
    x = smemkit.ones(3, device=device)
    with expect_launches(0), pytest.raises(TypeError, match=message):
        call(x)
    assert x.tolist() == [1, 1, 1]


def test_functions_of_numpy_leave_the_choice_to_other_types(device):
    class Other:
        def __array_function__(self, function, types, args, kwargs):
            return function.__name__

    assert np.concatenate([smemkit.ones(3, device=device), Other()]) == "concatenate"


def test_the_result_may_not_go_to_another_place(device):
    x = smemkit.ones(3, device=device)
    with pytest.raises(TypeError, match="out: "):
        np.sum(x, out=np.ones(()))
    with pytest.raises(TypeError, match="out: "):
        np.sum(np.ones(3), out=x[0])


# ---- the array API ----------------------------------------------------------------------------------------------


def test_the_namespace(device):
    x = smemkit.ones((2, 3), "int8", device=device)
    for version in (None, "2022.12", "2023.12", "2024.12"):
        xp = x.__array_namespace__(api_version=version)
    assert set(xp.__all__) <= set(dir(xp))
    assert xp.permute_dims(xp.asarray(x), (1, 0)).shape == (3, 2)
    assert xp.var(xp.asarray([1.0, 2.0], device=device), correction=1).item() == 0.5
    assert xp.zeros(2, device=device).dtype == xp.float64
    assert xp.add(x, 1).tolist() == [[2] * 3] * 2
    assert xp.isfinite(xp.asarray([1.0, np.inf, np.nan], device=device)).tolist() == [True, False, False]
    assert xp.isnan(xp.asarray([1.0, np.inf, np.nan], device=device)).tolist() == [False, False, True]
    assert xp.reshape(x, (3, 2), copy=True).address != x.address
    assert xp.reshape(x, (3, 2), copy=False).address == x.address
    with pytest.raises(ValueError, match="copy: False is impossible"):
        xp.reshape(x.T, (6,), copy=False)
    with pytest.raises(TypeError, match="add: expected an Array and an Array or a number"):
        xp.add(np.ones(2), 1)
    with pytest.raises(ValueError, match=r"api_version: expected None or one of 2022.12, .* got '1999'"):
        x.__array_namespace__(api_version="1999")
    info = xp.__array_namespace_info__()
    assert device in info.devices()
    assert info.dtypes(kind="real floating") == {"float32": np.float32, "float64": np.float64}
    assert len(info.dtypes()) == 13
    with pytest.raises(ValueError, match="kind: expected one of"):
        info.dtypes(kind="complex")


def test_copies_of_methods_results_are_arrays(device):
    x = smemkit.ones((2, 3), device=device).sum(0)
    assert copy.deepcopy(x).tolist() == copy.copy(x).tolist() == [2, 2, 2]
