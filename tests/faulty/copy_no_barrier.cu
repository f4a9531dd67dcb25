// Records of 24 bytes go through shared memory by memcpy, without a barrier in between.
// topic: missing barrier
// launch: grid 1, block 64
// arg x: double[192] = random
// arg y: double[192] = zeros
// fault: race RAW
__global__ void records(const double *x, double *y)
{
    __shared__ double s[192];
    const int t = threadIdx.x;

    memcpy(s + 3 * t, x + 3 * t, 24); // THERE
    memcpy(y + 3 * t, s + 3 * (63 - t), 24); // HERE
}
