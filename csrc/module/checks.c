/* The checker for Python: checked launches, and the cost of one access of a warp. */
#include "python/state.h"

#include <dlfcn.h>
#include <string.h>

#include "array/array.h"
#include "base/scope.h"
#include "checker/banks.h"
#include "checker/trace.h"
#include "module.h"
#include "python/arguments.h"

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

bool read_addresses(PyObject *object, struct warp_access *access)
{
    PyObject *lanes = PySequence_Tuple(object);
    bool ok;

    if (!lanes)
        return add_argument_name("addresses");
    ok = PyTuple_GET_SIZE(lanes) <= LANES;
    if (!ok)
        PyErr_Format(PyExc_ValueError, "addresses: expected no more than %d, one per lane, got %zd", LANES,
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
    return Py_BuildValue("iiiiNi", cost.wavefronts, cost.conflicts, cost.degree, cost.groups,
                         shape_tuple(banks, words), cost.lanes);
}

/* ---- checked launches ---- */

#define TRIPLE(x) (unsigned)(x)[0], (unsigned)(x)[1], (unsigned)(x)[2]

/* A str of bytes that may be truncated inside a character. */
static PyObject *text(const char *bytes)
{
    return PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)strlen(bytes), "replace");
}

/* The addresses of a call stack, innermost first, at most CHAIN: of an item, unless it is 0, and of its callers.
 */
static PyObject *chain_tuple(const struct trace *trace, uint32_t item, uint32_t context)
{
    enum { CHAIN = 16 };
    npy_intp chain[CHAIN];
    int count = 0;

    if (item)
        chain[count++] = item >> ITEM_BITS;
    for (; context && count < CHAIN; context = trace->contexts[context].parent)
        chain[count++] = trace->contexts[context].item >> ITEM_BITS;
    return shape_tuple(count, chain);
}

/* The source location of a fault: (addresses, file, line); with a file, the addresses are those of the calls. */
static PyObject *location_tuple(const struct trace *trace, const struct code_location *location)
{
    if (location->item)
        return Py_BuildValue("(Nzi)", chain_tuple(trace, location->item, location->context), NULL, 0);
    if (!location->line)
        return Py_BuildValue("(()zi)", location->file, 0);
    return Py_BuildValue("(Nzi)", chain_tuple(trace, 0, location->context), location->file, location->line);
}

/* The mbarrier wait before a race: (file, line, arrivals that a phase expects, phase, by_preceding), or None. */
static PyObject *pass_tuple(const struct mbarrier_pass *pass)
{
    if (!pass->file)
        Py_RETURN_NONE;
    return Py_BuildValue("(siIKN)", pass->file, pass->line, pass->expected, (unsigned long long)pass->phase,
                         PyBool_FromLong(pass->by_preceding));
}

static PyObject *fault_dict(const struct trace *trace, const struct checked_fault *fault)
{
    static const char *const kinds[] = {"race", "barrier", "out_of_bounds", "uninitialised", "misaligned",
                                        "hang", "trap",    "shuffle",       "leak"};
    static const char *const hazards[] = {"", "RAW", "WAR", "WAW", "proxy"};
    static const char *const fences[] = {"", "async", "release", "acquire"};
    static const char *const accesses[] = {"load", "store", "atomic"};
    static const char *const registers[] = {"", "in flight", "unfenced"};
    static const char *const spaces[] = {"shared", "shared", "global", ""};

    return Py_BuildValue(
        "{s:s,s:s,s:N,s:N,s:N,s:(III),s:(III),s:I,s:(III),s:(III),s:s,s:s,s:s,s:N,s:K,s:K,s:I,s:(III),s:I,s:i,s:i,"
        "s:N,s:K,s:K,s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:s,s:K,s:N,s:I,s:s}",
        "kind", kinds[fault->kind], "hazard", hazards[fault->hazard], "warp_synchronous",
        PyBool_FromLong(fault->warp_synchronous), "location", location_tuple(trace, &fault->location), "other",
        location_tuple(fault->other_trace ? fault->other_trace : trace, &fault->other), "block",
        TRIPLE(fault->block), "other_block", TRIPLE(fault->other_block), "threads", fault->threads, "thread",
        TRIPLE(fault->thread[0]), "other_thread", TRIPLE(fault->thread[1]), "access", accesses[fault->access],
        "other_access", accesses[fault->other_access], "space", spaces[fault->space], "variable",
        text(fault->variable), "offset", (unsigned long long)fault->offset, "extent",
        (unsigned long long)fault->extent, "element", fault->element, "dims", TRIPLE(fault->dims), "rank",
        fault->rank, "argument", fault->argument, "size", fault->size, "before", PyBool_FromLong(fault->before),
        "lead", (unsigned long long)fault->bytes_before, "reach", (unsigned long long)fault->reach, "async",
        PyBool_FromLong(fault->async), "copy", PyBool_FromLong(fault->copy), "other_copy",
        PyBool_FromLong(fault->other_copy), "doubtful", PyBool_FromLong(fault->doubtful), "incoherent",
        PyBool_FromLong(fault->incoherent), "unwaited", PyBool_FromLong(fault->unwaited), "waited",
        PyBool_FromLong(fault->waited), "pass", pass_tuple(&fault->pass), "multiplies",
        PyBool_FromLong(fault->multiplies), "other_multiplies", PyBool_FromLong(fault->other_multiplies),
        "registers", registers[fault->registers], "count", (unsigned long long)fault->count, "message",
        text(fault->message), "launches_before", fault->launches_before, "missing", fences[fault->missing]);
}

static PyObject *example_tuple(const struct site *site)
{
    PyObject *tuple = PyTuple_New(LANES);

    for (Py_ssize_t lane = 0; tuple && lane < LANES; lane++) {
        PyObject *address = Py_None;

        if (site->example_mask >> lane & 1)
            address = PyLong_FromLongLong((long long)(site->example[lane] - site->origin));
        else
            Py_INCREF(address);
        if (!address)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, lane, address);
    }
    return tuple;
}

static PyObject *site_dict(const struct trace *trace, const struct site *site)
{
    static const char *const accesses[] = {"load", "store", "atomic"};
    PyObject *example = example_tuple(site);

    if (!example)
        return NULL;
    return Py_BuildValue(
        "{s:N,s:s,s:s,s:i,s:K,s:K,s:K,s:K,s:K,s:I,s:K,s:K,s:N,s:i,s:N}", "chain",
        chain_tuple(trace, site->item, site->context), "space", site->space == SPACE_GLOBAL ? "global" : "shared",
        "access", accesses[site->kind], "size", (int)site->size, "requests", (unsigned long long)site->requests,
        "lanes", (unsigned long long)site->lanes, "ideal_requests", (unsigned long long)site->ideal_requests,
        "wavefronts", (unsigned long long)site->wavefronts, "conflicts", (unsigned long long)site->conflicts,
        "degree", site->degree, "sectors", (unsigned long long)site->sectors, "ideal_sectors",
        (unsigned long long)site->ideal_sectors, "variable", text(site->variable), "argument", site->argument,
        "example", example);
}

/* Appends a new item, whose reference it steals. False if the item is NULL. */
static bool append(PyObject *list, PyObject *item)
{
    const bool ok = list && item && PyList_Append(list, item) == 0;

    Py_XDECREF(item);
    return ok;
}

/* The waits for mbarriers: (file, line, passed, idle) of each line. */
static PyObject *waits_list(const struct trace *trace)
{
    PyObject *list = PyList_New(0);

    for (int i = 0; list && i < trace->waits.count; i++) {
        const struct wait_count *one = &trace->waits.lines[i];

        if (!append(list, Py_BuildValue("(siKK)", one->file, one->line, (unsigned long long)one->passed,
                                        (unsigned long long)one->idle)))
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *trace_dict(const struct trace *trace)
{
    PyObject *sites = PyList_New(0), *faults = PyList_New(0);
    bool ok = sites && faults;

    for (unsigned i = 0; ok && i < trace->site_capacity; i++)
        if (trace->sites[i].item)
            ok = append(sites, site_dict(trace, &trace->sites[i]));
    for (int i = 0; ok && i < trace->fault_count; i++)
        ok = trace_is_cas_load(trace, &trace->faults[i]) || append(faults, fault_dict(trace, &trace->faults[i]));
    if (!ok) {
        Py_XDECREF(sites);
        Py_XDECREF(faults);
        return NULL;
    }
    return Py_BuildValue(
        "{s:N,s:s,s:(III),s:(III),s:(III),s:n,s:K,s:K,s:N,s:N,s:K,s:K,s:N,s:N,s:K,s:K}", "kernel",
        text(trace->kernel), "library", trace->library.name, "grid", TRIPLE(trace->grid), "block",
        TRIPLE(trace->block), "cluster", TRIPLE(trace->cluster), "shared_bytes", (Py_ssize_t)trace->shared_bytes,
        "blocks_checked", (unsigned long long)trace->observed.blocks, "blocks", (unsigned long long)trace->blocks,
        "sites", sites, "faults", faults, "more_faults", (unsigned long long)trace->fault_more, "barriers",
        (unsigned long long)trace->barriers, "asynchronous", PyBool_FromLong(trace->asynchronous), "waits",
        waits_list(trace), "copies_in_flight", (unsigned long long)trace->most_flying.copies, "bytes_in_flight",
        (unsigned long long)trace->most_flying.bytes);
}

/* One byte for each row of the kernel table, or None. The bytes live as long as their object. */
static bool read_rows(PyObject *value, const char **rows)
{
    if (value == Py_None)
        return true;
    if (!PyBytes_Check(value) || PyBytes_GET_SIZE(value) != ROW_COUNT) {
        PyErr_Format(PyExc_ValueError, "all_blocks_rows: expected %d bytes, got %R", (int)ROW_COUNT, value);
        return false;
    }
    *rows = PyBytes_AS_STRING(value);
    return true;
}

PyObject *core_checked(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    struct checking check = {.schedule = SCHEDULE_SERIAL};
    struct scope inner = *current_scope(), outer;
    PyObject *result = NULL, *launches = NULL;

    (void)module;
    if (!read_count("checked", count, 6))
        return NULL;
    check.blocks = PyLong_AsUnsignedLongLong(args[1]);
    check.schedule = (enum schedule)PyLong_AsLong(args[2]);
    check.seed = PyLong_AsUnsignedLongLong(args[3]);
    if (!read_rows(args[4], &check.all_blocks_rows))
        return NULL;
    check.completion = (enum completion)PyLong_AsLong(args[5]);
    if (PyErr_Occurred())
        return NULL;
    if (inner.checking) {
        PyErr_SetString(PyExc_RuntimeError, "check: checks cannot be nested");
        return NULL;
    }
    inner.checking = &check;
    checker_observe();
    outer = scope_set(inner);
    result = PyObject_CallNoArgs(args[0]);
    (void)scope_set(outer);
    if (result)
        launches = PyList_New(0);
    for (struct trace *trace = check.first; launches && trace; trace = trace->next)
        if (!append(launches, trace_dict(trace)))
            Py_CLEAR(launches);
    Py_XDECREF(result);
    while (check.first) {
        struct trace *next = check.first->next;

        trace_free(check.first);
        check.first = next;
    }
    return launches;
}

PyObject *core_chain_launch(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    struct checking *check = current_scope()->checking;
    bool overtakes;

    (void)module;
    if (!read_count("chain_launch", count, 1) || !read_flag(args[0], "overtakes", &overtakes))
        return NULL;
    if (!check) {
        PyErr_SetString(PyExc_RuntimeError, "chain_launch: outside of a check");
        return NULL;
    }
    check->overtakes = overtakes;
    check->chained = true;
    Py_RETURN_NONE;
}

PyObject *core_load_checked(PyObject *module, PyObject *path)
{
    const char *text = PyUnicode_AsUTF8(path);
    void *library;

    (void)module;
    if (!text)
        return NULL;
    library = dlopen(text, RTLD_NOW | RTLD_LOCAL);
    if (library)
        checked_launchers = dlsym(library, "smemkit_checked_launchers");
    if (!library || !checked_launchers) {
        PyErr_Format(PyExc_ImportError, "smemkit: the kernels for checking cannot be loaded: %s", dlerror());
        return NULL;
    }
    Py_RETURN_NONE;
}
