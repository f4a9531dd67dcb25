#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <vector>

using namespace std;

#define CHECK_CUDA(call)                                                     \
    do {                                                                     \
        cudaError_t status_ = call;                                          \
        if (status_ != cudaSuccess) {                                        \
            cerr << "CUDA error: " << cudaGetErrorString(status_) << endl;   \
            exit(1);                                                         \
        }                                                                    \
    } while (0)

struct Timer {
    chrono::steady_clock::time_point start = chrono::steady_clock::now();
    double seconds() const { return chrono::duration<double>(chrono::steady_clock::now() - start).count(); }
};

template <typename T>
void fill(vector<T> &v, T value)
{
    for (auto &x : v)
        x = value;
}

template <typename T>
__global__ void saxpy(T a, const T *__restrict__ x, T *__restrict__ y, size_t n)
{
    // a grid-stride loop
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        y[i] = a * x[i] + y[i];
}

int main(int argc, char **argv)
{
    const size_t n = argc > 1 ? atoi(argv[1]) : 1 << 20;
    vector<float> x(n), y(n);
    fill(x, 1.0f);
    fill(y, 2.0f);
    float *d_x, *d_y;
    CHECK_CUDA(cudaMalloc(&d_x, n * sizeof(float)));
    CHECK_CUDA(cudaMalloc(&d_y, n * sizeof(float)));
    Timer timer;
    saxpy<float><<<(n + 255) / 256, 256>>>(2.0f, d_x, d_y, n);
    CHECK_CUDA(cudaDeviceSynchronize());
    auto worst = *max_element(y.begin(), y.end(), [](float a, float b) { return abs(a) < abs(b); });
    cout << "max: " << worst << " in " << timer.seconds() << " s\n";
}
