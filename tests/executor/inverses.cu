// The inverses of erf, erfc and the normal distribution, norms, and float64 arithmetic with a direction: by known
// values, by their own inverses, and by products of integers that long double holds.
#include "check.h"

#include <cmath>

__global__ void inverses(const double *y, double *out)
{
    const int i = threadIdx.x;
    out[4 * i] = erfinv(y[i]);
    out[4 * i + 1] = erfcinv(1 - y[i]);
    out[4 * i + 2] = normcdfinv((1 + y[i]) / 2);
    out[4 * i + 3] = erfcinvf((float)(1 - y[i]));
}

static void check_inverses()
{
    const double values[] = {0, 0.1, -0.25, 0.5, 0.75, -0.9, 0.99, 0.999999};
    Array<double> y(8), out(32);
    for (int i = 0; i < 8; i++)
        y[i] = values[i];
    y.upload();
    inverses<<<1, 8>>>(y.device, out.device);
    RUNS();
    out.download();
    EQUAL(out[0], 0);
    WITHIN(out[4 * 3], 0.47693627620446987338, 4e-16);     // erfinv(1/2), OEIS A069286
    WITHIN(out[4 * 3 + 2], 0.67448975019608174320, 8e-16); // the normal distribution's third quartile, A092678
    for (int i = 0; i < 8; i++) {
        const double slope = 2 / sqrt(M_PI) * exp(-out[4 * i] * out[4 * i]);
        WITHIN(erf(out[4 * i]), values[i], 4e-16);
        WITHIN(out[4 * i + 1], out[4 * i], 4e-16 / slope + 8e-16);
        WITHIN(out[4 * i + 2], out[4 * i] * sqrt(2.0), 4e-16 / slope + 8e-16);
        WITHIN(out[4 * i + 3], out[4 * i], 2e-7 / slope + 2e-7 * fabs(out[4 * i]));
    }
}

__global__ void tails(double *out)
{
    out[0] = erfcinv(1e-300);
    out[1] = erfcinv(0.0);
    out[2] = erfcinv(2.0);
    out[3] = erfcinv(-1.0);
    out[4] = norm4d(2, 4, 5, 6);
    out[5] = rnorm4df(1, 1, 1, 1);
}

__global__ void rounded(double x, double y, double *out)
{
    const double results[] = {__dadd_rd(x, y),       __dadd_ru(x, y),      __dadd_rz(x, y), __dmul_rd(x, y),
                              __dmul_ru(x, y),       __dmul_rz(x, y),      __ddiv_rd(x, y), __ddiv_ru(x, y),
                              __ddiv_rz(x, y),       __dsub_rd(x, y),      __dsub_ru(x, y), __dsub_rz(x, y),
                              __drcp_rd(y),          __drcp_ru(y),         __drcp_rz(y),    __dsqrt_rd(x * x + 1),
                              __dsqrt_ru(x * x + 1), __dsqrt_rz(x * x + 1)};
    for (int i = 0; i < 18; i++)
        out[i] = results[i];
}

// Of each three: down and up are neighbours around long double's result, or both equal; zero is the one nearer to
// 0.
static void check_rounded(double x, double y)
{
    Array<double> out(18);
    const long double exact[] = {(long double)x + y, (long double)x * y, (long double)x / y,
                                 (long double)x - y, 1 / (long double)y, sqrtl((long double)(x * x + 1))};
    rounded<<<1, 1>>>(x, y, out.device);
    RUNS();
    out.download();
    for (int i = 0; i < 6; i++) {
        const double down = out[3 * i], up = out[3 * i + 1], zero = out[3 * i + 2];
        EQUAL_AT(i, down <= exact[i] && exact[i] <= up, true);
        EQUAL_AT(i, up == down || up == nextafter(down, INFINITY), true);
        EQUAL_AT(i, zero, exact[i] < 0 ? up : down);
    }
}

int main()
{
    Array<double> out(6);
    check_inverses();
    tails<<<1, 1>>>(out.device);
    RUNS();
    out.download();
    WITHIN(erfc(out[0]) / 1e-300, 1, 1e-12);
    EQUAL(out[1], INFINITY);
    EQUAL(out[2], -INFINITY);
    EQUAL(out[3] != out[3], true);
    EQUAL(out[4], 9);
    EQUAL(out[5], 0.5);
    for (double x : {1.0, 3.0, -7.0, 0.1, 1e10 + 0.3})
        for (double y : {3.0, 0.7, -11.0, 1e-5})
            check_rounded(x, y);
    return verdict();
}
