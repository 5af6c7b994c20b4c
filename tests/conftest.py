"""One BLAS thread, set before NumPy is imported: small matmuls are slower and noisier on two."""

import os

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
