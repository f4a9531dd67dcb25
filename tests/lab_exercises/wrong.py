"""Wrong submissions: the solution of an exercise with one change, old text and new, and what its grade says."""

WRONG = {
    "add-one": [
        ("    if (i < n)\n        y", "    y", "line 5: out of bounds"),
        ("blockIdx.x * blockDim.x + threadIdx.x", "threadIdx.x", "line 6: race"),
        ("i < n", "i < n - 1", "the result is wrong: y[0] was never written"),
    ],
    "grid-stride": [
        ("i += gridDim.x * blockDim.x", "i += blockDim.x", "line 4: race"),
        (
            "    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)\n",
            "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n\n    if (i < n)\n",
            "the result is wrong: y[256] is 1",
        ),
        (
            "    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)\n",
            "    int threads = gridDim.x * blockDim.x, each = (n + threads - 1) / threads;\n"
            "    int first = (blockIdx.x * blockDim.x + threadIdx.x) * each;\n"
            "\n"
            "    for (int i = first; i < first + each && i < n; i++)\n",
            "Line 7, a load of x: it is not coalesced",
        ),
    ],
    "matrix-add": [
        ("row < rows && column < columns", "row * columns + column < rows * columns", "line 7: race (WAW)"),
        ("row < rows && column < columns", "row < rows", "line 7: out of bounds"),
        ("c[row * columns + column] =", "c[column * rows + row] =", "the result is wrong: c[0][1] is 8"),
    ],
    "sum-in-a-register": [
        (
            "            sum += x[k * rows + r];\n        sums[r] = sum;",
            "            sums[r] = sum += x[k * rows + r];",
            "Line 8, a store of sums: the threads make 512 stores to global memory in all",
        ),
        (
            "        float sum = 0;\n        for (int k = 0;",
            "        float sum = x[r];\n        for (int k = 0;",
            "the result is wrong: sums[2] is 14",
        ),
        (
            "        float sum = 0;\n"
            "        for (int k = 0; k < columns; k++)\n"
            "            sum += x[k * rows + r];\n"
            "        sums[r] = sum;",
            "        sums[r] = 0;\n"
            "        for (int k = 0; k < columns; k++)\n"
            "            sums[r] += x[k * rows + r];",
            "Line 8, a load of sums: the threads make 1,024 loads from global memory in all",
        ),
    ],
    "stage-in-shared": [
        ("    __syncthreads();\n", "", "line 9: race (RAW)"),
        (
            "    s[t] = i < n ? x[i] : 0;\n",
            "    if (i < n)\n        s[t] = x[i];\n",
            "line 11: uninitialised read",
        ),
        (
            "s[j] < s[t]",
            "s[j] < (i < n ? x[i] : 0)",
            "Line 10, a load of x: the threads make 4,160 loads from global memory in all",
        ),
    ],
    "constant-weights": [
        ("weights[4];", "weights[0];", "the result is wrong: y[2] is 110"),
        ("k >= 0", "k > 0", "the result is wrong: y[0] is 1"),
        (
            "float v = x[i], sum = weights[4];\n        for (int k = 3; k >= 0; k--)\n            sum = sum * v",
            "float sum = weights[4];\n        for (int k = 3; k >= 0; k--)\n            sum = sum * x[i]",
            "Line 10, a load of x: the threads make 256 loads from global memory in all",
        ),
    ],
    "reverse-static": [
        ("    __syncthreads();\n", "", "line 9: race (RAW)"),
        ("s[n - 1 - t]", "s[n - t]", "line 10: out of bounds"),
        ("    if (t < n)\n        d[t] = s", "    d[t] = s", "line 9: out of bounds"),
    ],
    "reverse-dynamic": [
        (
            "extern __shared__ int s[];",
            "__shared__ int s[256];",
            "The task asks for extern, which the source does not use",
        ),
        ("extern __shared__ int s[]", "extern __shared__ double s[]", "line 6: out of bounds"),
        ("    __syncthreads();\n", "    __syncwarp();\n", "line 8: race (RAW)"),
    ],
    "carve-three-arrays": [
        ("(float *)(ints + n)", "(float *)ints + n / 2", "line 9: race (WAW)"),
        ("(char *)(floats + n)", "(char *)(floats + n + 1)", "line 10: out of bounds"),
        ("    __syncthreads();\n", "", "line 11: race (RAW)"),
    ],
    "missing-barrier": [
        ("__syncthreads();", "__threadfence_block();", "line 8: race (RAW)"),
        ("__syncthreads();", "if (t < 127)\n        __syncthreads();", "line 8: barrier divergence"),
        ("s[(t + 1) % 128]", "s[t + 1]", "line 8: out of bounds"),
    ],
    "barrier-in-branch": [
        (
            "    s[t] = i < n ? x[i] : 0;\n    __syncthreads();\n    if (i < n)\n",
            "    s[t] = i < n ? x[i] : 0;\n"
            "    if (i >= n)\n"
            "        return;\n"
            "    __syncthreads();\n"
            "    if (i < n)\n",
            "line 9: early return before a barrier",
        ),
        ("    __syncthreads();\n", "", "line 8: race (RAW, warp-synchronous)"),
        (
            "    s[t] = i < n ? x[i] : 0;\n",
            "    if (i < n)\n        s[t] = x[i];\n",
            "line 10: uninitialised read",
        ),
    ],
    "barrier-in-loop": [
        (
            "        __syncthreads();\n        if (step",
            "        if (step",
            "line 11: race (WAR, warp-synchronous)",
        ),
        (
            "            s[t] += other;\n        __syncthreads();\n",
            "            s[t] += other;\n",
            "line 9: race (RAW, warp-synchronous)",
        ),
        (
            "        if (step < steps[t])\n            s[t] += other;\n        __syncthreads();\n",
            "        if (step < steps[t]) {\n"
            "            s[t] += other;\n"
            "            __syncthreads();\n"
            "        }\n",
            "line 13: barrier divergence",
        ),
    ],
    "early-return": [
        ("    __syncthreads();\n", "", "line 9: race (RAW)"),
        (
            "    if (t == 0)\n        first = x[i];\n",
            "    if (t == 1)\n        first = x[i];\n",
            "the result is wrong: y[128] is -4",
        ),
        (
            "first = x[i];\n    __syncthreads();\n    if (i < n)",
            "first = x[i];\n    if (i < n)\n        __syncthreads();\n    if (i < n)",
            "line 9: barrier divergence",
        ),
    ],
    "second-launch": [
        ("b < blockIdx.x;", "b <= blockIdx.x;", "the result is wrong: y[0] is -11"),
        (
            "        sums[blockIdx.x] = s[0];",
            "        for (int b = blockIdx.x; b < gridDim.x; b++)\n            sums[b] += s[0];",
            "line 15: race",
        ),
        (
            "        __syncthreads();\n    }\n    if (t == 0)",
            "    }\n    if (t == 0)",
            "line 10: race (RAW, warp-synchronous)",
        ),
    ],
    "barrier-in-the-tree": [
        (
            "        if (t < stride)\n            s[t] += s[t + stride];\n        __syncthreads();\n",
            "        if (t < stride) {\n"
            "            s[t] += s[t + stride];\n"
            "            __syncthreads();\n"
            "        }\n",
            "line 11: barrier divergence",
        ),
        (
            "s[t] += s[t + stride];\n        __syncthreads();",
            "s[t] += s[t + stride];\n        if (stride > 32)\n            __syncthreads();",
            "line 10: race (RAW, warp-synchronous)",
        ),
        (
            "    s[t] = i < n ? x[i] : 0;\n",
            "    if (i < n)\n        s[t] = x[i];\n",
            "line 11: uninitialised read",
        ),
        ("stride > 0", "stride > 1", "the result is wrong: sums[0] is 11"),
    ],
    "tree-without-divergence": [
        ("first < 256", "t < 128", "line 11: out of bounds"),
        (
            "            s[first] += s[first + stride];\n        __syncthreads();",
            "            s[first] += s[first + stride];\n        __syncwarp();",
            "line 11: race (RAW)",
        ),
        (
            "        int first = 2 * stride * t;\n"
            "        if (first < 256)\n"
            "            s[first] += s[first + stride];",
            "        if ((t & (2 * stride - 1)) == 0)\n            s[t] += s[t + stride];",
            "Line 10, a load of s: it runs in divergent warps: 5 of 32 lanes are active on average",
        ),
    ],
    "tree-without-conflicts": [
        (
            "int stride = 128; stride > 0; stride /= 2) {\n"
            "        if (t < stride)\n"
            "            s[t] += s[t + stride];",
            "int stride = 1; stride < 256; stride *= 2) {\n"
            "        if (t % (2 * stride) == 0)\n"
            "            s[t] += s[t + stride];",
            "Line 10, a load of s: it runs in divergent warps: 5 of 32 lanes are active on average",
        ),
        ("stride = 128;", "stride = 256;", "line 10: out of bounds"),
        (
            "int stride = 128; stride > 0; stride /= 2) {\n"
            "        if (t < stride)\n"
            "            s[t] += s[t + stride];",
            "int pairs = 128; pairs > 0; pairs /= 2) {\n"
            "        int stride = 128 / pairs;\n"
            "        if (t < pairs)\n"
            "            s[2 * stride * t] += s[2 * stride * t + stride];",
            "Line 11, a load of s: it has an 8-way bank conflict",
        ),
    ],
    "first-add-on-load": [
        (" + (i + 256 < n ? x[i + 256] : 0)", " + x[i + 256]", "line 6: out of bounds"),
        (
            "blockIdx.x * 512 + t;\n\n    s[t] = (i < n ? x[i] : 0) + (i + 256 < n ? x[i + 256] : 0);",
            "blockIdx.x * 512 + 2 * t;\n\n    s[t] = (i < n ? x[i] : 0) + (i + 1 < n ? x[i + 1] : 0);",
            "Line 6, a load of x: it is not coalesced",
        ),
        ("blockIdx.x * 512 + t", "blockIdx.x * 256 + t", "the result is wrong: sums[1] is -3"),
    ],
    "sum-by-shuffles": [
        ("    __syncthreads();\n", "", "line 17: race (RAW)"),
        ("offset = 16;", "offset = 8;", "the result is wrong: sums[0] is 1"),
        ("    if (t < 32) {\n", "    if (t < 8) {\n", "line 4: undefined shuffle"),
        ("t < 8 ? s[t] : 0", "s[t]", "line 18: out of bounds"),
    ],
    "maximum-of-negatives": [
        ("-INFINITY", "1e-30f", "the result is wrong: result[0] is 1e-30"),
        ("fmaxf(s[t], s[t + stride])", "fmaxf(s[t], s[t + 1])", "line 10: race (WAR)"),
        ("fmaxf(", "fminf(", "the result is wrong: maxima[0] is -50"),
        (
            "            s[t] = fmaxf(s[t], s[t + stride]);\n        __syncthreads();\n",
            "            s[t] = fmaxf(s[t], s[t + stride]);\n",
            "line 10: race (RAW)",
        ),
    ],
    "warp-broadcast": [
        (
            "    float first = __shfl_sync(0xffffffff, v, 0);\n",
            "    float first = 0;\n"
            "\n"
            "    if (threadIdx.x % 32 == 0)\n"
            "        first = __shfl_sync(0xffffffff, v, 0);\n",
            "the result is wrong: y[33] is -3",
        ),
        ("__shfl_sync(0xffffffff, v, 0)", "__shfl_sync(0xffffffff, v, 1)", "the result is wrong: y[32] is 7"),
        ("__shfl_sync(0xffffffff, v, 0)", "__shfl_sync(0xfffffffe, v, 0)", "line 4: warp divergence"),
        (
            "__shfl_sync(0xffffffff, v, 0)",
            "x[0] + 0 * __shfl_sync(0xffffffff, v, 0)",
            "the result is wrong: y[32] is 4",
        ),
    ],
    "warp-scan": [
        ("        if (lane >= d)\n            sum", "        sum", "the result is wrong: y[2] is 16"),
        (
            "        float other = __shfl_up_sync(0xffffffff, sum, d);\n"
            "        if (lane >= d)\n"
            "            sum += other;\n",
            "        if (lane >= d)\n            sum += __shfl_up_sync(0xffffffff, sum, d);\n",
            "line 8: undefined shuffle",
        ),
        ("d < 32", "d < 16", "the result is wrong: y[18] is -3"),
        ("lane >= d", "threadIdx.x >= d", "the result is wrong: y[32] is 128"),
    ],
    "count-by-ballot": [
        ("i < n && x[i] > 0", "x[i] > 0", "line 4: out of bounds"),
        ("x[i] > 0", "x[i] >= 0", "the result is wrong: counts[0] is 18"),
        ("__popc(votes)", "votes", "the result is wrong: counts[0] is 158409932"),
    ],
    "groups-of-eight": [
        ("    if (tile.thread_rank() == 0)\n        sums", "    sums", "line 13: race (WAW, warp-synchronous)"),
        (
            "cg::thread_block_tile<8> tile = cg::tiled_partition<8>",
            "cg::thread_block_tile<16> tile = cg::tiled_partition<16>",
            "the result is wrong: sums[0] is 2",
        ),
        ("sums[i / 8]", "sums[threadIdx.x / 8]", "line 14: race (WAW)"),
        ("tile.size() / 2;", "tile.size() / 4;", "the result is wrong: sums[1] is -2"),
    ],
    "tile-the-product": [
        ("        __syncthreads(); // both tiles are complete\n", "", "line 12: race (RAW)"),
        ("t += 16", "t += 32", "the result is wrong: c[0][0] is 6"),
        (
            "a_tile[ty][i] *",
            "a[row * k + t + i] *",
            "Line 13, a load of a: the threads make 36,864 loads from global memory in all",
        ),
        ("b[(t + ty) * n + column]", "b[(t + tx) * n + column]", "the result is wrong: c[0][0] is 12"),
    ],
    "guard-the-edges": [
        ("row < m && t + tx < k ?", "row < m ?", "line 9: out of bounds"),
        ("    if (row < m && column < n)\n", "    if (row < m)\n", "line 17: out of bounds"),
        (
            "    float sum = 0;\n",
            "    float sum = 0;\n\n    if (row >= m || column >= n)\n        return;\n",
            "line 14: early return before a barrier",
        ),
        ("t < k; t += 16", "t + 16 <= k; t += 16", "the result is wrong: c[0][0] is 0"),
    ],
    "second-barrier": [
        (
            "a_tile[ty][i] * b_tile[i][tx];\n        __syncthreads();\n",
            "a_tile[ty][i] * b_tile[i][tx];\n        __syncwarp();\n",
            "line 10: race (WAR)",
        ),
        ("        __syncthreads();\n        for", "        for", "line 12: race (RAW)"),
        (
            "a_tile[ty][i] * b_tile[i][tx];\n        __syncthreads();\n",
            "a_tile[ty][i] * b_tile[i][tx];\n        if (t + 16 < k && ty < 8)\n            __syncthreads();\n",
            "line 15: barrier divergence",
        ),
    ],
    "plus-for-times": [
        ("a_tile[ty][i] * b_tile[i][tx]", "a_tile[ty][i] + b_tile[i][tx]", "the result is wrong: c[0][0] is 7"),
        ("a_tile[ty][i] * b_tile[i][tx]", "a_tile[i][ty] * b_tile[i][tx]", "the result is wrong: c[0][0] is -1"),
        ("sum += a_tile", "sum = a_tile", "the result is wrong: c[0][0] is 0"),
    ],
    "four-rows-per-thread": [
        (
            "        for (int i = 0; i < 16; i++) {\n"
            "            float y = b_tile[i][tx];\n"
            "            for (int r = 0; r < 4; r++)\n"
            "                sum[r] += a_tile[ty + 16 * r][i] * y;\n"
            "        }\n",
            "        for (int r = 0; r < 4; r++)\n"
            "            for (int i = 0; i < 16; i++)\n"
            "                sum[r] += a_tile[ty + 16 * r][i] * b_tile[i][tx];\n",
            "Line 15, a load of a_tile: the warps make 1,064 requests to shared memory in all",
        ),
        (
            "            a_tile[ty + 16 * r][tx] = a[(row + 16 * r) * k + t + tx];",
            "            a_tile[ty + 16 * r][tx] = a[(row + r) * k + t + tx];",
            "the result is wrong: c[16][0] is -54",
        ),
        ("        }\n        __syncthreads();\n    }", "        }\n    }", "line 11: race (WAR)"),
        ("a_tile[ty + 16 * r][i] * y", "a_tile[4 * ty + r][i] * y", "the result is wrong: c[1][0] is -5"),
    ],
    "four-by-four-per-thread": [
        ("x[r] * y[q]", "x[q] * y[r]", "the result is wrong: c[0][16] is -2"),
        (
            "                    sum[r][q] += x[r] * y[q];",
            "                    sum[r][q] += a_tile[ty + 16 * r][i] * y[q];",
            "Line 22, a load of a_tile: the warps make 3,136 requests to shared memory in all",
        ),
        ("        __syncthreads();\n        for (int i", "        for (int i", "line 17: race (RAW)"),
        ("float a_tile[64][16], b_tile[16][64]", "float a_tile[64][16], b_tile[16][48]", "line 11: out of bounds"),
    ],
    "stride-two": [
        (
            "    float2 pair = ((float2 *)s)[t];\n    y[blockIdx.x * 128 + t] = pair.x + pair.y;",
            "    y[blockIdx.x * 128 + t] = s[t] + s[t + 128];",
            "the result is wrong: y[0] is -1",
        ),
        (
            "    float2 pair = ((float2 *)s)[t];\n    y[blockIdx.x * 128 + t] = pair.x + pair.y;",
            "    y[blockIdx.x * 128 + t] = x[first + 2 * t] + x[first + 2 * t + 1];",
            "Line 9, a load of x: it is not coalesced",
        ),
        ("    __syncthreads();\n", "", "line 8: race (RAW)"),
        ("((float2 *)s)[t]", "*(float2 *)(s + t)", "line 9: misaligned access"),
    ],
    "pad-the-rows": [
        ("tile[32][33]", "tile[32][34]", "Line 11, a load of tile: it has a 2-way bank conflict"),
        ("tile[32][33]", "tile[32][65]", "A block uses 8,320 bytes of shared memory"),
        ("tile[32][33]", "tile[33][32]", "Line 11, a load of tile: it has a 32-way bank conflict"),
        ("sum += tile[lane][column]", "sum += tile[column][lane]", "the result is wrong: sums[0] is -21"),
    ],
    "xor-swizzle": [
        ("tile[tx][row ^ tx]", "tile[tx][row]", "the result is wrong: y[0][0][1] is -3"),
        ("tile[32][32]", "tile[32][33]", "Line 10, a load of tile: it has a 32-way bank conflict"),
        ("tile[row][tx ^ row]", "tile[row ^ tx][tx]", "the result is wrong: y[0][0][1] is 0"),
        ("    __syncthreads();\n", "", "line 9: race (RAW)"),
    ],
    "read-structs-whole": [
        ("s[63 - t]", "s[t]", "the result is wrong: y[0] is 22"),
        (
            "__shared__ float4 s[64];",
            "__shared__ float space[257];\n    float4 *s = (float4 *)(space + 1);",
            "line 7: misaligned access",
        ),
        (
            "    float4 v = s[63 - t];\n    y[i] = v.x",
            "    float4 v = s[63 - t];\n    v.x = ((float *)s)[4 * (63 - t)];\n    y[i] = v.x",
            "Line 9, a load of s: it has a 4-way bank conflict",
        ),
        ("    __syncthreads();\n", "", "line 7: race (RAW)"),
    ],
    "coalesce-both-sides": [
        ("tile[32][33]", "tile[32][32]", "Line 10, a load of tile: it has a 32-way bank conflict"),
        ("    __syncthreads();\n", "", "line 9: race (RAW)"),
        (
            "        y[(column + r) * rows + row + tx] = tile[tx][r];",
            "        y[(column + tx) * rows + row + r] = tile[r][tx];",
            "Line 10, a store of y: it is not coalesced",
        ),
        ("y[(column + r) * rows + row + tx]", "y[(row + r) * rows + column + tx]", "line 10: race (WAW)"),
    ],
    "transpose-any-shape": [
        (
            "        if (row + r < rows && column + tx < columns)\n",
            "        if (row + r < rows)\n",
            "line 8: out of bounds",
        ),
        (
            "        if (column + r < columns && row + tx < rows)\n",
            "        if (row + r < rows && column + tx < columns)\n",
            "line 12: out of bounds",
        ),
        (
            "    __syncthreads();\n",
            "    if (column + tx >= columns)\n        return;\n    __syncthreads();\n",
            "line 11: early return before a barrier",
        ),
    ],
    "transpose-in-place": [
        (
            "    if (blockIdx.x < blockIdx.y) // the other block moves both tiles\n        return;\n",
            "",
            "line 12: race",
        ),
        (
            "        if (row != column)\n            x[(row + r) * n + column + tx] = lower[tx][r];\n",
            "",
            "the result is wrong: x[0][32] is 4",
        ),
        (
            "upper[32][33], lower[32][33]",
            "upper[32][32], lower[32][32]",
            "Line 14, a load of upper: it has a 32-way bank conflict",
        ),
        ("    __syncthreads();\n", "", "line 13: race"),
    ],
    "interleave-the-work": [
        (
            "k * 128 + threadIdx.x",
            "k * 128 + threadIdx.x * 2 % 128 + threadIdx.x / 64",
            "Line 5, a load of x: it is not coalesced",
        ),
        ("k * 128 + threadIdx.x", "k * 128 + threadIdx.x % 32", "line 5: race (WAW)"),
        ("3 * x[i]", "3 + x[i]", "the result is wrong: y[0] is 3"),
    ],
    "structure-of-arrays": [
        ("particles[i]", "particles[n + i]", "the result is wrong: particles[0][0] is 0"),
        (
            "    if (i < n)\n        particles[i] += dx;",
            "    for (int k = 0; k < 3; k++)\n        particles[k * n + i] += dx;",
            "the result is wrong: particles[1][0] is 1",
        ),
        ("particles[i] += dx", "particles[blockIdx.x * blockDim.x] += dx", "line 6: race (WAR)"),
        (
            "    if (i < n)\n        particles[i] += dx;",
            "    if (i % 2 == 0) {\n        particles[i] += dx;\n        particles[i + 1] += dx;\n    }",
            "Line 6, a load of particles: it is not coalesced",
        ),
    ],
    "rgb-through-shared": [
        (
            "    for (int k = t; k < 768; k += 256)\n",
            "    for (int k = 3 * t; k < 3 * t + 3; k++)\n",
            "Line 7, a load of x: it is not coalesced",
        ),
        ("    __syncthreads();\n", "", "line 8: race (RAW)"),
        (
            "2 * s[3 * t] + 5 * s[3 * t + 1] + s[3 * t + 2]",
            "2 * s[t] + 5 * s[t + 256] + s[t + 512]",
            "the result is wrong: y[0] is -8",
        ),
        ("k < 768", "k < 512", "line 9: uninitialised read"),
    ],
    "sum-down-the-columns": [
        ("x[row * columns + column]", "x[column * rows + row]", "the result is wrong: sums[0] is 6"),
        ("row * columns", "row * 128", "the result is wrong: sums[0] is 3"),
        (
            "        sum += x[row * columns + column];\n",
            "        sum = x[row * columns + column];\n",
            "the result is wrong: sums[0] is 1",
        ),
        (
            "    float sum = 0;\n"
            "\n"
            "    for (int row = 0; row < rows; row++)\n"
            "        sum += x[row * columns + column];\n"
            "    sums[column] = sum;",
            "\n"
            "    sums[column] = 0;\n"
            "    for (int row = 0; row < rows; row++)\n"
            "        sums[column] += x[row * columns + column];",
            "Line 7, a load of sums: the threads make 2,048 loads from global memory in all",
        ),
    ],
    "one-buffer-twice": [
        ("    __syncthreads(); // all have read x\n", "", "line 4: race (WAR)"),
        (
            "    __shared__ float s[4096];\n",
            "    __shared__ double space[4096];\n    float *s = (float *)space;\n",
            "Only 6 blocks of 32,768 bytes of shared memory fit on a multiprocessor",
        ),
        ("s[4095 - i]", "s[4096 - i]", "line 7: out of bounds"),
        ("reverse(y, out_y, s)", "reverse(x, out_y, s)", "the result is wrong: out_y[0][0] is 3"),
    ],
    "smaller-counters": [
        ("    for (int v = 0; v < 64; v++)\n        c[v][t] = 0;\n", "", "line 7: uninitialised read"),
        (
            "unsigned char c",
            "unsigned short c",
            "Only 25 blocks of 8,192 bytes of shared memory fit on a multiprocessor",
        ),
        ("c[64][64]", "c[63][64]", "line 7: out of bounds"),
        ("counts[(blockIdx.x * 64 + v) * 64 + t]", "counts[v * 64 + t]", "line 11: race (WAW)"),
    ],
    "four-chains": [
        (
            "        s0 += row[k];\n"
            "        s1 += row[k + 1];\n"
            "        s2 += row[k + 2];\n"
            "        s3 += row[k + 3];\n",
            "        s0 += row[k];\n"
            "        s0 += row[k + 1];\n"
            "        s0 += row[k + 2];\n"
            "        s0 += row[k + 3];\n",
            "the result is wrong: sums[0] is 34.3042412",
        ),
        ("k += 4) {", "k += 8) {", "the result is wrong: sums[0] is 18.9306126"),
        ("s3 += row[k + 3]", "s3 += row[k + 4]", "line 10: out of bounds"),
        ("(s0 + s1) + (s2 + s3)", "(s0 + s1) + s2", "the result is wrong: sums[0] is 29.022274"),
    ],
    "branchless-sum": [
        ("(v < 50) * v", "(v < 50)", "the result is wrong: sums[0] is 6"),
        ("(v < 50) * v", "(v <= 50) * v", "the result is wrong: sums[1] is 140"),
        ("(v < 50) * v", "v < 50 ? v : 0", "The source uses ?, which this task excludes"),
        (
            "        sum += (v < 50) * v;",
            "        if (v < 50)\n            sum += v;",
            "The source uses if, which this task excludes",
        ),
    ],
    "split-by-warps": [
        ("    __syncthreads();\n    y[", "    y[", "line 14: race (RAW)"),
        ("t < 128)\n", "t <= 128)\n", "line 9: out of bounds"),
        (
            "        float v = s[2 * (t - 128) + 1];\n        s[2 * (t - 128) + 1] = v * v;",
            "        float v = s[2 * (t - 128)];\n        s[2 * (t - 128)] = v * v;",
            "line 9: race (WAR)",
        ),
        (
            "    s[t] = x[blockIdx.x * 256 + t];\n"
            "    __syncthreads();\n"
            "    if (t < 128)\n"
            "        s[2 * t] = 2 * s[2 * t] + 1;\n"
            "    else {\n"
            "        float v = s[2 * (t - 128) + 1];\n"
            "        s[2 * (t - 128) + 1] = v * v;\n"
            "    }\n"
            "    __syncthreads();\n"
            "    y[blockIdx.x * 256 + t] = s[t];",
            "    if (t % 2 == 0)\n"
            "        s[t] = 2 * x[blockIdx.x * 256 + t] + 1;\n"
            "    else\n"
            "        s[t] = x[blockIdx.x * 256 + t] * x[blockIdx.x * 256 + t];\n"
            "    y[blockIdx.x * 256 + t] = s[t];",
            "Line 9, a load of x: it runs in divergent warps: 16 of 32 lanes are active on average",
        ),
    ],
    "kahan-sum": [
        ("lost = (t - sum) - y;", "lost = y - (t - sum);", "the result is wrong: sums[0] is 4601.19434"),
        (
            "        float y = row[k] - lost;",
            "        float y = row[k];",
            "the result is wrong: sums[0] is 4601.20752",
        ),
        (
            "float sum = 0, lost = 0;",
            "double sum = 0, lost = 0;",
            "The source uses double, which this task excludes",
        ),
        (
            "        lost = (t - sum) - y;\n        sum = t;",
            "        sum = t;\n        lost = (t - sum) - y;",
            "the result is wrong: sums[0] is 4451602.5",
        ),
    ],
    "pairwise-sum": [
        (
            "    for (int half = n / 2; half > 0; half /= 2)\n"
            "        for (int i = 0; i < half; i++)\n"
            "            s[i] += s[i + half];\n",
            "    for (int i = 1; i < n; i++)\n        s[0] += s[i];\n",
            "the result is wrong: sums[0] is 4108.396",
        ),
        ("half > 0", "half > 1", "the result is wrong: sums[0] is 2069.89844"),
        ("s[i] += s[i + half]", "s[i] += s[i + n / 2]", "the result is wrong: sums[0] is 1.2430644"),
        (
            "s[i] = x[blockIdx.x * n + i];\n    for",
            "s[i] = x[blockIdx.x * n + i];\n    double all = 0;\n    for",
            "The source uses double, which this task excludes",
        ),
    ],
    "accumulate-in-float": [
        (
            "        sum += __half2float(x[threadIdx.x * n + k]);",
            "        sum = __half2float(__hadd(__float2half(sum), x[threadIdx.x * n + k]));",
            "the result is wrong: sums[0] is 2218",
        ),
        ("float sum = 0;", "double sum = 0;", "The source uses double, which this task excludes"),
        (
            "sum += __half2float(x[threadIdx.x * n + k]);",
            "sum += (int)__half2float(x[threadIdx.x * n + k]);",
            "the result is wrong: sums[0] is 683",
        ),
        ("k < n;", "k < n / 2;", "the result is wrong: sums[0] is 1024.5"),
    ],
    "lost-updates": [
        ("    if (i < n)\n", "", "line 5: out of bounds"),
        ("atomicAdd(&counts[x[i]], 1)", "atomicAdd(&counts[x[i]], x[i])", "the result is wrong: counts[0] is 0"),
        (
            "        atomicAdd(&counts[x[i]], 1);",
            "        counts[x[i]] += 1;\n    __syncthreads();",
            "line 6: race",
        ),
    ],
    "histogram-per-block": [
        ("    if (t < 32)\n        mine[t] = 0;\n", "", "line 8: uninitialised read"),
        (
            "        atomicAdd(&mine[x[i]], 1);\n    __syncthreads();\n",
            "        atomicAdd(&mine[x[i]], 1);\n",
            "line 12: race",
        ),
        ("        atomicAdd(&counts[t], mine[t]);", "        counts[t] += mine[t];", "line 13: race"),
        ("        mine[t] = 0;\n    __syncthreads();\n", "        mine[t] = 0;\n", "line 9: race"),
    ],
    "one-atomic-per-block": [
        (
            "    if (t == 0)\n        atomicAdd(total, s[0]);",
            "    if (t == 0)\n        *total += s[0];",
            "line 14: race",
        ),
        ("    if (t == 0)\n", "    if (t % 32 == 0)\n", "the result is wrong: total[0] is 104"),
        (
            "            s[t] += s[t + stride];\n        __syncthreads();\n",
            "            s[t] += s[t + stride];\n",
            "line 10: race",
        ),
        (
            "    if (t == 0)\n        atomicAdd(total, s[0]);",
            "    atomicAdd(total, t == 0 ? s[0] : 0);",
            "Line 13, an atomic update of total: the threads make 256 atomic operations on global memory in all",
        ),
    ],
    "append-with-a-counter": [
        (
            "kept[atomicAdd(count, 1)] = x[i]",
            "kept[atomicAdd(count, 1)] = i",
            "the result is wrong: sums[0] is 14556",
        ),
        (
            "        kept[atomicAdd(count, 1)] = x[i];",
            "        atomicAdd(count, 1), kept[*count - 1] = x[i];",
            "line 6: race",
        ),
        ("kept[atomicAdd(count, 1)]", "kept[atomicAdd(count, 1) + 1]", "the result is wrong: sums[0] is 283"),
        ("x[i] > 0)\n        kept", "x[i] >= 0)\n        kept", "the result is wrong: count[0] is 148"),
    ],
    "scan-in-place": [
        ("        __syncthreads(); // all have written\n", "", "line 9: race (RAW)"),
        ("        __syncthreads(); // all have read\n", "", "line 10: race (WAR)"),
        ("t >= d ? s[t - d] : 0", "t > d ? s[t - d] : 0", "the result is wrong: y[1][1] is 3"),
        ("t >= d ? s[t - d] : 0", "s[t - d]", "line 9: out of bounds"),
        ("d < 128", "d < 64", "the result is wrong: y[0][66] is -13"),
    ],
    "exclusive-scan": [
        ("t > 0 ? s[t - 1] : 0", "s[t - 1]", "line 14: out of bounds"),
        ("t > 0 ? s[t - 1] : 0", "s[(t + 127) % 128]", "the result is wrong: y[0][0] is 14"),
        ("        s[t] += other;\n        __syncthreads();\n", "        s[t] += other;\n", "line 9: race (RAW)"),
        ("t > 0 ? s[t - 1] : 0", "t < 127 ? s[t + 1] : 0", "the result is wrong: y[0][1] is 2"),
    ],
    "load-the-halo": [
        ("        s[t + 131] = i + 128 < n ? x[i + 128] : 0;\n", "", "line 13: uninitialised read"),
        ("i >= 3 && i - 3 < n ? x[i - 3] : 0", "i - 3 < n ? x[i - 3] : 0", "line 9: out of bounds"),
        ("    __syncthreads();\n", "", "line 13: race (RAW)"),
        ("float s[134]", "float s[131]", "line 10: out of bounds"),
        ("k < 7", "k < 6", "the result is wrong: y[0] is 2"),
    ],
    "corners-of-the-tile": [
        ("k < 18 * 18; k += 256", "k < 256; k += 256", "line 15: uninitialised read"),
        ("r >= 0 && r < rows && c >= 0 && c < columns ?", "r < rows && c < columns ?", "line 10: out of bounds"),
        ("    __syncthreads();\n", "", "line 10: race (WAR)"),
        ("k / 18 - 1, c", "k / 18, c", "the result is wrong: y[0][0] is 2"),
        ("s[ty + i][tx + j]", "s[ty + j][tx + i] * (i != j)", "the result is wrong: y[0][1] is 3"),
    ],
    "wait-for-the-copy": [
        ("    __syncthreads();\n", "", "line 12: race (RAW)"),
        (
            "    __pipeline_wait_prior(0);\n    __syncthreads();\n",
            "    __syncthreads();\n    __pipeline_wait_prior(0);\n",
            "line 13: race (RAW)",
        ),
        ("&s[4 * t], &x[first + 4 * t], 16", "&s[4 * t], &x[first + 4 * t], 8", "line 13: uninitialised read"),
        ("&s[4 * t], &x[first + 4 * t], 16", "&s[4 * t + 1], &x[first + 4 * t], 16", "line 8: misaligned access"),
        (
            "    __pipeline_memcpy_async(&s[4 * t], &x[first + 4 * t], 16);\n",
            "    for (int j = 0; j < 4; j++)\n        s[4 * t + j] = x[first + 4 * t + j];\n",
            "The task asks for __pipeline_memcpy_async, which the source does not use",
        ),
    ],
    "two-stages": [
        ("        __syncthreads(); // all have read it\n", "", "line 13: race (WAR)"),
        (
            "        __pipeline_wait_prior(1);\n",
            "        __pipeline_wait_prior(2);\n",
            "line 13: race (WAW)",
        ),
        ("        __syncthreads(); // row `step` is there\n", "", "line 16: race (RAW)"),
        ("        if (step + 1 < steps)\n            __pipe", "        __pipe", "line 12: out of bounds"),
    ],
    "wait-for-the-phase": [
        ("    __syncthreads(); // the mbarrier is there\n", "", "line 19: race (WAW)"),
        ("parity(&full, 0)", "parity(&full, 1)", "line 18: race (WAR)"),
        ("mbarrier_init(&full, 1)", "mbarrier_init(&full, 2)", "line 20: endless wait"),
    ],
    "flip-the-parity": [
        ("step & 1", "1 - (step & 1)", "line 20: race (WAR)"),
        ("        __syncthreads(); // all have read the row\n", "", "With 2 steps, line 22: endless wait"),
        ("mbarrier_init(&full, 1)", "mbarrier_init(&full, 64)", "With 1 steps, line 22: endless wait"),
    ],
    "fence-for-the-store": [
        ("    ptx::fence_proxy_async(ptx::space_shared);\n", "", "race (proxy)"),
        ("    __syncthreads(); // all have written\n", "", "race (RAW)"),
        ("y + first, s, sizeof s)", "y + first, s, sizeof s / 2)", "the result is wrong"),
    ],
    "last-block-adds": [
        ("        __threadfence(); // the sum before the ticket\n", "", "line 21: race"),
        ("== gridDim.x - 1", "== gridDim.x", "the result is wrong: total[0] was never written"),
        (
            "        __threadfence(); // the sum before the ticket\n"
            "        last = atomicAdd(ticket, 1) == gridDim.x - 1;",
            "        __threadfence();\n        last = (*ticket)++ == gridDim.x - 1;",
            "line 17: race",
        ),
        ("== gridDim.x - 1", "== 0", "line 22: race"),
    ],
    "barrier-of-the-grid": [
        ("    cg::this_grid().sync();\n", "    __threadfence();\n    __syncthreads();\n", "line 11: race"),
        (
            "    float mirrored = x[n - 1 - i];\n\n    cg::this_grid().sync();\n",
            "\n    cg::this_grid().sync();\n    float mirrored = x[n - 1 - i];\n",
            "line 10: race",
        ),
        ("x[n - 1 - i]", "x[n - i]", "line 7: out of bounds"),
    ],
}
