"""The user's own kernels: compiled, described, launched, on both devices."""
