"""How many random problems a law is tried on: some in every run, many more where time is no matter."""

import pytest

SEEDS = [
    pytest.param(range(30), id="some"),
    pytest.param(range(30, 170), id="many", marks=pytest.mark.matrix),
]
