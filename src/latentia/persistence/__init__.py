"""Models in files that are safe to open: plain arrays and JSON, no pickle, no code.

- `files`: `save_model` and `load`, the manifest between them, and the zip archive with all that is
  checked before anything is read from it;
- `format`: the values of a model as a JSON tree and a list of arrays, and back;
- `stored_classes`: which classes a file may name.

`docs/saving.md` describes the format.
"""
