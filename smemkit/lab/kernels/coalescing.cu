// How the addresses of a warp's lanes decide how many sectors of 32 bytes move.

struct particle {
    float x, y, z, mass;
};

// Thread i reads element i * stride + offset; n is a power of two.
__global__ void strided(const float *x, float *y, int n, int stride, int offset)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float value = x[(i * stride + offset) & (n - 1)]; // measured

    y[i] = value;
}

// An array of structures, as bytes from the host.
__global__ void one_field_of_structures(const float *fields, float *y)
{
    const particle *particles = (const particle *)fields;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float value = particles[i].x; // measured

    y[i] = value;
}

__global__ void one_array(const float *x, float *y)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float value = x[i]; // measured

    y[i] = value;
}

__global__ void whole_structures(const float4 *particles, float *y)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float4 value = particles[i]; // measured

    y[i] = value.x + value.y + value.z + value.w;
}
