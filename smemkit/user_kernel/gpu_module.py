"""User kernels on a GPU, through cuda.core: NVRTC compiles them, the driver launches them."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from smemkit import _core
from smemkit._core import CompileError, CudaError, Error, Stream
from smemkit.cuda_source.includes import line_marker
from smemkit.cuda_source.overloads import alias, base_name, template_name
from smemkit.cuda_source.scanner import DeviceCode, have_macro
from smemkit.user_kernel.compiler import INCLUDE
from smemkit.user_kernel.parameters import DESCRIPTION_FIELDS, Parameter
from smemkit.user_kernel.texture import ADDRESS_MODES, FILTERS, Texture

try:
    from cuda.bindings import driver
    from cuda.core import Device, Program, ProgramOptions
except ImportError as error:
    _import_error = str(error)
else:
    _import_error = ""

__all__ = ["GpuModule", "is_installed"]

# Headers that NVRTC has, or finds in the toolkit. The prelude below replaces the others; its types are those of
# NVIDIA's libcu++.
_DEVICE_HEADERS = re.compile(
    r"(?:cuda_(?:fp\w+|bf16|pipeline\w*|awbarrier\w*)|cooperative_groups\w*|mma|math_constants|curand\w*)\.h"
    r"|(?:cooperative_groups|cuda|nv|cub|thrust|cute|cutlass)/.*"
)
_PORTABLE_CLUSTER = 8  # blocks: larger ones need a function attribute
_NVRTC_PRELUDE = """
namespace std {}
typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long long int64_t;
typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned int uint32_t;
typedef unsigned long long uint64_t; typedef int64_t intptr_t; typedef uint64_t uintptr_t;
typedef unsigned short ushort; typedef unsigned int uint; typedef unsigned long ulong;
typedef struct alignas(128) CUtensorMap_st { uint64_t opaque[16]; } CUtensorMap;
#define INT8_MIN (-128)
#define INT8_MAX 127
#define UINT8_MAX 255
#define INT16_MIN (-32768)
#define INT16_MAX 32767
#define UINT16_MAX 65535
#define INT32_MIN (-2147483647 - 1)
#define INT32_MAX 2147483647
#define UINT32_MAX 4294967295u
#define INT64_MIN (-9223372036854775807l - 1)
#define INT64_MAX 9223372036854775807l
#define UINT64_MAX 18446744073709551615ul
#define CHAR_BIT 8
#define SHRT_MIN INT16_MIN
#define SHRT_MAX INT16_MAX
#define INT_MIN INT32_MIN
#define INT_MAX INT32_MAX
#define UINT_MAX UINT32_MAX
#define LONG_MIN INT64_MIN
#define LONG_MAX INT64_MAX
#define ULONG_MAX UINT64_MAX
#define LLONG_MIN (-9223372036854775807ll - 1)
#define LLONG_MAX 9223372036854775807ll
#define ULLONG_MAX 18446744073709551615ull
#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-07f
#define DBL_MAX 1.7976931348623158e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-16
#define INFINITY ((float)(1e+308 * 10))
#define HUGE_VALF INFINITY
#define HUGE_VAL ((double)INFINITY)
#define NAN (__int_as_float(0x7fffffff))
#define M_E 2.7182818284590452354
#define M_LN2 0.69314718055994530942
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_SQRT2 1.41421356237309504880
#if __CUDA_ARCH__ >= 900
__device__ inline void cudaGridDependencySynchronize() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ inline void cudaTriggerProgrammaticLaunchCompletion()
{
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
#else // launches do not overlap
__device__ inline void cudaGridDependencySynchronize() {}
__device__ inline void cudaTriggerProgrammaticLaunchCompletion() {}
#endif
"""


def is_installed() -> bool:
    """Whether the packages that compile for a GPU are installed."""
    return not _import_error


class GpuModule:
    """Compiled device code on a GPU; the interface is that of `CpuModule`.

    Parameters
    ----------
    code, filename, kernels, options, explain
        As for `CpuModule`.
    device : str
        "cuda:0".
    """

    def __init__(
        self,
        code: DeviceCode,
        filename: str,
        kernels: Sequence[str],
        options: tuple[str, ...],
        explain: Callable[[str], CompileError],
        device: str,
    ):
        if _import_error:
            raise Error(
                f"a kernel needs NVRTC and cuda.core to run on a GPU, and the import failed ({_import_error}): "
                "pip install 'smemkit[cuda]'. The CPU device needs neither: `with smemkit.Device(\"cpu\"):`"
            )
        self._name = device
        self._device = Device(int(device.partition(":")[2] or 0))
        # if a grid synchronises, all its blocks must be resident
        self._is_cooperative = code.mentions("this_grid") or code.mentions("grid_group")
        variables = [variable.name for variable in code.variables]
        with self._current_context():
            self._object = _compile(code, filename, kernels, variables, options, explain, self._device)
            self._symbols = self._object.symbol_mapping
            self._functions = {
                kernel: self._load_function(alias(kernel, i)[1]) for i, kernel in enumerate(kernels)
            }
            self._clusters = {name: self._read_cluster(function) for name, function in self._functions.items()}
            self._signatures = {
                kernel: self._read_signature(f"smemkit_signature_{i}") for i, kernel in enumerate(kernels)
            }
            types = {name: self._read_integers(f"smemkit_variable_{i}") for i, name in enumerate(variables)}
        self.variables = {
            name: Parameter.from_description(name, name, fields) for name, fields in types.items() if fields[2]
        }

    @contextlib.contextmanager
    def _current_context(self) -> Iterator[None]:
        """Makes the device's context current in this thread."""
        before = _raise_on_error(driver.cuCtxGetCurrent())
        self._device.set_current()
        try:
            yield
        finally:
            if int(before):
                _raise_on_error(driver.cuCtxSetCurrent(before))

    def _stream_handle(self, stream: Any) -> int:
        """The handle of any library's stream. For None: that of the thread's current stream, otherwise 0, the
        default stream."""
        if stream is None:
            current = _core.current_stream(self._name)
            return current.handle if current else 0
        try:
            return Stream(stream, device=self._name).handle
        except (TypeError, ValueError) as error:
            raise type(error)(str(error).replace("source", "stream", 1)) from None

    def _load_function(self, kernel: str) -> Any:
        return _raise_on_error(driver.cuKernelGetFunction(self._object.get_kernel(kernel).handle))

    def function(self, kernel: str) -> Any:
        """The driver's handle of a kernel, on this device."""
        return self._functions[kernel]

    def _symbol(self, name: str) -> tuple[Any, int]:
        """The address of a variable, and its size in bytes."""
        return _raise_on_error(driver.cuLibraryGetGlobal(self._object.handle, self._symbols[f"&{name}"]))

    def _read_integers(self, symbol: str) -> list[int]:
        address, size = self._symbol(symbol)
        content = (ctypes.c_longlong * (size // 8))()
        _raise_on_error(driver.cuMemcpyDtoH(ctypes.addressof(content), address, size))
        return list(content)

    def _read_cluster(self, function: Any) -> tuple[int, int, int] | None:
        names, found = driver.CUfunction_attribute, []
        for axis in ("WIDTH", "HEIGHT", "DEPTH"):
            name = getattr(names, f"CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_{axis}")
            found.append(_raise_on_error(driver.cuFuncGetAttribute(name, function)))
        return tuple(found) if all(found) else None

    def _read_signature(self, symbol: str) -> list[list[int]] | None:
        count, *fields = self._read_integers(symbol)
        return (
            None
            if count < 0
            else [fields[DESCRIPTION_FIELDS * i : DESCRIPTION_FIELDS * (i + 1)] for i in range(count)]
        )

    def signature(self, kernel: str) -> list[list[int]] | None:
        """The fields of each parameter; None if an #if excludes the kernel."""
        return self._signatures[kernel]

    def cluster(self, kernel: str) -> tuple[int, int, int] | None:
        """The blocks of a cluster that the kernel's __cluster_dims__ names."""
        return self._clusters[kernel]

    def texture_object(self, texture: Texture, address: int) -> tuple[int, Callable[[], None]]:
        """The handle of a texture of an array at an address, and what releases it when all launches have ended."""
        with self._current_context():
            _raise_on_error(driver.cuCtxSynchronize())  # whatever writes the array
            array = None if texture.linear_memory else _filled_array(texture, address)
            try:
                handle = int(_raise_on_error(_create_texture(texture, address, array)))
            except BaseException:
                if array is not None:
                    driver.cuArrayDestroy(array)
                raise

        def release() -> None:
            with self._current_context():
                ended = driver.cuCtxSynchronize()
                _raise_on_error(driver.cuTexObjectDestroy(handle))
                if array is not None:
                    _raise_on_error(driver.cuArrayDestroy(array))
                _raise_on_error(ended)

        return handle, release

    def launch(
        self,
        kernel: str,
        grid,
        block,
        shared_bytes: int,
        arguments,
        *,
        stream: Any,
        array_streams: set[int],
        carveout,
        cluster=None,
        **_ignored,
    ) -> None:
        """Launches the kernel on the stream. `arguments` is a ctypes array with the address of each argument's
        value; `array_streams` are the owning streams of the arrays among them; `cluster`: the blocks of a cluster,
        or None for those of the kernel."""
        handle = self._stream_handle(stream)
        with self._current_context(), _ordered_after(handle, array_streams):
            self._start(kernel, grid, block, shared_bytes, arguments, handle, carveout, cluster, overlaps=False)

    def launch_chain(
        self,
        launches: Sequence[tuple[Any, Any]],
        *,
        overlap: bool,
        stream: Any,
        array_streams: set[int],
        **_ignored: Any,
    ) -> None:
        """Launches kernels on one stream, each with the addresses of its arguments. With `overlap` each but the
        first may begin before the one before it has ended."""
        handle = self._stream_handle(stream)
        with self._current_context(), _ordered_after(handle, array_streams):
            for number, (ready, addresses) in enumerate(launches):
                ready.module._start(
                    ready.kernel.name,
                    ready.of.grid,
                    ready.of.block,
                    ready.of.shared_bytes,
                    addresses,
                    handle,
                    ready.kernel.carveout,
                    ready.cluster,
                    overlaps=overlap and number > 0,
                )

    def _start(
        self, kernel, grid, block, shared_bytes: int, arguments, handle: int, carveout, cluster, *, overlaps: bool
    ) -> None:
        """Launches a kernel in the current context. `overlaps`: it may begin before the work before it on the
        stream has ended."""
        function, attributes = self._functions[kernel], driver.CUfunction_attribute
        if shared_bytes > 48 * 1024:
            most = attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            _raise_on_error(driver.cuFuncSetAttribute(function, most, shared_bytes))
        share = attributes.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
        _raise_on_error(driver.cuFuncSetAttribute(function, share, -1 if carveout is None else carveout))
        if cluster and math.prod(cluster) > _PORTABLE_CLUSTER:
            larger = attributes.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            _raise_on_error(driver.cuFuncSetAttribute(function, larger, 1))
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = grid
        config.blockDimX, config.blockDimY, config.blockDimZ = block
        config.sharedMemBytes, config.hStream = shared_bytes, driver.CUstream(handle)
        config.attrs = self._launch_attributes(cluster, overlaps)
        config.numAttrs = len(config.attrs)
        _raise_on_error(driver.cuLaunchKernelEx(config, function, ctypes.addressof(arguments), 0))

    def _launch_attributes(self, cluster: tuple[int, int, int] | None, overlaps: bool) -> list[Any]:
        """The driver's attributes of a launch."""
        names = driver.CUlaunchAttributeID
        found = []

        def add(name: Any) -> Any:
            attribute = driver.CUlaunchAttribute()
            attribute.id = name
            found.append(attribute)
            return attribute.value

        if self._is_cooperative:
            add(names.CU_LAUNCH_ATTRIBUTE_COOPERATIVE).cooperative = 1
        if cluster:  # of a kernel with __cluster_dims__ it is the same
            size = add(names.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION).clusterDim
            size.x, size.y, size.z = cluster
        if overlaps and self._device.compute_capability >= (9, 0):  # others run one launch after the other
            value = add(names.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
            value.programmaticStreamSerializationAllowed = 1
        return found

    def read(self, variable: str) -> bytes:
        """The bytes of a variable."""
        with self._current_context():
            address, size = self._symbol(variable)
            content = ctypes.create_string_buffer(size)
            _raise_on_error(driver.cuMemcpyDtoH(ctypes.addressof(content), address, size))
        return content.raw

    def write(self, variable: str, content: bytes) -> None:
        """Sets the bytes of a variable."""
        with self._current_context():
            _raise_on_error(driver.cuMemcpyHtoD(self._symbol(variable)[0], content, len(content)))


def _compile(code, filename, kernels, variables, options, explain, device) -> Any:
    """The cubin, with a symbol for each kernel and variable, also for those that an #if excludes."""
    entries, known = [], {function.name: function for function in code.functions}
    expressions = [alias(kernel, i)[1] for i, kernel in enumerate(kernels)]
    for i, kernel in enumerate(kernels):
        before, expression = alias(kernel, i)
        value = f"smemkit::signature_of<decltype(&{expression})>::smemkit_value"
        line = line_marker(*known[kernel].location) if kernel in known else f'#line 1 "name={kernel}"\n'
        entry = f'{line}{before}extern "C" {{ __device__ auto smemkit_signature_{i} = {value}; }}'
        absent_entry = f'extern "C" {{ __device__ long long smemkit_signature_{i} = -1; }}'
        last, after = base_name(template_name(kernel)).rpartition("::")[2], "() {}"
        if before:
            last = f"smemkit_absent_{i}"
            after += f" static constexpr auto smemkit_overload_{i} = &{last};"
        entries.append(_guard_with_ifdef(code, kernel, entry, f"__global__ void {last}{after}", absent_entry))
    for i, name in enumerate(variables):
        value = f"smemkit::description<decltype({name})>::smemkit_value"
        entry = f'extern "C" {{ __device__ smemkit::described smemkit_variable_{i} = {value}; }}'
        absent_entry = f'extern "C" {{ __device__ smemkit::described smemkit_variable_{i} = {{}}; }}'
        placeholder = f"__device__ char {name.rpartition('::')[2]};"
        entries.append(_guard_with_ifdef(code, name, entry, placeholder, absent_entry))
    text = code.assemble(lambda include: bool(_DEVICE_HEADERS.fullmatch(include[1:-1])))
    describe, describe_half = (
        (INCLUDE / "smemkit" / name).read_text(encoding="utf-8") for name in ("describe.h", "describe_half.h")
    )
    name_expressions = [f"&smemkit_signature_{i}" for i in range(len(kernels))]
    name_expressions += [f"&smemkit_variable_{i}" for i in range(len(variables))] + [
        f"&{name}" for name in variables
    ]
    own_line = '#line 1 "smemkit"'
    whole = "\n".join([own_line, _NVRTC_PRELUDE, describe, text, own_line, describe_half, *entries])
    program = Program(whole, "c++", _options(options, filename, device))
    try:
        return program.compile("cubin", name_expressions=(*expressions, *name_expressions))
    except Exception as error:  # cuda.core does not export its exception classes
        if "NVRTC_ERROR_COMPILATION" not in str(error):
            raise
        raise explain(str(error).partition("compilation log:")[2]) from None


def _guard_with_ifdef(code: DeviceCode, name: str, entry: str, placeholder: str, absent_entry: str) -> str:
    base = template_name(name)
    if base not in {thing.name for thing in (*code.functions, *code.variables)}:
        return entry  # a macro defines it
    spaces = base_name(base).split("::")[:-1]
    placeholder = "".join(f"namespace {space} {{ " for space in spaces) + placeholder + " }" * len(spaces)
    return f"#ifdef {have_macro(base)}\n{entry}\n#else\n{placeholder}\n{absent_entry}\n#endif"


def _options(options: tuple[str, ...], filename: str, device: Any) -> Any:
    standard = [option[5:].replace("gnu", "c") for option in options if option.startswith("-std=")]
    defined = [option[2:].partition("=") for option in options if option.startswith("-D")]
    major, minor = device.compute_capability
    return ProgramOptions(
        name=filename,
        arch=f"sm_{major}{minor}{'a' if major >= 9 else ''}",
        std=standard[-1] if standard else "c++17",
        define_macro=[(name, value if equals else "1") for name, equals, value in defined] or None,
        undefine_macro=[option[2:] for option in options if option.startswith("-U")] or None,
        include_path=[option[2:] for option in options if option.startswith("-I")] + _toolkit_includes(),
        device_as_default_execution_space=True,
        disable_warnings=True,
        lineinfo=True,  # so that Nsight Compute and compute-sanitizer name lines of the source; costs no time
    )


def _toolkit_includes() -> list[str]:
    """The folders of CUDA's headers: in CUDA_HOME, in NVIDIA's wheels, in /usr/local/cuda."""
    roots = [Path(os.environ["CUDA_HOME"])] if os.environ.get("CUDA_HOME") else []
    wheels = importlib.util.find_spec("nvidia")
    for folder in (wheels.submodule_search_locations or ()) if wheels else ():
        roots += [*sorted(Path(folder).glob("cu[0-9]*"), reverse=True), Path(folder, "cuda_runtime")]
        roots += [Path(folder, "cuda_cccl")]
    roots.append(Path("/usr/local/cuda"))
    folders = [folder for root in roots for folder in (root / "include", root / "include" / "cccl")]
    return [str(folder) for folder in folders if folder.is_dir()]


# ---- textures ----


def _array_format(texture: Texture) -> Any:
    dtype, formats = texture.array.dtype, driver.CUarray_format
    if dtype.kind == "f":
        return {2: formats.CU_AD_FORMAT_HALF, 4: formats.CU_AD_FORMAT_FLOAT}[dtype.itemsize]
    kind = {"i": "SIGNED", "u": "UNSIGNED"}[dtype.kind]
    return getattr(formats, f"CU_AD_FORMAT_{kind}_INT{8 * dtype.itemsize}")


def _filled_array(texture: Texture, address: int) -> Any:
    """A CUDA array with the texels at an address."""
    width, height, depth = (*texture.extent, 0, 0)[:3]
    description = driver.CUDA_ARRAY3D_DESCRIPTOR()
    description.Width, description.Height, description.Depth = width, height, depth
    description.Format, description.NumChannels = _array_format(texture), texture.channels
    array = _raise_on_error(driver.cuArray3DCreate(description))
    copy = driver.CUDA_MEMCPY3D()
    copy.WidthInBytes = width * texture.channels * texture.array.dtype.itemsize
    copy.Height, copy.Depth = max(height, 1), max(depth, 1)
    copy.srcMemoryType, copy.srcDevice = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE, address
    copy.srcPitch, copy.srcHeight = copy.WidthInBytes, copy.Height
    copy.dstMemoryType, copy.dstArray = driver.CUmemorytype.CU_MEMORYTYPE_ARRAY, array
    try:
        _raise_on_error(driver.cuMemcpy3D(copy))
        _raise_on_error(driver.cuCtxSynchronize())
    except BaseException:
        driver.cuArrayDestroy(array)
        raise
    return array


def _create_texture(texture: Texture, address: int, array: Any) -> tuple:
    resource, how = driver.CUDA_RESOURCE_DESC(), driver.CUDA_TEXTURE_DESC()
    if array is None:
        resource.resType = driver.CUresourcetype.CU_RESOURCE_TYPE_LINEAR
        resource.res.linear.devPtr, resource.res.linear.format = address, _array_format(texture)
        resource.res.linear.numChannels = texture.channels
        resource.res.linear.sizeInBytes = texture.array.nbytes
    else:
        resource.resType = driver.CUresourcetype.CU_RESOURCE_TYPE_ARRAY
        resource.res.array.hArray = array
    modes = [ADDRESS_MODES[mode] for mode in texture.address[::-1]]
    how.addressMode = [driver.CUaddress_mode(mode) for mode in (*modes, 1, 1)[:3]]
    how.filterMode = driver.CUfilter_mode(FILTERS[texture.filter])
    read_as_integer, normalized_coordinates = 1, 2  # CU_TRSF_…
    integers = texture.array.dtype.kind != "f" and not texture.as_float
    how.flags = read_as_integer * integers | normalized_coordinates * texture.normalized
    how.borderColor = list(texture.border)
    return driver.cuTexObjectCreate(resource, how, None)


@contextlib.contextmanager
def _ordered_after(handle: int, array_streams: set[int]) -> Iterator[None]:
    """Orders the work that is enqueued inside after the owning streams of its arrays, and their later work after
    it."""
    stream = driver.CUstream(handle)
    captured = handle and int(_raise_on_error(driver.cuStreamIsCapturing(stream)))
    others = [] if captured else [driver.CUstream(owner) for owner in array_streams | {0} if owner != handle]
    for other in others:
        _stream_wait(stream, other)
    yield
    for other in others:
        _stream_wait(other, stream)


def _stream_wait(later: Any, earlier: Any) -> None:
    event = _raise_on_error(driver.cuEventCreate(2))  # CU_EVENT_DISABLE_TIMING
    _raise_on_error(driver.cuEventRecord(event, earlier))
    _raise_on_error(driver.cuStreamWaitEvent(later, event, 0))
    _raise_on_error(driver.cuEventDestroy(event))


def _raise_on_error(result: tuple) -> Any:
    """The results of a driver call, without its error code. Raises if the call failed."""
    code, *values = result
    if int(code):
        text = driver.cuGetErrorString(code)[1]
        error = CudaError(f"{code.name}: {text.decode() if text else 'unknown'}")
        error.code, error.name = int(code), code.name
        raise error
    return values[0] if len(values) == 1 else tuple(values)
