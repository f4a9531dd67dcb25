// cuRAND's generators: Philox by the known answers of Random123, states and distributions by what the toolkit's
// own functions give on the host.
#include "check.h"

#include <curand_kernel.h>

template <class State>
__global__ void draw(unsigned long long seed, unsigned long long sequence, unsigned long long offset,
                     unsigned *words, float *floats)
{
    State state;
    curand_init(seed, sequence, offset, &state);
    for (int i = 0; i < 6; i++)
        words[i] = curand(&state);
    floats[0] = curand_uniform(&state);
    floats[1] = curand_normal(&state);
    floats[2] = curand_normal(&state);
}

struct expected {
    unsigned long long seed, sequence, offset;
    unsigned words[6];
    float floats[3];
};

template <class State>
static void check(const expected &want)
{
    Array<unsigned> words(6);
    Array<float> floats(3);
    draw<State><<<1, 1>>>(want.seed, want.sequence, want.offset, words.device, floats.device);
    RUNS();
    words.download();
    floats.download();
    for (int i = 0; i < 6; i++)
        EQUAL_AT(i, words[i], want.words[i]);
    for (int i = 0; i < 3; i++)
        WITHIN(floats[i], want.floats[i], 1e-4 * fabs(want.floats[i]));
}

int main()
{
#ifdef SMEMKIT_HERE // the toolkit has no such function
    const uint4 zeros = smemkit::philox({0, 0, 0, 0}, {0, 0});
    const uint4 ones = smemkit::philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u});
    EQUAL(zeros.x, 0x6627e8d5u);
    EQUAL(zeros.w, 0x9b00dbd8u);
    EQUAL(ones.x, 0x408f276du);
    EQUAL(ones.w, 0x6d5451fdu);
#endif
    check<curandStateXORWOW>({0,
                              0,
                              0,
                              {0xbd7f03b6, 0x703e556d, 0x845af0c5, 0x283067fd, 0x1245241f, 0x7666f33f},
                              {0.227643f, 1.1722f, 0.92036f}});
    check<curandStateXORWOW>({1234,
                              1,
                              77,
                              {0x0e26e95b, 0xae60f742, 0xaba32830, 0x0ff7d907, 0x15917b91, 0x291f3ebf},
                              {0.202606f, -0.0020637f, -0.50558f}});
    check<curandStateXORWOW>({1234,
                              1000000007,
                              3,
                              {0xf5bbf3f6, 0x6ae29d9a, 0xa5a41483, 0x5a977066, 0x5ce71477, 0xb7dc32e5},
                              {0.939299f, 0.84749f, 2.012f}});
    check<curandStateXORWOW>({0x123456789abcdef,
                              1000000007,
                              (1ull << 33) + 2,
                              {0xa6aebb80, 0x22473131, 0xf47c56b8, 0x9e3290ae, 0x2808c0fe, 0x26e3346c},
                              {0.831517f, 0.53831f, 0.32746f}});
    check<curandStatePhilox4_32_10_t>({0,
                                       0,
                                       0,
                                       {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8, 0xf8e4cca4, 0x5cb200db},
                                       {0.693931f, 0.3129f, 2.5477f}});
    check<curandStatePhilox4_32_10_t>({1234,
                                       1,
                                       77,
                                       {0x14336a5c, 0x394c96a0, 0xbdab961c, 0xfcf8911c, 0x3a8cf73f, 0x92e71663},
                                       {0.0262028f, 1.2237f, -0.32443f}});
    check<curandStatePhilox4_32_10_t>({1234,
                                       1000000007,
                                       3,
                                       {0xbebcefa0, 0xd8e4b9c9, 0xeca35f34, 0xc72a420c, 0x266d08a0, 0xeea99a23},
                                       {0.21497f, 1.8238f, -0.62118f}});
    check<curandStatePhilox4_32_10_t>({0x123456789abcdef,
                                       1000000007,
                                       (1ull << 33) + 2,
                                       {0xbec8f3c2, 0xb0813499, 0x67b9960a, 0xfccb9a29, 0xfd968df9, 0x118133fd},
                                       {0.607466f, 1.0543f, -1.0846f}});
    return verdict();
}
