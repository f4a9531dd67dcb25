// A mutex as a struct for host and device: the host allocates and frees it, kernels take it by value.
#include <cstdio>
#include <cstdlib>
#include <iostream>

static void HandleError( cudaError_t err, const char *file, int line ) {
    if (err != cudaSuccess) {
        printf( "%s in %s at line %d\n", cudaGetErrorString( err ), file, line );
        exit( EXIT_FAILURE );
    }
}
#define HANDLE_ERROR( err ) (HandleError( err, __FILE__, __LINE__ ))

struct Lock {
    int *mutex;
    Lock( void ) {
        HANDLE_ERROR( cudaMalloc( (void**)&mutex, sizeof(int) ) );
        HANDLE_ERROR( cudaMemset( mutex, 0, sizeof(int) ) );   // 0 is free, 1 is taken }
    }
    ~Lock( void ) { cudaFree( mutex ); }

    __device__ void lock( void ) {
        while (atomicCAS( mutex, 0, 1 ) != 0)
            ;
        __threadfence();
    }
    __device__ void unlock( void ) {
        __threadfence();
        atomicExch( mutex, 0 );
    }
};

template <typename T>
class Span {
public:
    explicit Span( std::size_t n ) : first{ nullptr }, length( n )
    {
        HANDLE_ERROR( cudaMalloc( &first, n * sizeof(T) ) );
    }
    void release();
    template <typename Out> void print( Out &out ) const { out << "{" << length << "}" << std::endl; }
    __host__ __device__ int size() const { return length; }
    __device__ T &operator[]( int i ) const { return first[i]; }

private:
    T *first;
    int length;
};

template <typename T>
void Span<T>::release() { cudaFree( first ); }

__global__ void count( Lock lock, Span<const int> x, int *total ) {
    __shared__ int block_total;
    if (threadIdx.x == 0)
        block_total = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < x.size(); i += gridDim.x * blockDim.x)
        atomicAdd( &block_total, x[i] );
    __syncthreads();
    if (threadIdx.x == 0) {
        lock.lock();
        *(volatile int *)total = *(volatile int *)total + block_total;
        lock.unlock();
    }
}

int main( void ) {
    Lock lock;
    Span<const int> x( 1000 );
    int *total;
    cudaMalloc( &total, sizeof(int) );
    count<<<8, 64>>>( lock, x, total );
    x.print( std::cout );
    x.release();
}
