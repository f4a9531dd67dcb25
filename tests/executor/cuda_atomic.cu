// cuda::atomic and cuda::atomic_ref: every operation, and algorithms with them: a counter, a single-pass sum,
// flags, a lock.
#include "check.h"

#include <cuda/atomic>
#include <cuda/std/atomic>

// ---- every operation, by one thread ---------------------------------------------------------------------------

template <typename T>
struct Results {
    T value[24];
};

template <typename T>
__global__ void operations(Results<T> *out, T *cell)
{
    cuda::atomic_ref<T, cuda::thread_scope_device> a(*cell);
    int n = 0;
    auto keep = [&](T old) { out->value[n++] = old; };
    a.store(5);
    keep(a.load());
    keep(a.exchange(12, cuda::memory_order_acq_rel));
    keep(a.fetch_add(3, cuda::memory_order_relaxed));
    keep(a.fetch_sub(1, cuda::memory_order_release));
    keep(a.fetch_and(10));
    keep(a.fetch_or(5));
    keep(a.fetch_xor(6));
    keep(a.fetch_min(4));
    keep(a.fetch_max(9));
    keep(++a);
    keep(a++);
    keep(--a);
    keep(a--);
    keep(a += 20);
    keep(a -= 7);
    keep(a &= 30);
    keep(a |= 1);
    keep(a ^= 3);
    T expected = 3;
    keep(a.compare_exchange_strong(expected, 50));
    keep(expected);
    keep(a.compare_exchange_strong(expected, 60, cuda::memory_order_acq_rel, cuda::memory_order_relaxed));
    keep(a = 70);
    keep(a);
    a.store(8, cuda::std::memory_order_release);
    keep(a.load(cuda::memory_order_acquire));
}

template <typename T>
static void operated()
{
    const int want[] = {5, 5, 12, 15, 14, 10, 15, 9, 4, 10, 10, 10, 10, 29, 22, 22, 23, 20, 0, 20, 1, 70, 70, 8};
    Array<Results<T>> out(1);
    Array<T> cell(1);
    operations<T><<<1, 1>>>(out.device, cell.device);
    RUNS();
    out.download();
    for (int i = 0; i < 24; ++i)
        EQUAL_AT(i, (long long)out[0].value[i], want[i]);
}

__global__ void floating(float *out, double *wide)
{
    cuda::atomic_ref<float> sum(out[0]);
    cuda::atomic_ref<double, cuda::thread_scope_block> wide_sum(*wide);
    sum.fetch_add(0.5f);
    wide_sum.fetch_add(0.25, cuda::std::memory_order_relaxed);
    wide_sum -= 0.125;
    sum += 0.25f;
}

// ---- by all threads at once -----------------------------------------------------------------------------------

__global__ void counted(int *out)
{
    __shared__ cuda::atomic<int, cuda::thread_scope_block> count, most;
    if (threadIdx.x == 0) {
        count.store(0, cuda::memory_order_relaxed);
        most = -1;
    }
    __syncthreads();
    count.fetch_add((int)threadIdx.x, cuda::memory_order_relaxed);
    most.fetch_max((int)(threadIdx.x * 37 % 256));
    __syncthreads();
    if (threadIdx.x == 0) {
        out[2 * blockIdx.x] = count;
        out[2 * blockIdx.x + 1] = most.load();
    }
}

// The last block to finish adds up all partial sums: a counter with release and acquire.
__global__ void single_pass(const int *in, int *partial, unsigned *ticket, int *out)
{
    __shared__ int sum;
    __shared__ bool last;
    if (threadIdx.x == 0)
        sum = 0;
    __syncthreads();
    atomicAdd(&sum, in[blockIdx.x * blockDim.x + threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
        cuda::atomic_ref<unsigned, cuda::thread_scope_device> done(*ticket);
        last = done.fetch_add(1, cuda::memory_order_acq_rel) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        int all = 0;
        for (unsigned b = 0; b < gridDim.x; ++b)
            all += partial[b];
        *out = all;
    }
}

// One thread publishes, the others wait for the flag.
__global__ void published(int *out)
{
    __shared__ int data;
    __shared__ cuda::atomic<bool, cuda::thread_scope_block> ready;
    if (threadIdx.x == 0)
        ready.store(false);
    __syncthreads();
    if (threadIdx.x == 64) {
        data = 42;
        ready.store(true, cuda::memory_order_release);
        ready.notify_all();
    } else if (threadIdx.x < 64) {
        while (!ready.load(cuda::memory_order_acquire))
            ;
    } else {
        ready.wait(false);
    }
    out[threadIdx.x] = data;
}

// The same with fences, which order the accesses before and after them.
__global__ void fenced(int *out)
{
    __shared__ int data;
    __shared__ int ready;
    cuda::atomic_ref<int, cuda::thread_scope_block> flag(ready);
    if (threadIdx.x == 0)
        flag.store(0);
    __syncthreads();
    if (threadIdx.x == 32) {
        data = 43;
        cuda::atomic_thread_fence(cuda::memory_order_release, cuda::thread_scope_block);
        flag.store(1, cuda::memory_order_relaxed);
    } else if (threadIdx.x < 32) {
        while (flag.load(cuda::memory_order_relaxed) == 0)
            ;
        cuda::atomic_thread_fence(cuda::memory_order_acquire, cuda::thread_scope_block);
    }
    __syncthreads();
    out[threadIdx.x] = data;
}

class SpinLock
{
    cuda::atomic<int, cuda::thread_scope_device> taken;

  public:
    __device__ void lock()
    {
        while (taken.exchange(1, cuda::memory_order_acquire) != 0)
            ;
    }
    __device__ void unlock()
    {
        taken.store(0, cuda::memory_order_release);
    }
};

__global__ void locked(SpinLock *lock, int *count)
{
    if (threadIdx.x % 32 == 0) {
        lock->lock();
        *count = *count + 1;
        lock->unlock();
    }
}

int main()
{
    operated<int>();
    operated<unsigned>();
    operated<long long>();
    operated<unsigned long long>();
    {
        Array<float> sum(1);
        Array<double> wide(1);
        sum.zero();
        wide.zero();
        floating<<<2, 64>>>(sum.device, wide.device);
        RUNS();
        sum.download();
        EQUAL(sum[0], 96.0f);
    }
    {
        Array<int> out(6);
        counted<<<3, 256>>>(out.device);
        RUNS();
        out.download();
        for (int b = 0; b < 3; ++b) {
            EQUAL_AT(b, out[2 * b], 255 * 128);
            EQUAL_AT(b, out[2 * b + 1], 255);
        }
    }
    {
        const int blocks = 60, threads = 64;
        Array<int> in(blocks * threads), partial(blocks), out(1);
        Array<unsigned> ticket(1);
        long long want = 0;
        for (int i = 0; i < blocks * threads; ++i)
            want += in[i] = i % 11;
        in.upload();
        ticket.zero();
        single_pass<<<blocks, threads>>>(in.device, partial.device, ticket.device, out.device);
        RUNS();
        out.download();
        EQUAL(out[0], want);
    }
    {
        Array<int> out(96);
        published<<<1, 96>>>(out.device);
        RUNS();
        out.download();
        for (int i = 0; i < 96; ++i)
            EQUAL_AT(i, out[i], 42);
        fenced<<<1, 96>>>(out.device);
        RUNS();
        out.download();
        for (int i = 0; i < 96; ++i)
            EQUAL_AT(i, out[i], 43);
    }
    {
        Array<SpinLock> lock(1);
        Array<int> count(1);
        lock.zero();
        count.zero();
        locked<<<20, 128>>>(lock.device, count.device);
        RUNS();
        count.download();
        EQUAL(count[0], 80);
    }
    return verdict();
}
