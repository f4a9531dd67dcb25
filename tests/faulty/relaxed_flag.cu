// The flag is atomic, but relaxed: it does not order the message before it.
// topic: fences and flags
// launch: grid 2, block 1
// arg message: int[1] = zeros
// arg flag: int[1] = zeros
// arg y: int[1] = zeros
// fault: race RAW
#include <cuda/atomic>

__global__ void send(int *message, int *flag, int *y)
{
    cuda::atomic_ref<int, cuda::thread_scope_device> ready(*flag);

    if (blockIdx.x == 0) {
        *message = 42; // THERE
        ready.store(1, cuda::memory_order_relaxed);
    } else {
        while (ready.load(cuda::memory_order_relaxed) == 0)
            ;
        *y = *message; // HERE
    }
}
