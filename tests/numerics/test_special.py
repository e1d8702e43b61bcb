"""Special functions of arrays without any of their own are those of SciPy."""

import array_api_strict as xp
import numpy as np
import pytest
from scipy import special as scipy_special

from latentia.numerics import special
from latentia.numerics.array_api import to_numpy


@pytest.mark.parametrize("name, own", [("digamma", "psi"), ("log_gamma", "gammaln"), ("erfcx", "erfcx")])
def test_special_functions_of_any_library_are_those_of_scipy(name, own):
    x = np.concatenate([np.geomspace(1e-3, 1e4, 60), np.linspace(0.5, 3, 40)])
    found = to_numpy(getattr(special, name)(xp.asarray(x)))
    np.testing.assert_allclose(found, getattr(scipy_special, own)(x), rtol=1e-11, atol=1e-11)
