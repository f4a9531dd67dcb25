/* The 16-bit and 8-bit floats for describe.h, where the source has included their headers. This text comes after
 * the source: its identifiers must not be names that a user defines as macros. */
#ifndef SMEMKIT_DESCRIBE_HALF_H
#define SMEMKIT_DESCRIBE_HALF_H

#if defined(__CUDA_FP16_H__) || defined(SMEMKIT_CUDA_FP16_H)
template <>
struct smemkit::smemkit_element_of<__half> : smemkit::smemkit_scalar<'f', 2, 1> {
};
template <>
struct smemkit::smemkit_element_of<__half2> : smemkit::smemkit_scalar<'f', 2, 2> {
};
#endif
#if defined(__CUDA_BF16_H__) || defined(SMEMKIT_CUDA_BF16_H)
template <>
struct smemkit::smemkit_element_of<__nv_bfloat16> : smemkit::smemkit_scalar<'E', 2, 1> {
};
template <>
struct smemkit::smemkit_element_of<__nv_bfloat162> : smemkit::smemkit_scalar<'E', 2, 2> {
};
#endif

#if defined(__CUDA_FP8_H__) || defined(SMEMKIT_CUDA_FP8_H)
template <>
struct smemkit::smemkit_element_of<__nv_fp8_e4m3> : smemkit::smemkit_scalar<'3', 1, 1> {
};
template <>
struct smemkit::smemkit_element_of<__nv_fp8x2_e4m3> : smemkit::smemkit_scalar<'3', 1, 2> {
};
template <>
struct smemkit::smemkit_element_of<__nv_fp8x4_e4m3> : smemkit::smemkit_scalar<'3', 1, 4> {
};
template <>
struct smemkit::smemkit_element_of<__nv_fp8_e5m2> : smemkit::smemkit_scalar<'2', 1, 1> {
};
template <>
struct smemkit::smemkit_element_of<__nv_fp8x2_e5m2> : smemkit::smemkit_scalar<'2', 1, 2> {
};
template <>
struct smemkit::smemkit_element_of<__nv_fp8x4_e5m2> : smemkit::smemkit_scalar<'2', 1, 4> {
};
#endif

#endif
