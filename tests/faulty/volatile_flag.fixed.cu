// An atomic flag, set with release by one block and read with acquire by the other.
// topic: fences and flags
// launch: grid 2, block 1
// arg message: int[1] = zeros
// arg flag: int[1] = zeros
// arg y: int[1] = zeros
#include <cuda/atomic>

__global__ void send(int *message, int *flag, int *y)
{
    cuda::atomic_ref<int, cuda::thread_scope_device> ready(*flag);

    if (blockIdx.x == 0) {
        *message = 42;
        ready.store(1, cuda::memory_order_release);
    } else {
        while (ready.load(cuda::memory_order_acquire) == 0)
            ;
        *y = *message;
    }
}
