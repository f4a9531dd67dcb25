// One step of a tree reduction in a block: thread by thread, words `distance` apart are added. The three ways
// differ in which threads add which words.

__device__ void fill(float *words, const float *x)
{
    words[threadIdx.x] = x[threadIdx.x];
    __syncthreads(); // all words are written before any is added
}

// Threads 0, 2 * distance, 4 * distance, …: idle lanes between those at work.
__global__ void divergent(const float *x, float *y, int distance)
{
    __shared__ float words[1024];
    const int t = threadIdx.x;

    fill(words, x);
    if (t % (2 * distance) == 0)
        words[t] += words[t + distance]; // measured
    __syncthreads();                     // the sums are there
    y[t] = words[t];
}

// The same words by threads 0, 1, 2, …: their words are 2 * distance apart.
__global__ void conflicting(const float *x, float *y, int distance)
{
    __shared__ float words[1024];
    const int t = threadIdx.x, first = 2 * distance * t;

    fill(words, x);
    if (first + distance < (int)blockDim.x)
        words[first] += words[first + distance]; // measured
    __syncthreads();                             // the sums are there
    y[t] = words[t];
}

// Threads 0 … distance - 1 add words that are neighbours.
__global__ void sequential(const float *x, float *y, int distance)
{
    __shared__ float words[1024];
    const int t = threadIdx.x;

    fill(words, x);
    if (t < distance)
        words[t] += words[t + distance]; // measured
    __syncthreads();                     // the sums are there
    y[t] = words[t];
}
