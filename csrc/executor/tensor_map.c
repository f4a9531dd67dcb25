/* Tensor maps: the rules for them, and what kernels may replace in them. (PTX ISA, "tensormap.replace"; CUDA
 * Driver API, "Tensor Map Object Management")
 *
 * A map of a kernel's making is checked where a copy uses it, as the hardware does: until then its fields need not
 * match each other.
 */
#define _GNU_SOURCE
#include "tensor_map.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "block.h"
#include "schedule.h"

enum { GRAIN = 16, MAX_BOX = 256, MAX_STEP = 8, MAP_GRAIN = 64 };
enum { F16 = 6, F32 = 7, F64 = 8, BF16 = 9, TF32 = 11 };
static const uint64_t STRIDE_END = UINT64_C(1) << 40;

/* Bytes of an element of each of the driver's types; 0: the executor does not have it */
static const uint8_t element_bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 0, 4};

/* The driver's number of each of the types of tensormap.replace, and a name where the executor lacks it */
static const struct {
    const char *lacking;
    uint8_t type;
} types[] = {{NULL, 0},        {NULL, 1},     {NULL, 2},         {NULL, 3},
             {NULL, 4},        {NULL, 5},     {NULL, F16},       {NULL, F32},
             {".f32.ftz", 0},  {NULL, F64},   {NULL, BF16},      {NULL, TF32},
             {".tf32.ftz", 0}, {".b4x16", 0}, {".b4x16_p64", 0}, {".b6x16_p32 or .b6p2x16", 0}};

unsigned smemkit_tensor_element_bytes(unsigned type)
{
    return type < sizeof element_bytes ? element_bytes[type] : 0;
}

static bool has_nan(unsigned type)
{
    return type == F16 || type == F32 || type == F64 || type == BF16 || type == TF32;
}

static bool refusal(char *why, size_t length, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(why, length, format, arguments);
    va_end(arguments);
    return false;
}

int smemkit_tensor_is_valid(const struct smemkit_tensor *tensor, char *why, size_t length)
{
    const uint64_t row = (uint64_t)tensor->box[0] * tensor->element;

    if ((uintptr_t)tensor->address % GRAIN)
        return refusal(why, length, "of an address that is not a multiple of 16");
    if (!tensor->rank || tensor->rank > SMEMKIT_TENSOR_RANK)
        return refusal(why, length, "of %u dimensions, not of 1 to 5", tensor->rank);
    if (!tensor->element || tensor->element != smemkit_tensor_element_bytes(tensor->type))
        return refusal(why, length, "of elements of an unknown type");
    for (unsigned i = 0; i < tensor->rank; i++) {
        if (!tensor->shape[i])
            return refusal(why, length, "of no elements in dimension %u", i);
        if (!tensor->box[i] || tensor->box[i] > MAX_BOX)
            return refusal(why, length, "with a box of %u elements in dimension %u, not of 1 to 256",
                           tensor->box[i], i);
        if (!tensor->steps[i] || tensor->steps[i] > MAX_STEP || (!i && tensor->steps[i] != 1))
            return refusal(why, length, "with an element stride of %u in dimension %u", tensor->steps[i], i);
        if (i && (tensor->strides[i] % GRAIN || tensor->strides[i] >= STRIDE_END))
            return refusal(why, length,
                           "with a stride of %" PRIu64 " bytes in dimension %u, which is not a multiple of 16 "
                           "below 2^40",
                           tensor->strides[i], i);
    }
    if (row % GRAIN)
        return refusal(why, length, "with rows of %" PRIu64 " bytes in its box, not of a multiple of 16", row);
    if (tensor->swizzle > 3)
        return refusal(why, length, "with an unknown swizzle");
    if (tensor->swizzle && row > (uint64_t)GRAIN << tensor->swizzle)
        return refusal(why, length, "with rows of %" PRIu64 " bytes in its box, where the swizzle has %u", row,
                       GRAIN << tensor->swizzle);
    if (tensor->nan && !has_nan(tensor->type))
        return refusal(why, length, "whose fill is NaN, which its elements do not have");
    return true;
}

void tensor_fill(const struct smemkit_tensor *tensor, char *to, size_t bytes)
{
    enum { LOW = 0xF7, HIGH = 0x7F }; /* every 16 bits of a NaN of any type are 0x7FF7 (measured on an H100) */

    for (size_t at = 0; at < bytes; at++)
        to[at] = (char)(!tensor->nan ? 0 : at % 2 ? HIGH : LOW);
}

/* The TMA rounds floats to TF32, which has 10 bits of fraction: to nearest, ties to even; infinity and NaN stay.
 * (Measured by others on a GPU of sm_120: triton-lang/triton, pull request 11751) */
void tensor_round(char *to, const char *from, size_t bytes)
{
    enum { CUT = 13, EXPONENT = 0x7f800000 };

    for (size_t at = 0; at < bytes; at += sizeof(uint32_t)) {
        uint32_t x;

        memcpy(&x, from + at, sizeof x);
        if ((x & EXPONENT) != EXPONENT)
            x = (x + (1u << (CUT - 1)) - 1 + (x >> CUT & 1)) >> CUT << CUT;
        memcpy(to + at, &x, sizeof x);
    }
}

/* ---- replacing ---- */

static __attribute__((noreturn)) void fail(enum fault_kind kind, const char *instruction, const char *file,
                                           int line, const char *format, ...)
{
    char what[400];
    int length = snprintf(what, sizeof what, "%s ", instruction);
    va_list arguments;

    va_start(arguments, format);
    length += vsnprintf(what + length, sizeof what - (size_t)length, format, arguments);
    va_end(arguments);
    if (length < (int)sizeof what)
        snprintf(what + length, sizeof what - (size_t)length, " at %.200s:%d", file, line);
    worker_fail(smemkit_worker, kind, what, file, line);
}

static bool is_zero(const void *map)
{
    static const char zeros[SMEMKIT_TENSOR_MAP_BYTES];

    return memcmp(map, zeros, sizeof zeros) == 0;
}

static struct smemkit_tensor *checked_map(void *map, const char *instruction, const char *file, int line)
{
    struct smemkit_tensor *tensor = map;

    if ((uintptr_t)map % MAP_GRAIN)
        fail(KIND_MISALIGNED, instruction, file, line, "at an address that is not a multiple of %d", MAP_GRAIN);
    if (is_zero(map)) /* a kernel may make a map from nothing, if it sets every field */
        tensor->magic = SMEMKIT_TENSOR_MAGIC;
    if (tensor->magic != SMEMKIT_TENSOR_MAGIC)
        fail(KIND_TRAP, instruction, file, line, "of 128 bytes that are neither a tensor map nor zeros");
    return tensor;
}

static void replace_type(struct smemkit_tensor *tensor, uint64_t value, const char *file, int line)
{
    const char *const instruction = "tensormap.replace.tile.elemtype";

    if (value >= sizeof types / sizeof *types)
        fail(KIND_TRAP, instruction, file, line, "by %" PRIu64 ", which is no type", value);
    if (types[value].lacking)
        fail(KIND_TRAP, instruction, file, line, "by %s, which the CPU device does not have",
             types[value].lacking);
    tensor->type = types[value].type;
    tensor->element = element_bytes[tensor->type];
    tensor->strides[0] = tensor->element;
}

static const struct {
    const char *instruction;
    uint64_t end; /* of the values */
    unsigned dimensions;
} fields[] = {
    [SMEMKIT_GLOBAL_ADDRESS] = {"tensormap.replace.tile.global_address", UINT64_MAX, 1},
    [SMEMKIT_RANK] = {"tensormap.replace.tile.rank", SMEMKIT_TENSOR_RANK, 1},
    [SMEMKIT_BOX_DIM] = {"tensormap.replace.tile.box_dim", MAX_BOX + 1, SMEMKIT_TENSOR_RANK},
    [SMEMKIT_GLOBAL_DIM] = {"tensormap.replace.tile.global_dim", UINT64_C(1) << 32, SMEMKIT_TENSOR_RANK},
    [SMEMKIT_GLOBAL_STRIDE] = {"tensormap.replace.tile.global_stride", UINT64_C(1) << 40, SMEMKIT_TENSOR_RANK - 1},
    [SMEMKIT_ELEMENT_STRIDE] = {"tensormap.replace.tile.element_stride", MAX_STEP + 1, SMEMKIT_TENSOR_RANK},
    [SMEMKIT_ELEMTYPE] = {"tensormap.replace.tile.elemtype", UINT64_MAX, 1},
    [SMEMKIT_INTERLEAVE_LAYOUT] = {"tensormap.replace.tile.interleave_layout", 1, 1},
    [SMEMKIT_SWIZZLE_MODE] = {"tensormap.replace.tile.swizzle_mode", 4, 1},
    [SMEMKIT_FILL_MODE] = {"tensormap.replace.tile.fill_mode", 2, 1},
};

void smemkit_replace_in_tensor_map(enum smemkit_tensor_field field, void *map, unsigned dimension, uint64_t value,
                                   const char *file, int line)
{
    const char *const instruction = fields[field].instruction;
    struct smemkit_tensor *tensor = checked_map(map, instruction, file, line);

    if (dimension >= fields[field].dimensions)
        fail(KIND_TRAP, instruction, file, line, "of dimension %u: expected 0 to %u", dimension,
             fields[field].dimensions - 1);
    if (value >= fields[field].end)
        fail(KIND_TRAP, instruction, file, line, "by %" PRIu64 ": the CPU device supports values below %" PRIu64,
             value, fields[field].end);
    switch (field) {
    case SMEMKIT_GLOBAL_ADDRESS:
        tensor->address = (char *)(uintptr_t)value;
        break;
    case SMEMKIT_RANK: /* counts from zero */
        tensor->rank = (uint8_t)(value + 1);
        break;
    case SMEMKIT_BOX_DIM:
        tensor->box[dimension] = (uint16_t)value;
        break;
    case SMEMKIT_GLOBAL_DIM:
        tensor->shape[dimension] = (uint32_t)value;
        break;
    case SMEMKIT_GLOBAL_STRIDE: /* the first dimension has none */
        tensor->strides[dimension + 1] = value;
        break;
    case SMEMKIT_ELEMENT_STRIDE:
        tensor->steps[dimension] = (uint8_t)value;
        break;
    case SMEMKIT_ELEMTYPE:
        replace_type(tensor, value, file, line);
        break;
    case SMEMKIT_SWIZZLE_MODE:
        tensor->swizzle = (uint8_t)value;
        break;
    case SMEMKIT_FILL_MODE:
        tensor->nan = (uint8_t)value;
        break;
    case SMEMKIT_INTERLEAVE_LAYOUT:
        break;
    }
}

/* ---- copying ---- */

static NOINLINE void copy_map(struct smemkit_warp_call *const *lanes)
{
    const struct smemkit_tensor_map_copy *copy = (const struct smemkit_tensor_map_copy *)lanes[0];

    memcpy(copy->to, copy->from, SMEMKIT_TENSOR_MAP_BYTES);
}

void smemkit_copy_tensor_map(struct smemkit_tensor_map_copy *copy, const char *file, int line)
{
    const char *const instruction = "tensormap.cp_fenceproxy";

    checked_map((void *)copy->from, instruction, file, line);
    if (copy->bytes != SMEMKIT_TENSOR_MAP_BYTES)
        fail(KIND_TRAP, instruction, file, line, "of %u bytes, not of 128", copy->bytes);
    if ((uintptr_t)copy->to % MAP_GRAIN)
        fail(KIND_MISALIGNED, instruction, file, line, "to an address that is not a multiple of %d", MAP_GRAIN);
    copy->call = (struct smemkit_warp_call){instruction, copy_map};
    smemkit_warp_call(&copy->call, file, line);
}
