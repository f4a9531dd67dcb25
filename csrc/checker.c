/* The checker's face to Python. */
#include "smemkit.h"

#include "analysis.h"

/* An integer that is one of `values`, which end with 0. */
static bool read_one_of(PyObject *object, const char *name, const int *values, const char *expected, int *value)
{
    Py_ssize_t number = 0;

    if (PyIndex_Check(object) && (number = PyNumber_AsSsize_t(object, NULL)) == -1 && PyErr_Occurred())
        return false;
    for (; *values; values++)
        if (number == *values)
            break;
    *value = *values;
    if (!*values)
        PyErr_Format(PyIndex_Check(object) ? PyExc_ValueError : PyExc_TypeError, "%s: expected %s, got %R", name,
                     expected, object);
    return *values != 0;
}

static bool read_address(PyObject *object, int lane, struct warp_access *access)
{
    PyObject *number;
    unsigned long long address;

    if (object == Py_None)
        return true;
    number = PyNumber_Index(object);
    address = number ? PyLong_AsUnsignedLongLong(number) : 0;
    Py_XDECREF(number);
    if (PyErr_Occurred()) {
        if (PyErr_ExceptionMatches(PyExc_TypeError) || PyErr_ExceptionMatches(PyExc_OverflowError)) {
            PyObject *error = PyErr_ExceptionMatches(PyExc_TypeError) ? PyExc_TypeError : PyExc_ValueError;

            PyErr_Clear();
            PyErr_Format(error, "addresses: expected an integer from 0 to 2**64 - 1 or None, got %R for lane %d",
                         object, lane);
        }
        return false;
    }
    if (address % (unsigned)access->size) {
        PyErr_Format(PyExc_ValueError, "addresses: expected multiples of %d, the size, got %R for lane %d",
                     access->size, object, lane);
        return false;
    }
    access->mask |= 1u << lane;
    access->addresses[lane] = address;
    return true;
}

static bool read_addresses(PyObject *object, struct warp_access *access)
{
    PyObject *lanes = PySequence_Tuple(object);
    bool ok;

    if (!lanes)
        return blame("addresses");
    ok = PyTuple_GET_SIZE(lanes) <= LANES;
    if (!ok)
        PyErr_Format(PyExc_ValueError, "addresses: expected no more than %d, one a lane, got %zd", LANES,
                     PyTuple_GET_SIZE(lanes));
    for (int lane = 0; ok && lane < PyTuple_GET_SIZE(lanes); lane++)
        ok = read_address(PyTuple_GET_ITEM(lanes, lane), lane, access);
    Py_DECREF(lanes);
    return ok;
}

PyObject *core_wavefronts(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    static const int sizes[] = {1, 2, 4, 8, 16, 0}, bank_counts[] = {2, 4, 8, 16, 32, 0}, widths[] = {4, 8, 0};
    struct warp_access access = {.mask = 0};
    struct bank_cost cost;
    npy_intp words[MAX_BANKS];
    int banks, width;

    (void)module;
    if (!read_count("wavefronts", count, 5) ||
        !read_one_of(args[1], "size", sizes, "1, 2, 4, 8 or 16 bytes", &access.size) ||
        !read_flag(args[2], "store", &access.store) ||
        !read_one_of(args[3], "banks", bank_counts, "2, 4, 8, 16 or 32", &banks) ||
        !read_one_of(args[4], "bank_width", widths, "4 or 8 bytes", &width) || !read_addresses(args[0], &access))
        return NULL;
    cost = bank_cost(&access, banks, width);
    for (int bank = 0; bank < banks; bank++)
        words[bank] = cost.words[bank];
    return Py_BuildValue("iiiiN", cost.wavefronts, cost.conflicts, cost.degree, cost.groups,
                         shape_tuple(banks, words));
}
