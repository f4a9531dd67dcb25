// A fault inside printf must release printf's lock: later prints still work.
#include "fault.h"

// EXPECT cudaErrorIllegalAddress: * in kernel print, block (0, 0, 0), thread (0, 0, 0)
__global__ void print(const char *text)
{
    printf("this is %s\n", text);
}

int main()
{
    print<<<1, 1>>>((const char *)0x1000);
    report();
    return verdict();
}
