"""Arrays of any library (NumPy, PyTorch, ...), and what the Array API standard lacks.

- `namespace`: the namespace of arrays, conversions between libraries and devices, sums of
  logarithms, special functions;
- `linalg`: inverses of positive definite matrices, symmetric matrices as vectors, and the two
  products of every sweep: parameters at rows, weighted sums of rows; many small systems at once,
  quasi-random normal points;
- `parallel`: chunks on all cores.

Knows nothing of models and imports nothing of this library. Start with `namespace`.
"""
