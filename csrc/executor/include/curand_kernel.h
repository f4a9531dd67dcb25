/* cuRAND's device generators, with cuRAND's bits: XORWOW (Marsaglia, "Xorshift RNGs", 2003), Philox4x32-10
 * (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011), MRG32k3a, MTGP32 and Sobol's
 * sequences. Seeds, subsequences and offsets are laid out as the cuRAND guide describes; normals are by Box and
 * Muller. Normal and logarithmic distributions round as the host's functions do. Poisson's distribution has
 * cuRAND's numbers for means below 64 only. */
#ifndef SMEMKIT_CURAND_KERNEL_H
#define SMEMKIT_CURAND_KERNEL_H

#include <cuda_runtime.h>

struct curandStateXORWOW {
    unsigned d, v[5];
    int has_normal, has_normal_double;
    float normal;
    double normal_double;
};
struct curandStatePhilox4_32_10 {
    uint4 counter, output;
    uint2 key;
    unsigned used; /* numbers of `output` */
    int has_normal, has_normal_double;
    float normal;
    double normal_double;
};
typedef curandStateXORWOW curandState;
typedef curandStateXORWOW curandState_t;
typedef curandStateXORWOW curandStateXORWOW_t;
typedef curandStatePhilox4_32_10 curandStatePhilox4_32_10_t;

namespace smemkit
{

/* ---- XORWOW: a linear recurrence on 160 bits, and a counter that is added ---- */

struct bits160 {
    unsigned word[5];
};
struct matrix160 {
    bits160 column[160]; /* the images of single bits */
};

SMEMKIT_NO_HOOKS SMEMKIT_INLINE bits160 step160(bits160 x)
{
    const unsigned t = x.word[0] ^ x.word[0] >> 2;
    const unsigned last = x.word[4] ^ x.word[4] << 4 ^ t ^ t << 1;
    return {{x.word[1], x.word[2], x.word[3], x.word[4], last}};
}
SMEMKIT_NO_HOOKS SMEMKIT_INLINE bits160 apply160(const matrix160 &m, bits160 x)
{
    bits160 sum = {};
    for (int i = 0; i < 160; i++)
        if (x.word[i / 32] >> i % 32 & 1)
            for (int j = 0; j < 5; j++)
                sum.word[j] ^= m.column[i].word[j];
    return sum;
}

enum { XORWOW_POWERS = 131 }; /* of two: offsets have 64 bits, and a subsequence is 2^67 steps */
struct xorwow_powers {
    matrix160 *power;

    SMEMKIT_NO_HOOKS xorwow_powers() : power(new matrix160[XORWOW_POWERS])
    {
        for (int i = 0; i < 160; i++) {
            bits160 bit = {};
            bit.word[i / 32] = 1u << i % 32;
            power[0].column[i] = step160(bit);
        }
        for (int n = 1; n < XORWOW_POWERS; n++)
            for (int i = 0; i < 160; i++)
                power[n].column[i] = apply160(power[n - 1], power[n - 1].column[i]);
    }
};
/* Filled before any launch. A static variable of a function would be filled by a CUDA thread, and the other
 * threads of its worker would wait for it in the C++ library forever. */
static const xorwow_powers powers_of_xorwow;

SMEMKIT_INLINE void skip160(curandStateXORWOW *state, unsigned long long steps, int first_power)
{
    bits160 x;

    memcpy(&x, state->v, sizeof x);
    for (int n = 0; n < 64; n++)
        if (steps >> n & 1)
            x = apply160(powers_of_xorwow.power[first_power + n], x);
    memcpy(state->v, &x, sizeof x);
}

/* ---- Philox ---- */

SMEMKIT_INLINE uint4 philox(uint4 x, uint2 key)
{
    for (int round = 0; round < 10; round++) {
        const uint64_t a = 0xD2511F53ull * x.x, b = 0xCD9E8D57ull * x.z;
        x = {(unsigned)(b >> 32) ^ x.y ^ key.x, (unsigned)b, (unsigned)(a >> 32) ^ x.w ^ key.y, (unsigned)a};
        key.x += 0x9E3779B9u;
        key.y += 0xBB67AE85u;
    }
    return x;
}
SMEMKIT_INLINE void philox_add(uint4 &counter, unsigned long long n)
{
    const uint64_t low = (uint64_t)counter.y << 32 | counter.x, sum = low + n;
    counter.x = (unsigned)sum;
    counter.y = (unsigned)(sum >> 32);
    if (sum < low && ++counter.z == 0)
        counter.w++;
}
SMEMKIT_INLINE void philox_add_high(uint4 &counter, unsigned long long n)
{
    const uint64_t sum = ((uint64_t)counter.w << 32 | counter.z) + n;
    counter.z = (unsigned)sum;
    counter.w = (unsigned)(sum >> 32);
}

SMEMKIT_INLINE float uniform_of(unsigned x)
{
    return (float)x * 0x1p-32f + 0x1p-33f; /* in (0, 1] */
}
SMEMKIT_INLINE double uniform_of(unsigned x, unsigned y)
{
    return (double)((uint64_t)x ^ (uint64_t)y << 21) * 0x1p-53 + 0x1p-54;
}
SMEMKIT_INLINE float2 box_muller(unsigned x, unsigned y)
{
    const float angle = (float)y * (0x1p-32f * 6.2831855f) + 0x1p-33f * 6.2831855f;
    const float radius = sqrtf(-2 * logf(uniform_of(x)));
    return {sinf(angle) * radius, cosf(angle) * radius};
}

} // namespace smemkit

/* ---- states ---- */

SMEMKIT_INLINE void skipahead(unsigned long long n, curandStateXORWOW *state)
{
    smemkit::skip160(state, n, 0);
    state->d += 362437u * (unsigned)n;
}
SMEMKIT_INLINE void skipahead_sequence(unsigned long long n, curandStateXORWOW *state)
{
    smemkit::skip160(state, n, 67);
    state->d += 362437u * (unsigned)(n << 63 << 4);
}
SMEMKIT_INLINE void curand_init(unsigned long long seed, unsigned long long sequence, unsigned long long offset,
                                curandStateXORWOW *state)
{
    const unsigned low = 1099087573u * ((unsigned)seed ^ 0xaad26b49u);
    const unsigned high = 2591861531u * ((unsigned)(seed >> 32) ^ 0xf7dcefddu);

    *state = {6615241u + high + low,
              {123456789u + low, 362436069u ^ low, 521288629u + high, 88675123u ^ high, 5783321u + low},
              0,
              0,
              0,
              0};
    skipahead_sequence(sequence, state);
    skipahead(offset, state);
}
SMEMKIT_INLINE unsigned curand(curandStateXORWOW *state)
{
    smemkit::bits160 x;
    memcpy(&x, state->v, sizeof x);
    x = smemkit::step160(x);
    memcpy(state->v, &x, sizeof x);
    state->d += 362437u;
    return x.word[4] + state->d;
}

SMEMKIT_INLINE void skipahead(unsigned long long n, curandStatePhilox4_32_10 *state)
{
    const unsigned long long at = state->used + (n & 3);
    smemkit::philox_add(state->counter, n / 4 + at / 4);
    state->used = (unsigned)(at % 4);
    state->output = smemkit::philox(state->counter, state->key);
}
SMEMKIT_INLINE void skipahead_sequence(unsigned long long n, curandStatePhilox4_32_10 *state)
{
    smemkit::philox_add_high(state->counter, n);
    state->output = smemkit::philox(state->counter, state->key);
}
SMEMKIT_INLINE void curand_init(unsigned long long seed, unsigned long long sequence, unsigned long long offset,
                                curandStatePhilox4_32_10 *state)
{
    *state = {};
    state->key = {(unsigned)seed, (unsigned)(seed >> 32)};
    skipahead_sequence(sequence, state);
    skipahead(offset, state);
}
SMEMKIT_INLINE unsigned curand(curandStatePhilox4_32_10 *state)
{
    const unsigned words[4] = {state->output.x, state->output.y, state->output.z, state->output.w};
    const unsigned word = words[state->used++];
    if (state->used == 4) {
        smemkit::philox_add(state->counter, 1);
        state->output = smemkit::philox(state->counter, state->key);
        state->used = 0;
    }
    return word;
}
SMEMKIT_INLINE uint4 curand4(curandStatePhilox4_32_10 *state)
{
    uint4 four;
    four.x = curand(state), four.y = curand(state), four.z = curand(state), four.w = curand(state);
    return four;
}

#include "smemkit/random_mrg.h"
#include "smemkit/random_sobol.h"
#include "smemkit/random_mtgp.h"

/* ---- distributions ---- */

template <class State>
SMEMKIT_INLINE float curand_uniform(State *state)
{
    return smemkit::uniform_of(curand(state));
}
template <class State>
SMEMKIT_INLINE double curand_uniform_double(State *state)
{
    const unsigned x = curand(state), y = curand(state);
    return smemkit::uniform_of(x, y);
}
template <class State>
SMEMKIT_INLINE float2 curand_normal2(State *state)
{
    const unsigned x = curand(state), y = curand(state);
    return smemkit::box_muller(x, y);
}
template <class State>
SMEMKIT_INLINE float curand_normal(State *state)
{
    if (state->has_normal) {
        state->has_normal = 0;
        return state->normal;
    }
    const float2 two = curand_normal2(state);
    state->has_normal = 1;
    state->normal = two.y;
    return two.x;
}
template <class State>
SMEMKIT_INLINE double2 curand_normal2_double(State *state)
{
    const double u = curand_uniform_double(state), v = curand_uniform_double(state);
    const double radius = sqrt(-2 * log(u));
    return {sinpi(2 * v) * radius, cospi(2 * v) * radius};
}
template <class State>
SMEMKIT_INLINE double curand_normal_double(State *state)
{
    if (state->has_normal_double) {
        state->has_normal_double = 0;
        return state->normal_double;
    }
    const double2 two = curand_normal2_double(state);
    state->has_normal_double = 1;
    state->normal_double = two.y;
    return two.x;
}
template <class State>
SMEMKIT_INLINE float curand_log_normal(State *state, float mean, float deviation)
{
    return expf(mean + deviation * curand_normal(state));
}
template <class State>
SMEMKIT_INLINE double curand_log_normal_double(State *state, double mean, double deviation)
{
    return exp(mean + deviation * curand_normal_double(state));
}
template <class State>
SMEMKIT_INLINE float2 curand_log_normal2(State *state, float mean, float deviation)
{
    const float2 two = curand_normal2(state);
    return {expf(mean + deviation * two.x), expf(mean + deviation * two.y)};
}
template <class State>
SMEMKIT_INLINE double2 curand_log_normal2_double(State *state, double mean, double deviation)
{
    const double2 two = curand_normal2_double(state);
    return {exp(mean + deviation * two.x), exp(mean + deviation * two.y)};
}

/* Poisson's distribution: Knuth's product of uniform numbers for small means, Hoermann's transformed rejection
 * ("The transformed rejection method for generating Poisson random variables", 1993, PTRS) for the others */
template <class State>
SMEMKIT_INLINE unsigned curand_poisson(State *state, double mean)
{
    if (mean < 64) {
        unsigned count = 0;
        for (float product = expf((float)mean) * curand_uniform(state); product > 1; count++)
            product *= curand_uniform(state);
        return count;
    }
    const double b = 0.931 + 2.53 * sqrt(mean), a = -0.059 + 0.02483 * b, inverse = 1.1239 + 1.1328 / (b - 3.4);
    for (;;) {
        const double u = curand_uniform_double(state) - 0.5, v = curand_uniform_double(state);
        const double us = 0.5 - fabs(u), k = floor((2 * a / us + b) * u + mean + 0.43);
        if (us >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2))
            return (unsigned)k;
        if (k >= 0 && (us >= 0.013 || v <= us) &&
            log(v * inverse / (a / (us * us) + b)) <= k * log(mean) - mean - lgamma(k + 1))
            return (unsigned)k;
    }
}

/* ---- four at once, and pairs of float64, of Philox ---- */

SMEMKIT_INLINE float4 curand_uniform4(curandStatePhilox4_32_10 *state)
{
    const uint4 x = curand4(state);
    return {smemkit::uniform_of(x.x), smemkit::uniform_of(x.y), smemkit::uniform_of(x.z),
            smemkit::uniform_of(x.w)};
}
SMEMKIT_INLINE float4 curand_normal4(curandStatePhilox4_32_10 *state)
{
    const uint4 x = curand4(state);
    const float2 a = smemkit::box_muller(x.x, x.y), b = smemkit::box_muller(x.z, x.w);
    return {a.x, a.y, b.x, b.y};
}
SMEMKIT_INLINE float4 curand_log_normal4(curandStatePhilox4_32_10 *state, float mean, float deviation)
{
    const float4 x = curand_normal4(state);
    return {expf(mean + deviation * x.x), expf(mean + deviation * x.y), expf(mean + deviation * x.z),
            expf(mean + deviation * x.w)};
}
SMEMKIT_INLINE double2 curand_uniform2_double(curandStatePhilox4_32_10 *state)
{
    const uint4 x = curand4(state);
    return {smemkit::uniform_of(x.x, x.y), smemkit::uniform_of(x.z, x.w)};
}
SMEMKIT_INLINE double4 curand_uniform4_double(curandStatePhilox4_32_10 *state)
{
    const double2 a = curand_uniform2_double(state), b = curand_uniform2_double(state);
    return {a.x, a.y, b.x, b.y};
}
SMEMKIT_INLINE double4 curand_normal4_double(curandStatePhilox4_32_10 *state)
{
    const double2 a = curand_normal2_double(state), b = curand_normal2_double(state);
    return {a.x, a.y, b.x, b.y};
}
SMEMKIT_INLINE uint4 curand_poisson4(curandStatePhilox4_32_10 *state, double mean)
{
    uint4 four;
    four.x = curand_poisson(state, mean), four.y = curand_poisson(state, mean);
    four.z = curand_poisson(state, mean), four.w = curand_poisson(state, mean);
    return four;
}

#endif
