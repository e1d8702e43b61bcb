"""Tolerances of the laws that run on every family."""

#: A step of EM may lose this share of the value to rounding.
MAX_RELATIVE_DECREASE = 1e-9
#: Two ways to compute the same thing in float64, relative and absolute.
EQUAL = {"rtol": 1e-9, "atol": 1e-9}
#: Densities and scores beside brute force.
BRUTE_FORCE = {"rtol": 1e-10, "atol": 1e-10}
#: Central differences of step STEP beside an analytic gradient, relative to the largest entry.
GRADIENT = 2e-6
STEP = 1e-5
#: The same in another namespace, or in float32 beside float64.
NAMESPACE = {"rtol": 1e-8, "atol": 1e-8}
SINGLE = {"rtol": 2e-3, "atol": 2e-3}
#: Moments of samples beside the model's, in standard errors.
SAMPLING = 5.0
#: What two ways to the same fit say of rows, where both end at one place.
REFIT = {"rtol": 2e-6, "atol": 5e-6}
#: Probabilities from a posterior that sums over a few points, beside those from other points.
SUPPORT_POINTS = {"atol": 1e-2}
