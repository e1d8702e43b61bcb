"""Memory that stays with a process while it computes: fewer pages are cleared, and what was told is restored."""

import os
import subprocess
import sys

import pytest

from latentia.arrays import parallel as heap

COUNT = """
import resource, runpy, sys
import numpy as np
kept_heap = runpy.run_path(sys.argv[1])["kept_heap"]  # alone: the package takes seconds to import

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        np.ones(2**17)  # a MiB, which is dropped at once
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

first = faults()
with kept_heap():
    faults()
    with kept_heap():
        pass
    inside = faults()
print(first, inside, faults())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a setting of the C library of Linux")
def test_pages_are_kept_for_the_next_array():
    def counts(**setting):
        found = subprocess.check_output([sys.executable, "-c", COUNT, heap.__file__], env={**os.environ, **setting})
        return [int(number) for number in found.split()]

    first, inside, after = counts(MALLOC_TRIM_THRESHOLD_="65536")
    if first < 5000:
        pytest.skip("this C library keeps memory anyway")
    assert inside < first / 10 and after > first / 2
