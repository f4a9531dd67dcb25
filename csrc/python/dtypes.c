/* Conversions between smemkit's dtype enum, NumPy's type numbers and names. */
#include "python/state.h"

#include <string.h>

#include "dtypes.h"
#include "kernels.h"

static const struct {
    enum dtype dtype;
    int numpy; /* NPY_NOTYPE for bfloat16, whose number NumPy assigns when ml_dtypes is imported */
    const char *name;
    int bytes;
} dtypes[DTYPES] = {
    {BOOL, NPY_BOOL, "bool", 1},
    {INT8, NPY_INT8, "int8", 1},
    {INT16, NPY_INT16, "int16", 2},
    {INT32, NPY_INT32, "int32", 4},
    {INT64, NPY_INT64, "int64", 8},
    {UINT8, NPY_UINT8, "uint8", 1},
    {UINT16, NPY_UINT16, "uint16", 2},
    {UINT32, NPY_UINT32, "uint32", 4},
    {UINT64, NPY_UINT64, "uint64", 8},
    {FLOAT16, NPY_FLOAT16, "float16", 2},
    {BFLOAT16, NPY_NOTYPE, "bfloat16", 2},
    {FLOAT32, NPY_FLOAT32, "float32", 4},
    {FLOAT64, NPY_FLOAT64, "float64", 8},
    {COMPLEX64, NPY_COMPLEX64, "complex64", 8},
    {COMPLEX128, NPY_COMPLEX128, "complex128", 16},
};

static int dtype_index(enum dtype dtype)
{
    return __builtin_ctz(dtype);
}

int dtype_bytes(enum dtype dtype)
{
    return dtypes[dtype_index(dtype)].bytes;
}

unsigned dtypes_of_size(int bytes)
{
    unsigned set = 0;

    for (int i = 0; i < DTYPES; i++)
        if (dtypes[i].bytes == bytes)
            set |= dtypes[i].dtype;
    return set;
}

const char *dtype_name(enum dtype dtype)
{
    return dtypes[dtype_index(dtype)].name;
}

PyObject *dtype_list(unsigned set)
{
    PyObject *text = NULL, *longer;
    const char *separator = NULL;

    for (int i = 0; i < DTYPES; i++) {
        if (!(set & dtypes[i].dtype))
            continue;
        separator = set >> (i + 1) ? ", " : " or ";
        longer = text ? PyUnicode_FromFormat("%U%s%s", text, separator, dtypes[i].name)
                      : PyUnicode_FromString(dtypes[i].name);
        Py_XDECREF(text);
        text = longer;
        if (!text)
            return NULL;
    }
    return text;
}

static bool is_bfloat16(const PyArray_Descr *descr)
{
    const char *name = descr->typeobj->tp_name, *dot = strrchr(name, '.');

    return PyTypeNum_ISUSERDEF(descr->type_num) && strcmp(dot ? dot + 1 : name, "bfloat16") == 0;
}

/* NumPy has a type number per C type; two C types may have the same width. */
static int fixed_width(int type_num)
{
    switch (type_num) {
    case NPY_INT:
    case NPY_LONG:
    case NPY_LONGLONG:
        return type_num == NPY_INT || (type_num == NPY_LONG && sizeof(long) == 4) ? NPY_INT32 : NPY_INT64;
    case NPY_UINT:
    case NPY_ULONG:
    case NPY_ULONGLONG:
        return type_num == NPY_UINT || (type_num == NPY_ULONG && sizeof(long) == 4) ? NPY_UINT32 : NPY_UINT64;
    default:
        return type_num;
    }
}

enum dtype dtype_of(const PyArray_Descr *descr)
{
    const int number = fixed_width(descr->type_num);

    for (int i = 0; i < DTYPES; i++)
        if (dtypes[i].dtype == BFLOAT16 ? is_bfloat16(descr) : dtypes[i].numpy == number)
            return dtypes[i].dtype;
    return 0;
}

PyArray_Descr *dtype_descr(enum dtype dtype)
{
    PyObject *module, *type;
    PyArray_Descr *descr = NULL;

    if (dtype != BFLOAT16)
        return PyArray_DescrFromType(dtypes[dtype_index(dtype)].numpy);
    module = PyImport_ImportModule("ml_dtypes");
    if (!module && PyErr_ExceptionMatches(PyExc_ModuleNotFoundError))
        PyErr_SetString(PyExc_ModuleNotFoundError,
                        "dtype: bfloat16 needs ml_dtypes, which is not installed; pip install ml_dtypes");
    type = module ? PyObject_GetAttrString(module, "bfloat16") : NULL;
    if (type)
        PyArray_DescrConverter(type, &descr);
    Py_XDECREF(type);
    Py_XDECREF(module);
    return descr;
}

PyArray_Descr *dtype_descr_as(enum dtype dtype, int type_num)
{
    if (dtype & (INT64 | UINT64) && fixed_width(type_num) == dtypes[dtype_index(dtype)].numpy)
        return PyArray_DescrFromType(type_num);
    return dtype_descr(dtype);
}

enum dtype dtype_promoted(PyArray_Descr *a, PyArray_Descr *b, int *type_num)
{
    PyArray_Descr *common = PyArray_PromoteTypes(a, b);
    enum dtype dtype = common ? dtype_of(common) : 0;

    *type_num = common ? common->type_num : NPY_NOTYPE;
    Py_XDECREF(common);
    return dtype;
}

bool dtype_casts(enum dtype from, enum dtype to)
{
    /* kinds in NumPy's order: each can be cast to the later ones */
    static const unsigned kinds[] = {BOOL, UNSIGNED, SIGNED, FLOATING, COMPLEX};
    int rank[2] = {0, 0};

    for (int i = 0; i < 5; i++) {
        rank[0] = from & kinds[i] ? i : rank[0];
        rank[1] = to & kinds[i] ? i : rank[1];
    }
    return rank[0] <= rank[1];
}
