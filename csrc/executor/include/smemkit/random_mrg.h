/* MRG32k3a (L'Ecuyer, "Good parameters and implementations for combined multiple recursive random number
 * generators", 1999), seeded and divided as the cuRAND guide says: subsequences of 2^76 numbers, sequences of
 * 2^127. */
#ifndef SMEMKIT_RANDOM_MRG_H
#define SMEMKIT_RANDOM_MRG_H

struct curandStateMRG32k3a {
    unsigned s1[3], s2[3];
    int has_normal, has_normal_double;
    float normal;
    double normal_double;
};
typedef curandStateMRG32k3a curandStateMRG32k3a_t;

namespace smemkit
{

enum : uint64_t { MRG_M1 = 4294967087, MRG_M2 = 4294944443 };
enum : uint64_t { MRG_A12 = 1403580, MRG_A13 = MRG_M1 - 810728, MRG_A21 = 527612, MRG_A23 = MRG_M2 - 1370589 };
enum { MRG_POWERS = 127 + 64, MRG_SUBSEQUENCE = 76, MRG_SEQUENCE = 127 };

struct matrix3 {
    uint64_t at[3][3];
};
SMEMKIT_NO_HOOKS SMEMKIT_INLINE matrix3 square_modulo(const matrix3 &a, uint64_t modulus)
{
    matrix3 c = {};
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 3; k++)
                c.at[i][j] = (c.at[i][j] + a.at[i][k] * a.at[k][j] % modulus) % modulus;
    return c;
}
/* The matrices of 2^0, 2^1, ... steps */
struct mrg_powers {
    matrix3 first[MRG_POWERS], second[MRG_POWERS];

    SMEMKIT_NO_HOOKS mrg_powers()
    {
        first[0] = {{{0, 1, 0}, {0, 0, 1}, {MRG_A13, MRG_A12, 0}}};
        second[0] = {{{0, 1, 0}, {0, 0, 1}, {MRG_A23, 0, MRG_A21}}};
        for (int n = 1; n < MRG_POWERS; n++) {
            first[n] = square_modulo(first[n - 1], MRG_M1);
            second[n] = square_modulo(second[n - 1], MRG_M2);
        }
    }
};
SMEMKIT_INLINE void apply_modulo(const matrix3 &a, unsigned *x, uint64_t modulus)
{
    const uint64_t old[3] = {x[0], x[1], x[2]};
    for (int i = 0; i < 3; i++) {
        uint64_t sum = 0;
        for (int j = 0; j < 3; j++)
            sum = (sum + a.at[i][j] * old[j] % modulus) % modulus;
        x[i] = (unsigned)sum;
    }
}
static const mrg_powers powers_of_mrg; /* filled before any launch, as powers_of_xorwow */

/* Skips n * 2^unit numbers. */
SMEMKIT_INLINE void mrg_skip(curandStateMRG32k3a *state, unsigned long long n, int unit)
{
    for (int bit = 0; bit < 64; bit++)
        if (n >> bit & 1) {
            apply_modulo(powers_of_mrg.first[unit + bit], state->s1, MRG_M1);
            apply_modulo(powers_of_mrg.second[unit + bit], state->s2, MRG_M2);
        }
}
/* The next number, from 1 to MRG_M1 */
SMEMKIT_INLINE double mrg_next(curandStateMRG32k3a *state)
{
    unsigned *a = state->s1, *b = state->s2;
    const uint64_t x = (MRG_A12 * a[1] + MRG_A13 * a[0] % MRG_M1) % MRG_M1;
    const uint64_t y = (MRG_A21 * b[2] + MRG_A23 * b[0] % MRG_M2) % MRG_M2;
    a[0] = a[1], a[1] = a[2], a[2] = (unsigned)x;
    b[0] = b[1], b[1] = b[2], b[2] = (unsigned)y;
    return (double)(x <= y ? x + MRG_M1 - y : x - y);
}

} // namespace smemkit

SMEMKIT_INLINE void skipahead(unsigned long long n, curandStateMRG32k3a *state)
{
    smemkit::mrg_skip(state, n, 0);
}
SMEMKIT_INLINE void skipahead_subsequence(unsigned long long n, curandStateMRG32k3a *state)
{
    smemkit::mrg_skip(state, n, smemkit::MRG_SUBSEQUENCE);
}
SMEMKIT_INLINE void skipahead_sequence(unsigned long long n, curandStateMRG32k3a *state)
{
    smemkit::mrg_skip(state, n, smemkit::MRG_SEQUENCE);
}
SMEMKIT_INLINE void curand_init(unsigned long long seed, unsigned long long subsequence, unsigned long long offset,
                                curandStateMRG32k3a *state)
{
    const uint64_t low = (unsigned)seed ^ 0x55555555u, high = (unsigned)(seed >> 32) ^ 0xAAAAAAAAu;

    *state = {};
    for (int i = 0; i < 3; i++) {
        const uint64_t one = i % 2 ? high : low, other = i % 2 ? low : high;
        state->s1[i] = seed ? (unsigned)(one * 12345 % smemkit::MRG_M1) : 12345;
        state->s2[i] = seed ? (unsigned)(other * 12345 % smemkit::MRG_M2) : 12345;
    }
    skipahead_subsequence(subsequence, state);
    skipahead(offset, state);
}
SMEMKIT_INLINE unsigned curand(curandStateMRG32k3a *state)
{
    return (unsigned)(smemkit::mrg_next(state) * (0x1.fffffffffp31 / smemkit::MRG_M1));
}
SMEMKIT_INLINE double curand_uniform_double(curandStateMRG32k3a *state)
{
    return smemkit::mrg_next(state) * 2.3283065498378288e-10; /* at most 1 */
}
SMEMKIT_INLINE float curand_uniform(curandStateMRG32k3a *state)
{
    return (float)curand_uniform_double(state);
}
SMEMKIT_INLINE float2 curand_normal2(curandStateMRG32k3a *state)
{
    const float u = curand_uniform(state), angle = curand_uniform(state) * 6.2831855f;
    const float radius = sqrtf(-2 * logf(u));
    return {sinf(angle) * radius, cosf(angle) * radius};
}

#endif
