// A volatile flag is not atomic, and is not ordered with the message that it announces.
// topic: fences and flags
// launch: grid 2, block 1
// arg message: int[1] = zeros
// arg flag: int[1] = zeros
// arg y: int[1] = zeros
// fault: race
__global__ void send(volatile int *message, volatile int *flag, int *y)
{
    if (blockIdx.x == 0) {
        *message = 42; // ALSO
        *flag = 1;     // THERE
    } else {
        while (*flag == 0) // HERE
            ;
        *y = *message; // ALSO
    }
}
