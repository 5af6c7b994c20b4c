"""The files that a sandboxed process sees. They import the standard library, NumPy and each other, nothing else."""
