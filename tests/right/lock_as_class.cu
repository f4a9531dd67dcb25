// A lock as a class with device functions, with the fences inside.
// launch: grid 6, block 32
// arg x: int[192] = iota
// arg result: int[2] = zeros
// arg mutex: int[1] = zeros
struct Lock {
    int *mutex;

    __device__ void lock(void)
    {
        while (atomicCAS(mutex, 0, 1) != 0)
            ;
        __threadfence();
    }
    __device__ void unlock(void)
    {
        __threadfence();
        atomicExch(mutex, 0);
    }
};

__global__ void count_and_sum(const int *x, int *result, int *mutex)
{
    Lock lock = {mutex};

    if (threadIdx.x == 0) {
        int sum = 0;
        for (int i = 0; i < 32; i++)
            sum += x[blockIdx.x * 32 + i];
        lock.lock();
        result[0] += 1;
        result[1] += sum;
        lock.unlock();
    }
}
