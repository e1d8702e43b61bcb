"""Each scenario answers as it did when its answer was written down."""

from __future__ import annotations

import pytest

from .digest import differences
from .registry import ANSWERS, Scenario, answer, groups, stored

GROUPS = groups()
STORED = {name: stored(name) for name in GROUPS}


@pytest.mark.parametrize(
    "scenario,told",
    [
        pytest.param(s, STORED[g].get(n), id=f"{g}-{n}", marks=[pytest.mark.matrix] if s.is_slow else [])
        for g, group in GROUPS.items()
        for n, s in group.items()
    ],
)
def test_the_answer_is_the_one_written_down(scenario: Scenario, told: dict | None):
    assert told is not None, "no answer is written down: python -m tests.reference"
    lines = differences(told, answer(scenario), scenario.rtol)
    assert not lines, "\n".join(["python -m tests.reference writes these, if they are meant:", *lines[:20]])


def test_no_answer_is_left_behind():
    assert {path.stem for path in ANSWERS.glob("*.json")} == set(GROUPS)
    assert {name: sorted(STORED[name]) for name in GROUPS} == {name: sorted(GROUPS[name]) for name in GROUPS}
