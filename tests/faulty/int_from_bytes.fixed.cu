// An int is assembled from its bytes.
// topic: misaligned accesses
// launch: grid 1, block 16
// arg packed: unsigned char[80] = iota
// arg values: int[16] = zeros
__global__ void unpack(const unsigned char *packed, int *values)
{
    const unsigned char *record = packed + 5 * threadIdx.x; // a tag, then an int

    values[threadIdx.x] = record[1] | record[2] << 8 | record[3] << 16 | record[4] << 24;
}
