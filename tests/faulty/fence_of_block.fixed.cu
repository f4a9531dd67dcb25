// A device-wide fence orders data that other blocks read.
// topic: fences and flags
// launch: grid 2, block 32
// arg message: int[32] = zeros
// arg flag: int[1] = zeros
// arg y: int[32] = zeros
__global__ void send(int *message, int *flag, int *y)
{
    const int t = threadIdx.x;

    if (blockIdx.x == 0) {
        message[t] = 3 * t;
        __syncthreads();
        if (t == 0) {
            __threadfence();
            atomicExch(flag, 1);
        }
    } else {
        while (atomicAdd(flag, 0) == 0)
            ;
        __threadfence();
        y[t] = message[t];
    }
}
