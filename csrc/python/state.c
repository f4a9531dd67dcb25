/* The module's state. */
#define SMEMKIT_IMPORTS_NUMPY
#include "state.h"

struct module_state *state_of(PyObject *module)
{
    return PyModule_GetState(module);
}

int import_numpy(void)
{
    return PyArray_ImportNumPyAPI();
}
