// Two sorted lists are merged: each element finds its position by a binary search in the other list.
// launch: grid 1, block 64
// arg a: int[64] = iota
// arg b: int[64] = iota
// arg merged: int[128] = zeros
__device__ int below(const int *sorted, int n, int key, bool or_equal)
{
    int low = 0, high = n;

    while (low < high) {
        const int middle = (low + high) / 2;
        if (sorted[middle] < key || (or_equal && sorted[middle] == key))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

__global__ void merge(const int *a, const int *b, int *merged)
{
    __shared__ int s[2][64];
    const int t = threadIdx.x;

    s[0][t] = 3 * a[t];
    s[1][t] = 2 * b[t] + 20;
    __syncthreads();
    merged[t + below(s[1], 64, s[0][t], false)] = s[0][t];
    merged[t + below(s[0], 64, s[1][t], true)] = s[1][t];
}
