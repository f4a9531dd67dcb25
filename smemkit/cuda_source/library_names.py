"""Names that the C library or CUDA's math API gives to functions, and a kernel may well have, too: the two are
overloads, so the kernel is named with its parameters' types."""

import re

__all__ = ["is_library_function"]

_WORDS = re.compile(r"\w+")
# of <math.h> and the CUDA math API, without the suffixes f and l
_MATH = """
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh cospi cyl_bessel_i0 cyl_bessel_i1 drem
    erf erfc erfcinv erfcx erfinv exp exp10 exp2 expm1 fabs fdim fdivide finite floor fma fmax fmin fmod frexp
    gamma hypot ilogb isfinite isgreater isinf isless isnan isnormal isunordered j0 j1 jn ldexp lgamma llrint
    llround log log10 log1p log2 logb lrint lround max min modf nan nearbyint nextafter nexttoward norm norm3d
    norm4d normcdf normcdfinv pow rcbrt remainder remquo rhypot rint rnorm rnorm3d rnorm4d round roundeven
    rsqrt scalb scalbln scalbn signbit significand sin sincos sincospi sinh sinpi sqrt tan tanh tgamma trunc
    y0 y1 yn
"""
# of <stdio.h>, <stdlib.h>, <string.h>, <time.h>, <signal.h>, <unistd.h>, <ctype.h>, <sched.h> and <sys/socket.h>
_OTHERS = """
    abort abs accept access acct alarm alloca asctime atexit atof atoi atol atoll basename bcmp bcopy bind brk
    bsearch bzero calloc chdir chown clearenv clearerr clock clone close confstr connect crypt ctime daemon
    difftime distance div dprintf drand48 dup dup2 ecvt erand48 exit fclose fcvt feof ferror fflush ffs fgetc
    fgets fileno fopen fork fprintf fputc fputs fread free freopen fscanf fseek fsync ftell fwrite gcvt getc
    getchar getcwd getenv getline getpid getw gmtime index isalnum isalpha isatty isblank iscntrl isdigit
    islower isprint ispunct isspace isupper jrand48 kill labs ldiv link listen llabs lldiv localtime lockf
    lrand48 lseek malloc mblen memchr memcmp memcpy memmove memset mktime mrand48 nanosleep nice nrand48
    pathconf pause pclose perror pipe popen pread printf putc putchar putenv puts putw pwrite qsort raise rand
    random read readlink realloc realpath recv remove rename rewind rindex rmdir rotate sbrk scanf select send
    setbuf setenv setstate shutdown signal sleep snprintf socket splice sprintf srand srandom sscanf stat
    strcat strchr strcmp strcoll strcpy strcspn strdup strftime strlen strncat strncmp strncpy strsep strspn
    strstr strtod strtof strtok strtol strtoul swab swapoff swapon symlink sync system tee tempnam time
    tmpfile tmpnam tolower toupper truncate ualarm umask ungetc unlink unsetenv unshare usleep valloc vfork
    vprintf wait write
"""
_MATH_NAMES, _OTHER_NAMES = (frozenset(_WORDS.findall(text)) for text in (_MATH, _OTHERS))


def is_library_function(name: str) -> bool:
    """Whether a library declares a function of this name.

    Examples
    --------
    >>> is_library_function("y1"), is_library_function("remainderf"), is_library_function("saxpy")
    (True, True, False)
    """
    return name in _OTHER_NAMES or name in _MATH_NAMES or (name[-1:] in ("f", "l") and name[:-1] in _MATH_NAMES)
