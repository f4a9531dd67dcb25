"""The kernel table, and which kernels a call would launch."""
