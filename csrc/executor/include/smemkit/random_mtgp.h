/* MTGP32 with period 2^11213 - 1 (Saito, Matsumoto, "Variants of Mersenne Twister suitable for graphic
 * processors", 2013), with cuRAND's bits: the threads of a block draw together, from one state in global memory.
 * cuRAND's host functions prepare states and parameters. Host code does not run here, so that the right numbers
 * need states that were prepared with CUDA. A state of zeros, `--arg 'struct4112[64] = zeros'`, yields zeros, with
 * the accesses and barriers of a prepared one. */
#ifndef SMEMKIT_RANDOM_MTGP_H
#define SMEMKIT_RANDOM_MTGP_H

enum {
    MTGP32_STATE_SIZE = 1024,
    MTGP32_STATE_MASK = 1023,
    MTGPDC_N = 351, /* words of the recurrence */
    CURAND_NUM_MTGP32_PARAMS = 200,
    TBL_SIZE = 16
};

struct mtgp32_kernel_params {
    unsigned pos_tbl[CURAND_NUM_MTGP32_PARAMS];
    unsigned param_tbl[CURAND_NUM_MTGP32_PARAMS][TBL_SIZE];
    unsigned temper_tbl[CURAND_NUM_MTGP32_PARAMS][TBL_SIZE];
    unsigned single_temper_tbl[CURAND_NUM_MTGP32_PARAMS][TBL_SIZE];
    unsigned sh1_tbl[CURAND_NUM_MTGP32_PARAMS];
    unsigned sh2_tbl[CURAND_NUM_MTGP32_PARAMS];
    unsigned mask[1];
};
typedef mtgp32_kernel_params mtgp32_kernel_params_t;

struct curandStateMtgp32 {
    unsigned s[MTGP32_STATE_SIZE]; /* a ring */
    int offset, pIdx;              /* of the next number; of the parameters */
    mtgp32_kernel_params_t *k;
};
typedef curandStateMtgp32 curandStateMtgp32_t;

namespace smemkit
{

struct mtgp32_state {
    curandStateMtgp32 *state;
    const void *pc;

    SMEMKIT_NO_HOOKS unsigned read(unsigned i) const
    {
        report_read(&state->s[i & MTGP32_STATE_MASK], sizeof(unsigned), pc);
        return state->s[i & MTGP32_STATE_MASK];
    }
    SMEMKIT_NO_HOOKS void write(unsigned i, unsigned word) const
    {
        report_write(&state->s[i & MTGP32_STATE_MASK], sizeof(unsigned), pc);
        state->s[i & MTGP32_STATE_MASK] = word;
    }
    SMEMKIT_NO_HOOKS unsigned offset() const
    {
        report_read(&state->offset, sizeof state->offset, pc);
        return (unsigned)state->offset;
    }
};

/* What is drawn: words, or the bits of a float in [1, 2). */
enum mtgp32_kind { MTGP32_WORD, MTGP32_SINGLE };

/* The next number of thread `index`: x[N] from x[0], x[1] and x[pos], and its tempering by x[pos - 1]. After it
 * the state moves on by `drawn` numbers. */
SMEMKIT_INLINE unsigned mtgp32_next(curandStateMtgp32 *state, unsigned index, unsigned drawn, mtgp32_kind kind,
                                    unsigned to, bool moves, const void *pc, const char *file, int line)
{
    enum { FIRST_POS = 88 }; /* of the first of cuRAND's sets of parameters */
    const mtgp32_state x = {state, pc};
    const mtgp32_kernel_params *k = state->k;
    const int set = state->pIdx;
    const unsigned pos = k ? k->pos_tbl[set] : FIRST_POS, begin = index + x.offset();

    unsigned sum = (x.read(begin) & (k ? k->mask[0] : ~0u)) ^ x.read(begin + 1);
    sum ^= k ? sum << k->sh1_tbl[set] : 0;
    sum ^= k ? x.read(begin + pos) >> k->sh2_tbl[set] : x.read(begin + pos);
    sum ^= k ? k->param_tbl[set][sum & 15] : 0;

    unsigned tempering = x.read(begin + pos - 1);
    x.write(kind == MTGP32_WORD ? begin + MTGPDC_N : to, sum);
    tempering ^= tempering >> 16;
    tempering ^= tempering >> 8;
    const unsigned number = kind == MTGP32_WORD
                                ? sum ^ (k ? k->temper_tbl[set][tempering & 15] : 0)
                                : sum >> 9 ^ (k ? k->single_temper_tbl[set][tempering & 15] : 0x3f800000);

    __syncthreads(file, line);
    if (moves) {
        report_write(&state->offset, sizeof state->offset, pc);
        state->offset = (int)((unsigned)state->offset + drawn) & MTGP32_STATE_MASK;
    }
    __syncthreads(file, line);
    return number;
}
SMEMKIT_INLINE unsigned mtgp32_of_block(curandStateMtgp32 *state, const void *pc, const char *file, int line)
{
    const unsigned index =
        blockDim.z * blockDim.y * threadIdx.z + blockDim.x * threadIdx.y + threadIdx.x; /* cuRAND's order */
    return mtgp32_next(state, index, blockDim.x * blockDim.y * blockDim.z, MTGP32_WORD, 0, index == 0, pc, file,
                       line);
}

} // namespace smemkit

SMEMKIT_INLINE unsigned curand(curandStateMtgp32 *state, SMEMKIT_HERE)
{
    return smemkit::mtgp32_of_block(state, SMEMKIT_PC, file, line);
}
SMEMKIT_INLINE unsigned curand_mtgp32_specific(curandStateMtgp32 *state, unsigned char index, unsigned char n,
                                               SMEMKIT_HERE)
{
    return smemkit::mtgp32_next(state, index, n, smemkit::MTGP32_WORD, 0, index == 0, SMEMKIT_PC, file, line);
}
/* cuRAND 13 stores the words of these numbers at the thread's own place, which other threads may read: a race, and
 * a check reports it */
SMEMKIT_INLINE float curand_mtgp32_single(curandStateMtgp32 *state, SMEMKIT_HERE)
{
    const unsigned index = blockDim.z * blockDim.y + threadIdx.x;
    return __uint_as_float(smemkit::mtgp32_next(state, index, blockDim.x * blockDim.y * blockDim.z,
                                                smemkit::MTGP32_SINGLE, index, threadIdx.x == 0, SMEMKIT_PC, file,
                                                line));
}
SMEMKIT_INLINE float curand_mtgp32_single_specific(curandStateMtgp32 *state, unsigned char index, unsigned char n,
                                                   SMEMKIT_HERE)
{
    return __uint_as_float(smemkit::mtgp32_next(state, index, n, smemkit::MTGP32_SINGLE, index, threadIdx.x == 0,
                                                SMEMKIT_PC, file, line));
}
SMEMKIT_INLINE float curand_uniform(curandStateMtgp32 *state, SMEMKIT_HERE)
{
    return smemkit::uniform_of(smemkit::mtgp32_of_block(state, SMEMKIT_PC, file, line));
}
SMEMKIT_INLINE double curand_uniform_double(curandStateMtgp32 *state, SMEMKIT_HERE)
{
    return (double)smemkit::mtgp32_of_block(state, SMEMKIT_PC, file, line) * 0x1p-32 + 0x1p-32;
}
SMEMKIT_INLINE float curand_normal(curandStateMtgp32 *state, SMEMKIT_HERE)
{
    return (float)smemkit::normal_of<unsigned>(smemkit::mtgp32_of_block(state, SMEMKIT_PC, file, line));
}
SMEMKIT_INLINE double curand_normal_double(curandStateMtgp32 *state, SMEMKIT_HERE)
{
    return smemkit::normal_of<unsigned>(smemkit::mtgp32_of_block(state, SMEMKIT_PC, file, line));
}
SMEMKIT_INLINE float curand_log_normal(curandStateMtgp32 *state, float mean, float deviation, SMEMKIT_HERE)
{
    return expf(mean + deviation * curand_normal(state, file, line));
}
SMEMKIT_INLINE double curand_log_normal_double(curandStateMtgp32 *state, double mean, double deviation,
                                               SMEMKIT_HERE)
{
    return exp(mean + deviation * curand_normal_double(state, file, line));
}
/* By inversion: every thread of the block draws one number, whatever its count. */
SMEMKIT_INLINE unsigned curand_poisson(curandStateMtgp32 *state, double mean, SMEMKIT_HERE)
{
    const double u = (double)smemkit::mtgp32_of_block(state, SMEMKIT_PC, file, line) * 0x1p-32 + 0x1p-33;
    const double tail = 10 * sqrt(mean) + 50; /* counts beyond it are too rare for 32 bits */
    double sum = 0;
    for (double count = floor(fmax(0, mean - tail)); count < mean + tail; count++) {
        sum += exp(count * log(mean) - mean - lgamma(count + 1));
        if (sum >= u)
            return (unsigned)count;
    }
    return (unsigned)(mean + tail);
}

#endif
