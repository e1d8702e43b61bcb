"""Numerics: arrays of any library (NumPy, PyTorch, ...), and what the Array API standard lacks.

- `array_api`: the namespace of arrays, conversions between libraries and devices;
- `logspace`: logsumexp, log_softmax and softmax, one implementation each;
- `matmul`: the two products of every sweep, parameters at rows and weighted sums of rows;
- `linalg`, `packed_symmetric`: inverses of positive definite matrices, symmetric ones as vectors;
- `special`, `quasi_monte_carlo`, `threads`, `heap`: special functions, normal points, chunks on all
  cores, memory that is kept between them.

Knows nothing of models and imports nothing of this library.
Start with `array_api`.
"""
