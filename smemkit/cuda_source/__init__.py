"""Reads CUDA C++ as text: extracts device code, and rewrites it for the CPU device's compiler."""
