// C = A @ B of float32 on tensor cores with the accuracy of float32: see mma.cuh. Launch: blocks of 256 threads,
// one block per 128 x 128 tile of each C and slice of k; then the sums of the slices.
//
// The idea: a float32 is the sum of three bfloat16 of 8 bits, each of them the rounded remainder of the ones
// before, and their products are exact. Of the nine products of two numbers the tensor cores compute the six that
// are at least 2^-18 of the whole; the other three are below 2^-25. The small ones are added first. Because tensor
// cores round towards zero, they add only 16 products at a time; ordinary additions add those sums. (Henry, Tang,
// Heinecke, "Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision Computations", 2019;
// Ootomo, Yokota, "Recovering single precision accuracy from Tensor Cores", 2022) Numbers whose parts bfloat16
// cannot hold, very small and very large ones, infinities and NaN, make their tiles be recomputed by ordinary
// multiplications.
#include "mma.cuh"

class split_products
{
    // numbers beyond the range of the parts: bit 2 i + h for row t / 4 + 8 h of the 16 rows i of the warp's tile,
    // and bit COLUMNS + j for column t / 4 of its 8 columns j, where t is the lane
    static constexpr int COLUMNS = 16;
    uint32_t special = 0;

    // Splits two numbers; each part of both is a word. `bit`: of their row or column.
    __device__ void split(uint32_t first, uint32_t second, int bit, uint32_t &high, uint32_t &middle,
                          uint32_t &low)
    {
        constexpr uint32_t LEAST = (127 - 100) << 23, END = (127 + 127) << 23; // the bits of 2^-100 and of 2^127
        float x = __uint_as_float(first), y = __uint_as_float(second);
        const auto next = [&] {
            const __nv_bfloat162 part = __floats2bfloat162_rn(x, y);

            x -= __low2float(part);
            y -= __high2float(part);
            return reinterpret_cast<const uint32_t &>(part);
        };

        for (uint32_t bits : {first & 0x7fffffff, second & 0x7fffffff})
            special |= (uint32_t)(bits != 0 && bits - LEAST >= END - LEAST) << bit;
        high = next();
        middle = next();
        low = next();
    }

  public:
    using Sum = float;
    static constexpr int DEPTH = 16;        // of k, in a step: two fragments
    static constexpr int STEPS_AT_ONCE = 1; // there are no registers for more
    static constexpr int FLUSH = 2048;      // of k in a sum; c holds several, and rounding errors grow more slowly
    static constexpr bool MAY_FAIL = true;

    // Adds a step's products to the sums. Where mma multiplies pairs of neighbours along k, it is given elements
    // that are 4 apart, in both operands.
    template <class ATile, class BTile, int M, int N>
    __device__ void step(const uint4 *a, const uint4 *b, int row, int column, int k, float (&sum)[M][N][4])
    {
        uint32_t b_parts[N][3][2];

        for (int j = 0; j < N; j += 2)
            for (int f = 0; f < 2; f++) {
                uint32_t words[4];

                BTile::load_fragment(words, b, column + j * 8, k + f * 8);
                for (int h = 0; h < 2; h++)
                    split(words[h], words[h + 2], COLUMNS + j + h, b_parts[j + h][0][f], b_parts[j + h][1][f],
                          b_parts[j + h][2][f]);
            }
        for (int i = 0; i < M; i++) {
            uint32_t a_parts[3][4];

            for (int f = 0; f < 2; f++) {
                uint32_t words[4];

                ATile::load_fragment(words, a, row + i * 16, k + f * 8);
                for (int h = 0; h < 2; h++)
                    split(words[h], words[h + 2], 2 * i + h, a_parts[0][2 * f + h], a_parts[1][2 * f + h],
                          a_parts[2][2 * f + h]);
            }
            for (int j = 0; j < N; j++) {
                float of_step[4] = {};

                for (int order = 2; order >= 0; order--) // the small products first
                    for (int part = 0; part <= order; part++)
                        ptx::mma_m16n8k16_f32_bf16(of_step, a_parts[part], b_parts[j][order - part], of_step);
                for (int e = 0; e < 4; e++)
                    sum[i][j][e] += of_step[e];
            }
        }
    }

    // Whether this thread has numbers that the parts cannot represent.
    __device__ bool failed() const
    {
        return special;
    }

    // Marks their rows and columns in the warp's tile.
    __device__ void mark_failed(unsigned *rows, unsigned *columns) const
    {
        const int lane = threadIdx.x % 32;

        for (int bit = 0; bit < COLUMNS; bit++) {
            if (special >> bit & 1)
                atomicOr(&rows[bit * 8 + lane / 4], 1u);
            if (special >> (COLUMNS + bit) & 1)
                atomicOr(&columns[bit * 8 + lane / 4], 1u);
        }
    }
};

using split_tile = mma_tile<float, 128, 128, 64, 32, 3, 1>;

cudaError_t launch_matmul_mma_split(const matmul_args *args, cudaStream_t stream)
{
    return launch_mma<split_tile, split_products>(args, stream);
}
