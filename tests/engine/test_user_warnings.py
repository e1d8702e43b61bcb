"""Warnings point at the user's line, whatever lies between."""

import pytest

from latentia.engine.messages import OURS, warn_at_caller

#: Functions as the package might have them.
CODE = """
from contextlib import contextmanager

def plain():
    warn_at_caller("so it is", RuntimeWarning)

@contextmanager
def context():
    plain()
    yield

def nested():
    with context():
        pass
"""


@pytest.mark.parametrize("folder", OURS, ids=["latentia", "scikit-learn"])
@pytest.mark.parametrize("name", ["plain", "context", "nested"])
def test_a_warning_points_at_the_nearest_line_from_outside(name, folder):
    made = {"warn_at_caller": warn_at_caller}
    exec(compile(CODE, f"{folder}/made_up.py", "exec"), made)
    with pytest.warns(RuntimeWarning, match="so it is") as told:
        if name == "context":
            with made[name]():
                pass
        else:
            made[name]()
    assert [warning.filename for warning in told] == [__file__]
