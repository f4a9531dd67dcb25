// A single-pass scan: an atomic counter numbers the blocks, and each waits for the prefix of the one before.
// launch: grid 6, block 32
// arg x: int[192] = iota
// arg prefix: int[6] = zeros
// arg ready: int[6] = zeros
// arg ticket: int[1] = zeros
__global__ void scan(int *x, int *prefix, int *ready, int *ticket)
{
    __shared__ int number, before;
    const int lane = threadIdx.x;

    if (lane == 0)
        number = atomicAdd(ticket, 1);
    __syncthreads();

    const int i = number * 32 + lane;
    int sum = x[i];
    for (int delta = 1; delta < 32; delta *= 2) {
        const int left = __shfl_up_sync(0xffffffff, sum, delta);
        if (lane >= delta)
            sum += left;
    }
    if (lane == 31) {
        int earlier = 0;
        if (number > 0) {
            while (atomicAdd(&ready[number - 1], 0) == 0)
                __nanosleep(20);
            __threadfence();
            earlier = prefix[number - 1];
        }
        prefix[number] = earlier + sum;
        __threadfence();
        atomicExch(&ready[number], 1);
        before = earlier;
    }
    __syncthreads();
    x[i] = before + sum;
}
