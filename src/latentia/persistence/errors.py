"""What is wrong with a model file."""

from __future__ import annotations


class ModelFileError(ValueError):
    """A file that holds no model which this version can read; says which file, and why."""


class Damage(Exception):
    """A reason to refuse a file, on its way to where the file's name is known."""
