/* The checker's face to Python. */
#include "smemkit.h"

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
