r"""Which of several structures to keep: the best penalized one among those that the data do not
refute.

Let :math:`\ell` be the objective that EM reaches with a structure of k free parameters, on N rows.
The choice maximizes :math:`\ell - \tfrac12 k\ln N` (Schwarz 1978), which finds a true sparse
structure as rows become many. Alone it would give up too much where there is none: it may trade a
hundred parameters that are each worth a little for a fit that is much worse. So a structure with r
parameters less than the largest one is out if twice its loss against that is above the :math:`1 -
\alpha` quantile of :math:`\chi^2_r`, as in a likelihood-ratio test. For large r this allows a loss
of little more than r/2, which is what superfluous parameters gain by chance.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import chdtri

#: Level of the likelihood-ratio test.
ALPHA = 0.01


def penalized(value: np.ndarray, size: np.ndarray, total_weight: float) -> np.ndarray:
    """Objectives less half the log of the number of rows for each free parameter.

    Up to a constant that the structures share.
    """
    return value - 0.5 * math.log(max(total_weight, 1.0)) * (size - size.max(initial=0.0))


def best_structure(value: np.ndarray, size: np.ndarray, total_weight: float) -> int:
    """The place of the best of several structures, by objective and number of free parameters.

    Of structures of one size the one with the highest objective is the best.
    """
    fewer = size.max() - size
    loss = value[fewer == 0].max() - value
    refuted = (fewer > 0) & (2 * loss > chdtri(np.maximum(fewer, 1.0), ALPHA))
    return int(np.argmax(np.where(refuted, -np.inf, penalized(value, size, total_weight))))
