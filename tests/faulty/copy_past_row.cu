// Records of 12 bytes are copied into a shared array with space for one record too few.
// topic: out of bounds in shared memory
// launch: grid 1, block 32
// arg x: int[96] = iota
// arg y: int[96] = zeros
// fault: out_of_bounds
__global__ void records(const int *x, int *y)
{
    __shared__ int s[93];
    const int t = threadIdx.x;

    memcpy(s + 3 * t, x + 3 * t, 12); // HERE
    __syncwarp();
    if (t < 31)
        memcpy(y + 3 * t, s + 3 * (30 - t), 12);
}
