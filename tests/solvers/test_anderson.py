"""Anderson acceleration: exact on linear maps, and each restart uses what it remembers."""

import numpy as np

from latentia.solvers.em import AndersonHistory, anderson_update


def test_a_linear_map_is_solved_once_its_differences_span_the_space(rng):
    A, b = 0.5 * np.eye(3) + 0.1 * rng.normal(size=(3, 3)), rng.normal(size=3)
    history, x = AndersonHistory(5, 1), np.zeros((1, 3))
    for _ in range(4):
        x = history.extrapolate(x, x @ A.T + b)
    np.testing.assert_allclose(x[0], np.linalg.solve(np.eye(3) - A, b), rtol=1e-5)


def test_a_restart_that_forgot_uses_its_newest_points_alone(rng):
    points, residuals = ([rng.normal(size=(2, 4)) for _ in range(4)] for _ in range(2))
    both = anderson_update(points, residuals, np.array([1, 3]), step=0.7)
    newest = anderson_update(points[-2:], residuals[-2:], np.array([1, 1]), step=0.7)
    every = anderson_update(points, residuals, np.array([3, 3]), step=0.7)
    np.testing.assert_allclose(both[0], newest[0], rtol=1e-6)
    np.testing.assert_allclose(both[1], every[1], rtol=1e-9)
    assert np.abs(newest[0] - every[0]).max() > 1e-3


def test_what_is_forgotten_leads_nowhere(rng):
    """A history goes on from its newest point, or anew, as one that has never seen the points before."""
    points, residuals = rng.normal(size=(2, 5, 2, 4))

    def history(first, last):
        found = AndersonHistory(3, 2)
        for k in range(first, last):
            led_to = found.extrapolate(points[k], points[k] + residuals[k])
        return found, led_to

    (kept, _), (anew, _) = history(0, 3), history(0, 3)
    kept.forget_all_but_newest()
    anew.forget(np.array([False, True]))
    for k in (3, 4):
        of_kept, of_anew = (each.extrapolate(points[k], points[k] + residuals[k]) for each in (kept, anew))
    np.testing.assert_allclose(of_kept, history(2, 5)[1], rtol=1e-6)
    np.testing.assert_allclose(of_anew[0], history(0, 5)[1][0], rtol=1e-6)
    np.testing.assert_allclose(of_anew[1], history(3, 5)[1][1], rtol=1e-6)
