// Two teams of two warps, each with its own named barrier.
// launch: grid 1, block 128
// arg x: int[128] = iota
__global__ void reverse_teams(int *x)
{
    __shared__ int s[2][64];
    const int team = threadIdx.x / 64, t = threadIdx.x % 64;

    for (int round = 0; round <= team; round++) { // the second team runs one more iteration
        s[team][t] = x[threadIdx.x] + 1;
        if (team == 0)
            asm volatile("bar.sync 1, 64;" ::: "memory");
        else
            asm volatile("bar.sync 2, 64;" ::: "memory");
        x[threadIdx.x] = s[team][63 - t];
        asm volatile("bar.sync %0, 64;" ::"r"(1 + team) : "memory");
    }
}
