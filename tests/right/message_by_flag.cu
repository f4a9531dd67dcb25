// Block 0 sets a flag with release; the others read it with acquire, then read the message.
// launch: grid 3, block 32
// arg message: int[32] = zeros
// arg flag: int[1] = zeros
// arg y: int[3, 32] = zeros
#include <cuda/atomic>

__global__ void broadcast(int *message, int *flag, int *y)
{
    cuda::atomic_ref<int, cuda::thread_scope_device> ready(*flag);
    const int t = threadIdx.x;

    if (blockIdx.x == 0) {
        message[t] = 7 * t;
        __syncthreads();
        if (t == 0)
            ready.store(1, cuda::memory_order_release);
    } else {
        if (t == 0)
            while (ready.load(cuda::memory_order_acquire) == 0)
                ;
        __syncthreads();
    }
    y[blockIdx.x * 32 + t] = message[31 - t];
}
