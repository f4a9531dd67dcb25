// One pixel per block, complex numbers as a class with device functions.
// launch: grid 12x12, block 1
// arg ptr: unsigned char[12, 12, 4] = zeros
#define DIM 12

struct cuComplex {
    float r, i;
    __device__ cuComplex(float a, float b) : r(a), i(b)
    {
    }
    __device__ float magnitude2(void)
    {
        return r * r + i * i;
    }
    __device__ cuComplex operator*(const cuComplex &a)
    {
        return cuComplex(r * a.r - i * a.i, i * a.r + r * a.i);
    }
    __device__ cuComplex operator+(const cuComplex &a)
    {
        return cuComplex(r + a.r, i + a.i);
    }
};

__device__ int julia(int x, int y)
{
    const float scale = 1.5;
    cuComplex c(-0.8, 0.156), a(scale * (DIM / 2 - x) / (DIM / 2), scale * (DIM / 2 - y) / (DIM / 2));

    for (int i = 0; i < 200; i++) {
        a = a * a + c;
        if (a.magnitude2() > 1000)
            return 0;
    }
    return 1;
}

__global__ void kernel(unsigned char *ptr)
{
    int x = blockIdx.x, y = blockIdx.y, offset = x + y * gridDim.x;

    ptr[offset * 4 + 0] = 255 * julia(x, y);
    ptr[offset * 4 + 1] = 0;
    ptr[offset * 4 + 2] = 0;
    ptr[offset * 4 + 3] = 255;
}
