"""A table in parts is the same table, whatever was done with it before it is asked."""

import gc
import pickle
import tempfile
from functools import partial
from itertools import product

import numpy as np
import pytest

from latentia.engine.parts import ChunkedSource, LocalParts
from latentia.engine.rows import ArraySource, MaskMissing
from latentia.scale.tables import OutputReader, output_moments


def in_parts(X, y, weight, cuts=(20, 21, 60)):
    """The parts that begin at these rows and at the first one."""
    bounds = [0, *cuts, len(X)]
    pieces = [
        ArraySource(X[a:b], y[a:b], None if weight is None else weight[a:b])
        for a, b in zip(bounds, bounds[1:], strict=False)
    ]
    parts = LocalParts.keep(pieces, fits_memory=True)
    return ChunkedSource(parts, [piece.label_totals for piece in pieces], X.shape[1], weight is not None)


class Doubled(MaskMissing):
    def __call__(self, X):
        return super().__call__(2 * X)


STEPS = {
    "as it is": lambda rows: rows,
    "a weight of unlabeled rows": lambda rows: rows.with_unlabeled_weight(0.3),
    "unlabeled rows without weight": lambda rows: rows.with_unlabeled_weight(0.0),
    "labeled rows alone": lambda rows: rows.labeled_only(),
    "rows dropped": lambda rows: rows.drop_rows(np.array([0, 3, 20, 44, 45, 46, 89])),
    "rows held out": lambda rows: rows.hold_out(0.4, np.random.default_rng(5))[0],
    "other columns": lambda rows: rows.with_preprocess(Doubled()),
}


def facts(rows):
    """All that can be asked of a source, as arrays."""

    def rng():
        return np.random.default_rng(2)

    def visit(chunk):
        weight = chunk.mean_weight()
        return {chunk.label: np.hstack([weight @ chunk.rows.values, weight.sum(), len(chunk.y)])}

    some = {
        "first": rows.first_rows(25),
        "spread": rows.spread_rows(25),
        "spread labeled": rows.spread_rows(25, labeled=True),
        "subset": rows.subset(np.array([33, 2, 88, 20, 21])),
        "by weight": rows.draw_rows(6, rng()),
        "alike": rows.draw_rows(6, rng(), by_weight=False),
        "held out": rows.hold_out(0.3, rng())[1],
    }
    found = {f"{name}, {part}": getattr(each, part) for name, each in some.items() for part in ("X", "y")}
    found |= {f"{name}, weight": each.all_rows().mean_weight() for name, each in some.items()}
    found |= {f"{name}, values": each.all_rows().rows.values for name, each in some.items()}
    sums = rows.sum_over_chunks(visit, 8, by_label=True)
    found |= {f"sums of {label}": sums[label] for label in sorted(sums)}
    found |= {"sums": rows.sum_over_chunks(visit, 8)[None]}
    return found | {
        "rows": (rows.n_rows, rows.n_features, rows.total_weight, rows.any_unlabeled),
        "labels": list(rows.label_totals),
        "totals": [tuple(total) for total in rows.label_totals.values()],
        "numbers": rows.draw_numbers({0: 3, 1: 2, 2: 4}, 7),
        "sample": rows.sample_numbers(40, rng()),
    }


@pytest.mark.parametrize("weighted", [False, True])
def test_whatever_was_done_to_a_table_in_parts_it_stays_the_same_as_the_whole(weighted):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 2)) + 7.0, rng.integers(-1, 3, 90)
    weight = rng.integers(0, 4, 90).astype(float) if weighted else None
    for first, then in product(["as it is", "a weight of unlabeled rows", "rows dropped"], STEPS):
        own, other = (
            facts(STEPS[then](STEPS[first](rows))) for rows in (ArraySource(X, y, weight), in_parts(X, y, weight))
        )
        for name, value in own.items():
            told = f"{name}, {first}, then {then}"
            np.testing.assert_allclose(
                np.asarray(other[name], float), np.asarray(value, float), rtol=1e-12, err_msg=told
            )


@pytest.mark.parametrize("mean", [0.0, 1e8])
@pytest.mark.parametrize("weighted", [False, True])
def test_moments_of_outputs_in_parts_are_those_of_the_whole(mean, weighted):
    """Also where the mean is large beside the deviation, and its square has no digits left for the variance."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=(90, 2)) * [1.0, 5.0] + mean
    weight = rng.uniform(size=90) if weighted else None
    for rows in (ArraySource(y, y, weight), in_parts(y, y, weight)):
        found_mean, variance = output_moments(rows)
        expected = np.average(y, axis=0, weights=weight)
        np.testing.assert_allclose(found_mean, expected, rtol=1e-12)
        np.testing.assert_allclose(variance, np.average((y - expected) ** 2, axis=0, weights=weight), rtol=1e-6)


def test_the_largest_output_is_that_of_all_parts():
    reader, parts = OutputReader(), [np.array([[1.0, -2.0]]), np.array([[np.nan, np.nan], [-3.0, 1.0]])]
    targets = reader.learn([reader.digest(y, len(y)) for y in parts])
    assert targets.largest.tolist() == [3.0, 2.0] and targets.n_outputs == 2


class Payload:
    def __reduce__(self):
        return open, ("ran", "w")


def test_working_copies_of_rows_are_plain_arrays(monkeypatch, tmp_path):
    """Whatever else lies in their place is not opened, and the folder goes with the last who needs it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    X, y = np.arange(6.0).reshape(3, 2), np.array([0, 1, -1])
    parts = LocalParts.keep([ArraySource(X, y), ArraySource(X + 1, y, np.ones(3))], fits_memory=False)
    doubled = parts.make(partial(ArraySource.with_preprocess, preprocess=Doubled()))
    np.testing.assert_array_equal(doubled.gather(ArraySource.all_rows)[1].rows.values, 2 * (X + 1))
    assert [part.weight is None for part in parts.gather(partial(ArraySource.first_rows, n_rows=3))] == [True, False]
    stored = sorted(tmp_path.glob("latentia-*/*"))
    assert len(stored) == 2 and np.load(stored[0], allow_pickle=False).tolist() == X.tolist()
    stored[1].write_bytes(pickle.dumps(Payload()))
    with pytest.raises(ValueError, match="pickled"):
        doubled.gather(ArraySource.all_rows)
    assert not (tmp_path / "ran").exists()
    del parts, doubled
    gc.collect()
    assert not list(tmp_path.glob("latentia-*"))
