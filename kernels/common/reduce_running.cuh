// The state of the elements that a thread has read so far, updated with few instructions.
//
// A memory-bound kernel can afford about seven instructions per byte. So elements of one byte are combined four at
// a time where possible, conversions are delayed, and one division serves many elements. The result is that of
// Operation::combine, except for rounding.
#pragma once

#include "reduce_ops.cuh"
#include "types.cuh"
#include "vector.cuh"

template <class In>
constexpr bool is_small_integer = sizeof(In) <= 2 && (std::is_integral_v<In> || std::is_same_v<In, boolean>);

// bit 7 of each byte of `word` that is not 0
static __device__ inline uint32_t nonzero_byte_mask(uint32_t word)
{
    return (((word & 0x7f7f7f7f) + 0x7f7f7f7f) | word) & 0x80808080;
}

// the number of nonzero bytes of a word
static __device__ inline unsigned count_nonzero_bytes(uint32_t word)
{
    return __popc(nonzero_byte_mask(word));
}

// sum plus the dot product of the four bytes of x and y
template <class In>
static __device__ int dot4(uint32_t x, uint32_t y, int sum)
{
    if constexpr (std::is_signed_v<In>)
        return __dp4a((int)x, (int)y, sum);
    else
        return (int)__dp4a(x, y, (unsigned)sum);
}

// The minimum or maximum of COUNT elements of a vector, from FIRST on, in the type in which they are compared.
// Words of small integers are compared by their highest element: the others are shifted there.
template <class Order, class In, int FIRST, int COUNT, int BYTES>
static __device__ typename Order::Value extremum_of(const Vector<BYTES> &x)
{
    using Value = typename Order::Value;
    constexpr int WORDS = BYTES / 4;

    if constexpr (COUNT > 1)
        return Extremum<Order>::combine(extremum_of<Order, In, FIRST, COUNT / 2>(x),
                                        extremum_of<Order, In, FIRST + COUNT / 2, COUNT / 2>(x));
    else if constexpr (std::is_integral_v<In> && sizeof(In) < 4)
        return (Value)(x.word[FIRST % WORDS] << (FIRST / WORDS * 8 * (int)sizeof(In)));
    else
        return convert<Value>(element<In>(x, FIRST));
}

template <class Order, class In, int BYTES>
static __device__ typename Order::Value extremum_of(const Vector<BYTES> &x)
{
    using Value = typename Order::Value;

    if constexpr (std::is_same_v<In, __half> || std::is_same_v<In, __nv_bfloat16>) { // in pairs
        using Pair = std::conditional_t<std::is_same_v<In, __half>, __half2, __nv_bfloat162>;
        Pair best = element<Pair>(x, 0);
#pragma unroll
        for (int i = 1; i < BYTES / 4; i++)
            if constexpr (std::is_same_v<Order, MaxOrder<Value>>)
                best = __hmax2_nan(best, element<Pair>(x, i));
            else
                best = __hmin2_nan(best, element<Pair>(x, i));
        return Extremum<Order>::combine((Value)best.x, (Value)best.y);
    } else if constexpr (std::is_integral_v<In> && sizeof(In) < 4) {
        return extremum_of<Order, In, 0, BYTES / (int)sizeof(In)>(x) >> (32 - 8 * (int)sizeof(In));
    } else {
        return extremum_of<Order, In, 0, BYTES / (int)sizeof(In)>(x);
    }
}

// make_room<N>() is called before up to N elements are added: var and std may then close a chunk, see there.
// add(x, j) adds element j of the row, or a vector of elements from j on.
template <class Operation, class In>
struct Running {
    using State = typename Operation::State;
    State state = Operation::identity();

    template <int ELEMENTS>
    __device__ void make_room()
    {
    }

    __device__ void add(In x, int64_t j)
    {
        state = Operation::combine(state, Operation::of(x, j));
    }

    template <int BYTES>
    __device__ void add(const Vector<BYTES> &x, int64_t j)
    {
        constexpr int COUNT = BYTES / sizeof(In);

        if constexpr (std::is_same_v<Operation, Count> && sizeof(In) == 1) {
            unsigned count = 0;
#pragma unroll
            for (int i = 0; i < BYTES / 4; i++)
                count += count_nonzero_bytes(x.word[i]);
            state.count += count;
        } else if constexpr (std::is_same_v<Operation, Sum<uint64_t>> && is_small_integer<In>) {
            state += (uint64_t)(int64_t)small_sum(x);
        } else if constexpr (std::is_same_v<Operation, Sum<double>> && std::is_same_v<In, __half>) {
            state += pairwise_sum<float, 0, COUNT>(x); // the sum of a vector of float16 fits into a float
        } else if constexpr (std::is_same_v<Operation, Sum<double>>) {
            state += pairwise_sum<double, 0, COUNT>(x); // a tree of additions has a shorter dependency chain
        } else if constexpr (is_extremum<Operation>::value) {
            state = Operation::combine(state, extremum_of<typename is_extremum<Operation>::Order, In>(x));
        } else {
#pragma unroll
            for (int i = 0; i < COUNT; i++)
                add(element<In>(x, i), j + i);
        }
    }

    __device__ State result() const
    {
        return state;
    }

  private:
    template <int BYTES>
    static __device__ int small_sum(const Vector<BYTES> &x)
    {
        int sum = 0;

        if constexpr (std::is_same_v<In, boolean>) {
#pragma unroll
            for (int i = 0; i < BYTES / 4; i++)
                sum += count_nonzero_bytes(x.word[i]);
        } else if constexpr (sizeof(In) == 1) {
#pragma unroll
            for (int i = 0; i < BYTES / 4; i++)
                sum = dot4<In>(x.word[i], 0x01010101, sum);
        } else {
#pragma unroll
            for (int i = 0; i < BYTES / 2; i++)
                sum += (int)element<In>(x, i);
        }
        return sum;
    }

    template <class Wide, int FIRST, int COUNT, int BYTES>
    static __device__ Wide pairwise_sum(const Vector<BYTES> &x)
    {
        if constexpr (COUNT == 1)
            return convert<Wide>(element<In>(x, FIRST));
        else
            return pairwise_sum<Wide, FIRST, COUNT / 2>(x) + pairwise_sum<Wide, FIRST + COUNT / 2, COUNT / 2>(x);
    }
};

// argmin and argmax: the loop compares values only. It keeps the vector with the best value, and the element's
// position in that vector is searched at the end, so that the loop has no branches. Elements must be added in the
// order of their indices.
template <class Order, class In>
struct Running<ArgExtremum<Order>, In> {
    using Operation = ArgExtremum<Order>;
    using State = typename Operation::State;
    using Value = typename Order::Value;
    State state = Operation::identity(); // of elements that were added singly
    Value best = Order::last();          // of the vectors added so far
    Vector<16> best_vector;
    int64_t best_begin = -1;

    template <int ELEMENTS>
    __device__ void make_room()
    {
    }

    __device__ void add(In x, int64_t j)
    {
        const Value value = convert<Value>(x);

        if (comes_before(value, state.value) || state.index == INT64_MAX)
            state = {value, j};
    }

    template <int BYTES>
    __device__ void add(const Vector<BYTES> &x, int64_t j)
    {
        const Value value = extremum_of<Order, In>(x);

        if (comes_before(value, best) || best_begin < 0) {
            best = value;
            best_begin = j;
#pragma unroll
            for (int i = 0; i < 4; i++)
                best_vector.word[i] = x.word[i % (BYTES / 4)]; // repeated: of equal values the first counts
        }
    }

    __device__ State result() const
    {
        constexpr int COUNT = 16 / sizeof(In);
        int position = 0;

        if (best_begin < 0)
            return state;
#pragma unroll
        for (int i = COUNT - 1; i >= 0; i--) {
            const Value value = convert<Value>(element<In>(best_vector, i));
            if (is_nan(best) ? is_nan(value) : !Order::before(best, value))
                position = i;
        }
        return Operation::combine(state, {best, best_begin + position});
    }

  private:
    static __device__ bool comes_before(Value x, Value y)
    {
        return Order::before(x, y) | (is_nan(x) & !is_nan(y)); // without a branch
    }
};

// var and std: sums over chunks of up to CHUNK elements, relative to the first element of the chunk, which are
// then combined. So an outlier serves as the origin of its own chunk only.
template <class Mean, class In>
struct Running<Variance<Mean>, In> {
    using Operation = Variance<Mean>;
    using State = typename Operation::State;
    static constexpr bool EXACT = is_small_integer<In>; // sums are computed in integers
    static constexpr int CHUNK = EXACT ? 1 << 13 : sizeof(In) <= 4 ? 512 : 64;
    State state = Operation::identity();
    Mean origin = Mean(0);
    std::conditional_t<EXACT, int64_t, Mean> sum = 0;
    std::conditional_t<EXACT, int64_t, double> squares = 0;
    int count = 0;

    // Closes the chunk if it has no room for so many elements. This is long code, with divisions: long loops call
    // it once for several elements.
    template <int ELEMENTS>
    __device__ void make_room()
    {
        static_assert(ELEMENTS <= CHUNK);
        if (count + ELEMENTS > CHUNK)
            close();
    }

    __device__ void add(In x, int64_t)
    {
        if constexpr (EXACT) {
            const int value = (int)x;
            sum += value;
            squares += (int64_t)value * value;
        } else {
            const Mean value = convert<Mean>(x);
            if (count == 0)
                origin = value;
            const Mean delta = value - origin;
            sum = sum + delta;
            squares += dot(delta, delta);
        }
        count++;
    }

    template <int BYTES>
    __device__ void add(const Vector<BYTES> &x, int64_t)
    {
        constexpr int COUNT = BYTES / sizeof(In);

        if constexpr (EXACT && sizeof(In) == 1 && !std::is_same_v<In, boolean>) {
            int of_vector = 0, squares_of_vector = 0;
#pragma unroll
            for (int i = 0; i < BYTES / 4; i++) {
                of_vector = dot4<In>(x.word[i], 0x01010101, of_vector);
                squares_of_vector = dot4<In>(x.word[i], x.word[i], squares_of_vector);
            }
            sum += of_vector;
            squares += squares_of_vector;
        } else {
            if constexpr (!EXACT)
                if (count == 0)
                    origin = convert<Mean>(element<In>(x, 0));
#pragma unroll
            for (int i = 0; i < COUNT; i++) {
                if constexpr (EXACT) {
                    const int value = (int)element<In>(x, i);
                    sum += value;
                    squares += (int64_t)value * value;
                } else {
                    const Mean delta = convert<Mean>(element<In>(x, i)) - origin;
                    sum = sum + delta;
                    squares += dot(delta, delta);
                }
            }
        }
        count += COUNT;
    }

    __device__ State result() const
    {
        Running all = *this;
        all.close();
        return all.state;
    }

  private:
    __device__ void close()
    {
        if (count > 0) {
            if constexpr (EXACT) { // no product is larger than 2^59
                const double spread = (double)(squares * count - sum * sum) / count;
                state = Operation::combine(state, {(double)sum / count, (double)count, spread});
            } else {
                const Mean mean = times(sum, 1.0 / count);
                const double spread = squares - dot(sum, mean);
                // an overflow gives infinity, not NaN from the difference of two infinities
                state = Operation::combine(
                    state, {origin + mean, (double)count, squares - squares == 0 ? spread : squares});
            }
        }
        sum = 0;
        squares = 0;
        count = 0;
    }
};

// Calls f(u) for the first `left` of ROWS rows, fully unrolled on a GPU; rows beyond `left` are skipped four at a
// time.
template <int ROWS, class F>
static __device__ void each_row(int left, F f)
{
    constexpr int STEP = ROWS < 4 ? ROWS : 4;
    static_assert(ROWS % STEP == 0, "no row is left over");

#pragma unroll
    for (int first = 0; first < ROWS; first += STEP) {
        if (first > 0 && first >= left)
            break;
#pragma unroll
        for (int u = first; u < first + STEP; u++)
            if (u < left)
                f(u);
    }
}

// Running for one column: takes element c of each vector.
template <class Operation, class In>
struct RunningColumn : Running<Operation, In> {
    template <int BYTES>
    __device__ void add_element(const Vector<BYTES> &x, int c, int64_t j)
    {
        this->add(element<In>(x, c), j);
    }
};

// Makes room for ROWS elements in each of the columns.
template <int COLUMNS, int ROWS, class Operation, class In>
static __device__ void make_room(RunningColumn<Operation, In> *running)
{
#pragma unroll
    for (int c = 0; c < COLUMNS; c++)
        running[c].template make_room<ROWS>();
}

// The sum of integers of one or two bytes in 32 bits: one or two instructions per element.
template <class In>
struct RunningSmallSum {
    static_assert((int64_t)REDUCE_MAX_ROWS_PER_THREAD * UINT16_MAX <= INT32_MAX);
    int sum = 0;

    template <int ELEMENTS>
    __device__ void make_room()
    {
    }

    __device__ void add(In x, int64_t)
    {
        sum += (int)x;
    }

    template <int BYTES>
    __device__ void add_element(const Vector<BYTES> &x, int c, int64_t)
    {
        if constexpr (std::is_same_v<In, boolean>)
            sum = dot4<uint8_t>(nonzero_byte_mask(x.word[c / 4]) >> 7, 1u << 8 * (c % 4), sum);
        else if constexpr (sizeof(In) == 1)
            sum = dot4<In>(x.word[c / 4], 1u << 8 * (c % 4), sum);
        else
            sum += (int)element<In>(x, c);
    }

    __device__ uint64_t result() const
    {
        return (uint64_t)(int64_t)sum;
    }
};
template <>
struct RunningColumn<Sum<uint64_t>, int8_t> : RunningSmallSum<int8_t> {
};
template <>
struct RunningColumn<Sum<uint64_t>, uint8_t> : RunningSmallSum<uint8_t> {
};
template <>
struct RunningColumn<Sum<uint64_t>, int16_t> : RunningSmallSum<int16_t> {
};
template <>
struct RunningColumn<Sum<uint64_t>, uint16_t> : RunningSmallSum<uint16_t> {
};
template <>
struct RunningColumn<Sum<uint64_t>, boolean> : RunningSmallSum<boolean> {
};

// f(Operation(), In()) for the operation in args. dispatch_reduce takes the accumulator that the caller asks for;
// this takes the widest, which costs no time in a memory-bound kernel.
template <unsigned DTYPES, class F>
[[nodiscard]] cudaError_t dispatch_reduce_widest(const reduce_args *args, F f)
{
    return dispatch_operation<DTYPES>(args, f, [&](auto x, auto is_product) {
        using In = decltype(x);
        constexpr bool INTEGER = std::is_integral_v<In> || std::is_same_v<In, boolean>;
        using Wide = std::conditional_t<INTEGER, uint64_t,
                                        std::conditional_t<is_complex<In>::value, complex<double>, double>>;

        if constexpr (is_product)
            return f(Prod<Wide>(), summand<Wide, In>());
        else if constexpr (std::is_same_v<In, Wide> && !INTEGER)
            return f(Compensated<In>(), x);
        else if constexpr (!INTEGER) // compensated only if the result is a double
            return args->result & (FLOAT64 | COMPLEX128) ? f(Compensated<Wide>(), x) : f(Sum<Wide>(), x);
        else if constexpr (INTEGER && sizeof(In) == 8)
            return args->accumulator == FLOAT64 ? f(Compensated<double>(), x)
                                                : f(Sum<Wide>(), summand<Wide, In>()); // a mean must not overflow
        else
            return f(Sum<Wide>(), x);
    });
}

// Whether a result of x's dtype can be stored directly: minimum and maximum; sums of 8-byte integers; sums of
// floats, whose accumulator is exact enough
template <class Operation, class In>
constexpr bool result_may_have_x_dtype =
    is_extremum<Operation>::value ||
    std::is_same_v<Operation, std::conditional_t<std::is_same_v<In, double>, Compensated<double>,
                                                 Sum<std::conditional_t<sizeof(In) == 8, uint64_t, double>>>>;
