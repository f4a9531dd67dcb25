// An int is loaded from a byte stream at whatever address its record has.
// topic: misaligned accesses
// launch: grid 1, block 16
// arg packed: unsigned char[80] = iota
// arg values: int[16] = zeros
// fault: misaligned
__global__ void unpack(const unsigned char *packed, int *values)
{
    const unsigned char *record = packed + 5 * threadIdx.x; // a tag, then an int

    values[threadIdx.x] = *(const int *)(record + 1); // HERE
}
