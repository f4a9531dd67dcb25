"""Checks kernels: counts their memory accesses, finds their faults, reports both."""
