__global__ void matrix_add(const float *a, const float *b, float *c, int rows, int columns)
{
    // TODO: the thread's column (from x) and row (from y)

    // TODO: c = a + b at that place, with a guard for either index
}
