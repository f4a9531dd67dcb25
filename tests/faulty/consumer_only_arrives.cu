// The consumer arrives at the barrier, but does not wait there for the producer.
// topic: named barriers
// launch: grid 1, block 64
// arg x: float[32] = random
// arg y: float[32] = zeros
// fault: race
__global__ void hand_over(const float *x, float *y)
{
    __shared__ float s[32];
    const int lane = threadIdx.x % 32;

    if (threadIdx.x < 32) {
        s[lane] = x[lane]; // THERE
        asm volatile("bar.sync %0, %1;" ::"r"(1), "r"(64) : "memory");
    } else {
        asm volatile("bar.arrive %0, %1;" ::"r"(1), "r"(64) : "memory");
        y[lane] = 2 * s[31 - lane]; // HERE
    }
}
