__global__ void add_one(const float *x, float *y, int n)
{
    int i = 0; // TODO: the thread's element

    // TODO: y[i] = x[i] + 1, but only where there is an element
}
