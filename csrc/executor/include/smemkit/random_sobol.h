/* Sobol's sequences (Sobol, 1967) in the order of a Gray code (Antonov and Saleev, 1979), with 32 and 64 bits,
 * plain and scrambled. The caller gives the direction vectors of a dimension and the constant that scrambles it.
 */
#ifndef SMEMKIT_RANDOM_SOBOL_H
#define SMEMKIT_RANDOM_SOBOL_H

typedef unsigned curandDirectionVectors32_t[32];
typedef unsigned long long curandDirectionVectors64_t[64];

namespace smemkit
{

template <class Word>
struct sobol {
    Word i, x, c; /* the index, the next number, the scrambling constant */
    Word direction_vectors[8 * sizeof(Word)];
};
/* all bits of the number with this index */
template <class Word>
SMEMKIT_INLINE void sobol_seek(sobol<Word> *state, Word index)
{
    state->i = index;
    state->x = state->c;
    for (Word gray = index ^ index >> 1, bit = 0; gray; gray >>= 1, bit++)
        if (gray & 1)
            state->x ^= state->direction_vectors[bit];
}
template <class Word>
SMEMKIT_INLINE void sobol_begin(sobol<Word> *state, const Word *vectors, Word constant, Word offset,
                                const void *pc)
{
    report_read(vectors, sizeof state->direction_vectors, pc);
    memcpy(state->direction_vectors, vectors, sizeof state->direction_vectors);
    state->c = constant;
    sobol_seek(state, offset);
}
template <class Word>
SMEMKIT_INLINE Word sobol_next(sobol<Word> *state)
{
    const Word number = state->x;
    const int changed = __builtin_ctzll(~(unsigned long long)state->i) % (int)(8 * sizeof(Word));
    state->x ^= state->direction_vectors[changed];
    state->i++;
    return number;
}
/* the inverse of the normal distribution, as cuRAND uses for these sequences */
template <class Word>
SMEMKIT_INLINE double normal_of(Word number)
{
    const double unit = sizeof(Word) == 4 ? 0x1p-32 : 0x1p-64;
    return normcdfinv((double)number * unit + unit / 2);
}

} // namespace smemkit

struct curandStateSobol32 : smemkit::sobol<unsigned> {
};
struct curandStateScrambledSobol32 : smemkit::sobol<unsigned> {
};
struct curandStateSobol64 : smemkit::sobol<unsigned long long> {
};
struct curandStateScrambledSobol64 : smemkit::sobol<unsigned long long> {
};
typedef curandStateSobol32 curandStateSobol32_t;
typedef curandStateScrambledSobol32 curandStateScrambledSobol32_t;
typedef curandStateSobol64 curandStateSobol64_t;
typedef curandStateScrambledSobol64 curandStateScrambledSobol64_t;

#define SMEMKIT_SOBOL(State, word)                                                             \
    SMEMKIT_INLINE void skipahead(word n, State *state)                                        \
    {                                                                                          \
        smemkit::sobol_seek<word>(state, state->i + n);                                        \
    }                                                                                          \
    SMEMKIT_INLINE word curand(State *state)                                                   \
    {                                                                                          \
        return smemkit::sobol_next<word>(state);                                               \
    }                                                                                          \
    SMEMKIT_INLINE float curand_uniform(State *state)                                          \
    {                                                                                          \
        return smemkit::uniform_of((unsigned)(curand(state) >> (sizeof(word) == 8 ? 32 : 0))); \
    }                                                                                          \
    SMEMKIT_INLINE double curand_uniform_double(State *state)                                  \
    {                                                                                          \
        const word x = curand(state);                                                          \
        return sizeof(word) == 8 ? (double)((uint64_t)x >> 11) * 0x1p-53 + 0x1p-54             \
                                 : (double)x * 0x1p-32 + 0x1p-32;                              \
    }                                                                                          \
    SMEMKIT_INLINE float curand_normal(State *state)                                           \
    {                                                                                          \
        return (float)smemkit::normal_of<word>(curand(state));                                 \
    }                                                                                          \
    SMEMKIT_INLINE double curand_normal_double(State *state)                                   \
    {                                                                                          \
        return smemkit::normal_of<word>(curand(state));                                        \
    }
#define SMEMKIT_SOBOL_PLAIN(State, word)                                            \
    SMEMKIT_INLINE void curand_init(const word *vectors, word offset, State *state) \
    {                                                                               \
        smemkit::sobol_begin<word>(state, vectors, 0, offset, SMEMKIT_PC);          \
    }
#define SMEMKIT_SOBOL_SCRAMBLED(State, word)                                                       \
    SMEMKIT_INLINE void curand_init(const word *vectors, word constant, word offset, State *state) \
    {                                                                                              \
        smemkit::sobol_begin<word>(state, vectors, constant, offset, SMEMKIT_PC);                  \
    }
SMEMKIT_SOBOL(curandStateSobol32, unsigned)
SMEMKIT_SOBOL(curandStateScrambledSobol32, unsigned)
SMEMKIT_SOBOL(curandStateSobol64, unsigned long long)
SMEMKIT_SOBOL(curandStateScrambledSobol64, unsigned long long)
SMEMKIT_SOBOL_PLAIN(curandStateSobol32, unsigned)
SMEMKIT_SOBOL_PLAIN(curandStateSobol64, unsigned long long)
SMEMKIT_SOBOL_SCRAMBLED(curandStateScrambledSobol32, unsigned)
SMEMKIT_SOBOL_SCRAMBLED(curandStateScrambledSobol64, unsigned long long)
#undef SMEMKIT_SOBOL
#undef SMEMKIT_SOBOL_PLAIN
#undef SMEMKIT_SOBOL_SCRAMBLED

#endif
