// Tiles of bodies are loaded into shared memory, and every thread sums their gravitational pull.
// launch: grid 2, block 32
// arg position: float[64, 4] = random
// arg acceleration: float[64, 4] = zeros
// arg n: 64
__device__ float3 pull(float3 sum, float4 me, float4 other)
{
    const float x = other.x - me.x, y = other.y - me.y, z = other.z - me.z;
    const float inverse = rsqrtf(x * x + y * y + z * z + 0.01f);
    const float strength = other.w * inverse * inverse * inverse;

    sum.x += x * strength;
    sum.y += y * strength;
    sum.z += z * strength;
    return sum;
}

__global__ void gravity(const float4 *position, float4 *acceleration, int n)
{
    __shared__ float4 tile[32];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float4 me = position[i];
    float3 sum = {0.0f, 0.0f, 0.0f};

    for (int first = 0; first < n; first += blockDim.x) {
        tile[threadIdx.x] = position[first + threadIdx.x];
        __syncthreads();
#pragma unroll 4
        for (int j = 0; j < blockDim.x; j++)
            sum = pull(sum, me, tile[j]);
        __syncthreads();
    }
    acceleration[i] = make_float4(sum.x, sum.y, sum.z, 0);
}
