"""curand_kernel.h: MRG32k3a, MTGP32, Sobol's sequences and distributions, by what the toolkit's own functions give
on the host. tests/executor/random.cu has XORWOW and Philox.
"""

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from together import Variants

import smemkit

pytestmark = pytest.mark.usefixtures("compiled_when_used")

SOURCE = """
#include <curand_kernel.h>
__global__ void mrg(unsigned long long seed, unsigned long long subsequence, unsigned long long offset,
                    unsigned *w, double *x)
{
    curandStateMRG32k3a s;
    curand_init(seed, subsequence, offset, &s);
    for (int i = 0; i < 5; i++)
        w[i] = curand(&s);
    x[0] = curand_uniform(&s);
    x[1] = curand_uniform_double(&s);
    x[2] = curand_normal(&s);
    x[3] = curand_normal(&s);
    x[4] = curand_normal_double(&s);
    x[5] = curand_normal_double(&s);
    x[6] = curand_log_normal(&s, 1, 0.5f);
}
__global__ void mrg_sequence(unsigned *w)
{
    curandStateMRG32k3a_t s;
    curand_init(5, 0, 0, &s);
    skipahead_sequence(3, &s);
    *w = curand(&s);
}
template <class State, class Word> __device__ void draw(State *s, Word *w, double *x)
{
    for (int i = 0; i < 5; i++)
        w[i] = curand(s);
    x[0] = curand_uniform(s);
    x[1] = curand_uniform_double(s);
    x[2] = curand_normal_double(s);
}
__global__ void sobol(const curandDirectionVectors32_t *v, const curandDirectionVectors64_t *v64, unsigned *w,
                      unsigned long long *w64, double *x)
{
    curandStateSobol32_t a;
    curandStateScrambledSobol32_t b;
    curandStateSobol64_t c;
    curandStateScrambledSobol64_t d;
    curand_init(v[0], 5u, &a);
    curand_init(v[0], 0xdeadbeefu, 5u, &b);
    curand_init(v64[0], 2u, &c);
    curand_init(v64[0], 0xdeadbeef12345ull, 5u, &d);
    skipahead(3ull, &c);
    draw(&a, w, x);
    draw(&b, w + 5, x + 3);
    draw(&c, w64, x + 6);
    draw(&d, w64 + 5, x + 9);
}
__global__ void others(unsigned *w, double *x)
{
    curandState s;
    curand_init(7, 0, 0, &s);
    const double2 z = curand_normal2_double(&s);
    const float2 l = curand_log_normal2(&s, 0, 1);
    x[0] = z.x, x[1] = z.y, x[2] = l.x, x[3] = l.y, x[4] = curand_log_normal_double(&s, 0, 1);
    curand_init(7, 0, 0, &s);
    for (int i = 0; i < 8; i++)
        w[i] = curand_poisson(&s, 3.5);
    curandStatePhilox4_32_10_t p;
    curand_init(7, 0, 0, &p);
    const double2 u = curand_uniform2_double(&p), n = curand_normal2_double(&p);
    const float4 f = curand_log_normal4(&p, 0, 1);
    const uint4 k = curand_poisson4(&p, 3.5);
    const double4 d = curand_uniform4_double(&p);
    x[5] = u.x, x[6] = u.y, x[7] = n.x, x[8] = n.y, x[9] = f.y, x[10] = f.w, x[11] = d.x, x[12] = d.w;
    w[8] = k.x, w[9] = k.y, w[10] = k.z, w[11] = k.w;
}
__global__ void many_poisson(double mean, unsigned *w)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    curandStatePhilox4_32_10_t s;
    curand_init(3, i, 0, &s);
    w[i] = curand_poisson(&s, mean);
}
"""

MRG = [
    (
        (0, 0, 0),
        [545508615, 1368065476, 1327943825, 3546985268, 951893240],
        [0.53339541, 0.480774203, 1.08461797, 0.94431293, -0.342004418, -0.665471058, 4.91505909],
    ),
    (
        (1234, 1, 77),
        [850877239, 2792036236, 2727030054, 3260021559, 3308377755],
        [0.606214225, 0.386030767, 1.38273525, -1.10033357, 0.624642917, -2.15885784, 4.23205948],
    ),
    (
        (0x123456789ABCDEF, 1000000007, (1 << 33) + 2),
        [730807239, 3956641352, 951951560, 498885956, 650572913],
        [0.950399518, 0.903223935, 0.00121365336, 0.0717376173, 0.942751314, -1.35777038, 5.78859377],
    ),
]


@cache
def kernels():
    return smemkit.Kernel(SOURCE)


@pytest.mark.parametrize(("start", "words", "numbers"), MRG)
def test_mrg32k3a_is_curands(start, words, numbers):
    w, x = np.zeros(5, np.uint32), np.zeros(7)
    kernels()["mrg"][1, 1](*start, w, x)
    assert_array_equal(w, words)
    assert_allclose(x, numbers, rtol=1e-4)


def test_sequences_of_mrg32k3a_are_curands():
    w = np.zeros(1, np.uint32)
    kernels()["mrg_sequence"][1, 1](w)
    assert w[0] == 260175872


def vectors(bits, constant, dtype):
    """Some direction vectors; real ones come from the caller."""
    return np.array([1 << bits - 1 - i | (constant >> i if i % 3 == 0 else 0) for i in range(bits)], dtype)


def test_sobol_sequences_are_curands():
    w, w64, x = np.zeros(10, np.uint32), np.zeros(10, np.uint64), np.zeros(12)
    v, v64 = vectors(32, 0x1234567, np.uint32), vectors(64, 0x123456789ABCDEF, np.uint64)
    kernels()["sobol"][1, 1](v.reshape(1, 32), v64.reshape(1, 64), w, w64, x)
    assert_array_equal(w[:5], [3777185127, 2703443303, 536870912, 807692460, 2970037707])
    assert_array_equal(w[5:], [1066335112, 2140076936, 4272799471, 4002010691, 1873449764])
    assert [int(word) for word in w64] == [
        *(16222886593712344559, 11611200575284956655, 2305843009213693952, 3469012704972601789),
        *(12756214821475497042, 16226099731185200810, 11614413712757812906, 2309760414238450501),
        *(3470448436011358968, 12757227768537650967),
    ]
    x = x.reshape(4, 3)
    assert_allclose(x[[0, 2, 3], 0], [0.94151580333709717, 0.94151580333709717, 0.9415706992149353], rtol=1e-7)
    assert_allclose(x[[0, 2, 3], 1], [0.43805555556900799, 0.43805555555555559, 0.43813338669112184], rtol=1e-15)
    assert (abs(x[:, 2]) < 3).all()


def test_distributions_are_curands():
    w, x = np.zeros(12, np.uint32), np.zeros(13)
    kernels()["others"][1, 1](w, x)
    assert_array_equal(w, [5, 4, 4, 2, 6, 4, 2, 1, 2, 3, 6, 2])
    expected = [-0.15342489517562508, 0.22679916792585478, 3.96920872, 0.552761197, 0.57330884195896359]
    expected += [0.75015249825429975, 0.085657860114061457, -0.17714599745468998, 0.6532462827382659]
    expected += [24.2969494, 1.46199334, 0.94927607715671103, 0.56806885951225938]
    assert_allclose(x, expected, rtol=1e-5)


@pytest.mark.parametrize("mean", [0.5, 20.0, 64.0, 1000.0])
def test_poissons_distribution_has_its_mean_and_its_variance(mean):
    w = np.zeros(20000, np.uint32)
    kernels()["many_poisson"][20, 1000](mean, w)
    assert abs(w.mean() - mean) < 5 * np.sqrt(mean / w.size)
    assert abs(w.var() / mean - 1) < 5 * np.sqrt((2 + 1 / mean) / w.size)


MTGP32 = """
#include <curand_kernel.h>
__global__ void draw(curandStateMtgp32_t *state, unsigned *w, float *f, double *d)
{
    const int t = threadIdx.x;
    for (int i = 0; i < 5; i++)
        w[i * 256 + t] = curand(state);
    f[t] = curand_uniform(state);
    f[256 + t] = curand_normal(state);
    d[t] = curand_uniform_double(state);
    d[256 + t] = curand_normal_double(state);
    d[512 + t] = curand_log_normal(state, 1, 2);
    w[5 * 256 + t] = curand_poisson(state, 3.5);
}
__global__ void single(curandStateMtgp32_t *state, float *f)
{
    f[threadIdx.x] = curand_mtgp32_single(state);
}
__global__ void single_specific(curandStateMtgp32_t *state, float *f)
{
    f[threadIdx.x] = curand_mtgp32_single_specific(state, threadIdx.x, 1);
}
"""


@cache
def mtgp32():
    return smemkit.Kernel(MTGP32)


STATE = np.dtype([("s", "u4", 1024), ("offset", "i4"), ("pIdx", "i4"), ("k", "u8")])


def sums(one, two, four, eight):
    """The exclusive ors of the words whose bits are set in 0, 1, … 15."""
    words = np.zeros(16, np.uint32)
    for i in range(16):
        for bit, word in enumerate((one, two, four, eight)):
            words[i] ^= word if i >> bit & 1 else 0
    return words


def mtgp32_state(seed):
    """A state with the first of cuRAND's sets of parameters, and the parameters."""
    sets, size = 200, 351
    parameters = np.zeros(sets * (3 + 3 * 16) + 1, np.uint32)
    position, table, temper, single, shift_1, shift_2 = np.split(
        parameters[:-1], np.cumsum([sets, *3 * [16 * sets], sets])
    )
    position[0], shift_1[0], shift_2[0], parameters[-1] = 88, 19, 5, 0xFFF80000
    table[:16] = sums(0xABA4D62C, 0xBB076F87, 0x22000000, 0x000095BA)
    temper[:16] = sums(0x06100000, 0x25D80000, 0x282C0000, 0x3302DE00)
    single[:16] = temper[:16] >> 9 | 0x3F800000
    parameters = smemkit.asarray(parameters, device="cpu")
    words = [int(table[4]) ^ int(table[8]) << 16 & 0xFFFFFFFF]
    fill = words[0] + (words[0] >> 16)
    fill = (fill + (fill >> 8) & 0xFF) * 0x01010101
    words = [seed, words[0], *(size - 2) * [fill]]
    for i in range(1, size):
        words[i] ^= 1812433253 * (words[i - 1] ^ words[i - 1] >> 30) + i & 0xFFFFFFFF
    state = np.zeros(1, STATE)
    state["s"][0, :size], state["k"] = words, np.from_dlpack(parameters).ctypes.data
    return state, parameters


def test_mtgp32_is_curands():
    draw = mtgp32()["draw"]
    state, parameters = mtgp32_state(1235)  # the state points to the parameters
    w, f, d = np.zeros((6, 256), np.uint32), np.zeros((2, 256), np.float32), np.zeros((3, 256))
    draw[1, 256](state, w, f, d)
    assert_array_equal(w[0, [0, 1, 17, 100, 255]], [2501053709, 1991185121, 2250575718, 4009033620, 695822533])
    assert_array_equal(w[4, [0, 1, 17, 100, 255]], [814485849, 342379010, 2175080529, 581371315, 652861715])
    assert_array_equal(w[5, [0, 1, 17, 100, 255]], [3, 2, 3, 2, 3])
    assert_allclose(f[0, [0, 255]], [0.0999184549, 0.285319418], rtol=1e-8)
    assert_allclose(d[0, [0, 255]], [0.44003267283551395, 0.84735326305963099], rtol=1e-16)
    for normals in f[1], d[1], (np.log(d[2]) - 1) / 2:
        assert abs(normals.mean()) < 0.3 and 0.8 < normals.std() < 1.2
    assert parameters.nbytes == 40804  # they have lived until here


@pytest.mark.parametrize(("name", "number"), [("single_specific", 1.58232188), ("single", 1.46360886)])
def test_single_numbers_of_mtgp32_are_curands(name, number):
    single = mtgp32()[name]
    state, parameters = mtgp32_state(1235)
    f = np.zeros(1, np.float32)
    single[1, 1](state, f)
    assert f[0] == np.float32(number) and parameters.nbytes == 40804


def test_threads_share_a_state_of_mtgp32():
    draw = mtgp32()["draw"]
    arrays = np.zeros((6, 256), np.uint32), np.zeros((2, 256), np.float32), np.zeros((3, 256))
    assert smemkit.check(draw[1, 256], np.zeros(1, STATE), *arrays).ok  # zeros
    many = smemkit.check(draw[1, 512], np.zeros(1, STATE), *(np.zeros((9, 512), x.dtype) for x in arrays))
    assert "race" in {fault.kind for fault in many.faults}  # more than 256 threads overwrite what others read
    two = smemkit.check(draw[2, 256], np.zeros(1, STATE), *arrays)
    assert "race" in {fault.kind for fault in two.faults}
    one = MTGP32.replace("const int t = threadIdx.x;", "const int t = threadIdx.x; if (t) return;")
    assert smemkit.check(smemkit.Kernel(one, "draw")[1, 256], np.zeros(1, STATE), *arrays).faults


@pytest.mark.usefixtures("compiled_at_once")
def test_what_needs_curands_host_functions_is_refused_by_name():
    source = "#include <curand_kernel.h>\n__global__ void k(unsigned *x, curandState *s, void *d)"
    with pytest.raises(smemkit.CompileError, match="curand_discrete, whose table a host function"):
        smemkit.Kernel(source + "{ *x = curand_discrete(s, d); }")


EVERY_THREAD = """
#include <curand_kernel.h>
__global__ void draw(float *x)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    STATE state;
    curand_init(64, i, 0, &state);
    x[i] = curand_uniform(&state);
}
"""


STATES = ["curandStateXORWOW_t", "curandStateMRG32k3a_t"]
DRAWS = Variants("draw")
for state in STATES:
    DRAWS.add(EVERY_THREAD.replace("STATE", state))


@pytest.mark.parametrize("state", STATES)
def test_threads_of_a_block_initialise_states_together(state, monkeypatch):
    monkeypatch.setenv("SMEMKIT_WATCHDOG", "5")
    kernel = DRAWS[EVERY_THREAD.replace("STATE", state)]
    report = smemkit.check(kernel[4, 64], np.zeros(256, np.float32))
    assert report.ok, report
