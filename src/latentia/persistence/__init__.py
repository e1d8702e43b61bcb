"""Models in files that are safe to open: plain arrays and JSON, no pickle, no code.

- `model_files`: `save_model` and `load`, and the manifest between them;
- `encoding`, `decoding`: the values of a model as a JSON tree and a list of arrays, and back;
- `stored_classes`: which classes a file may name; `package_classes`: their objects as states;
- `array_members`: an array as a member of the archive;
- `archive`: the zip file, and all that is checked before anything is read from it.

`docs/saving.md` describes the format.
"""
