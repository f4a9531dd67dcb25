// Records of 12, 20 and 24 bytes: through shared memory by memcpy, as structs, and from one local to another.
// launch: grid 1, block 32
// arg x: int[160] = iota
// arg y: int[160] = zeros
struct five {
    int item[5];
};

__global__ void reversed(const int *from, int *to)
{
    const five *x = reinterpret_cast<const five *>(from);
    five *y = reinterpret_cast<five *>(to);
    __shared__ five s[32];
    __shared__ char bytes[32 * 24];
    const int t = threadIdx.x;
    five mine, other;

    s[t] = x[t];
    __syncthreads();
    memcpy(&mine, &s[31 - t], 20);
    other = mine;
    memset(bytes + 24 * t, 0, 24);
    memcpy(bytes + 24 * t, &other, 12);
    memcpy(bytes + 24 * t + 12, other.item + 3, 8);
    y[t] = *(const five *)(bytes + 24 * t);
}
