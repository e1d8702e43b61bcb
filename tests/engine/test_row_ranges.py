"""Laws of how a pass is cut: every row once and in order, chunks and tasks of bounded size."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from latentia.engine.rows import join_ranges, label_ranges, pack_tasks, split_ranges

labels = st.lists(st.integers(-1, 3), min_size=1, max_size=60).map(lambda codes: np.sort(np.array(codes)))


@given(labels, st.integers(1, 20), st.booleans())
def test_ranges_cover_the_rows_once_and_in_order(y, max_rows, by_label):
    ranges = split_ranges(label_ranges(y), max_rows, by_label)
    assert np.concatenate([np.arange(r.start, r.stop) for r in ranges]).tolist() == list(range(y.size))
    assert all(0 < r.stop - r.start <= max_rows for r in ranges)
    assert all(set(y[r.as_slice]) == {r.label} if by_label else r.label is None for r in ranges)
    within = [[r.stop - r.start for r in ranges if r.label == label] for label in {r.label for r in ranges}]
    assert all(max(sizes) - min(sizes) <= 1 for sizes in within)  # of a label, all chunks are of the same size


@given(labels, st.integers(1, 20), st.integers(1, 7))
def test_tasks_hold_the_ranges_in_order_and_no_more_rows_than_a_chunk(y, max_rows, max_tasks):
    ranges = split_ranges(label_ranges(y), max_rows, by_label=True)
    tasks = list(join_ranges(ranges, max_rows))
    assert [r for task in tasks for r in task] == ranges
    rows = [sum(r.stop - r.start for r in task) for task in tasks]
    assert max(rows) <= max_rows
    following = [task[0].stop - task[0].start for task in tasks[1:]]
    assert all(a + b > max_rows for a, b in zip(rows, following, strict=False))  # as few tasks as fit
    packed = pack_tasks(tasks, max_tasks)
    assert len(packed) <= max_tasks and [r for task in packed for r in task] == ranges
