// A thread reads its own result of the last pass by ld.global.nc.
// topic: non-coherent loads
// launch: grid 1, block 64
// arg x: float[64] = random
// arg passes: 2
// fault: race
__device__ __forceinline__ float load_once(const float *from)
{
    float value;

    asm volatile("ld.global.nc.L1::no_allocate.f32 %0, [%1];" : "=f"(value) : "l"(from)); // THERE
    return value;
}

// each pass halves the elements; a thread reads what it wrote in the pass before
__global__ void halve(float *x, int passes)
{
    const int t = threadIdx.x;

    for (int i = 0; i < passes; i++)
        x[t] = load_once(&x[t]) / 2; // HERE
}
