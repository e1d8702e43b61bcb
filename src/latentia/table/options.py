"""Constructor arguments, validated once, on entry.

Every error names the argument, the value received and the values allowed.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Collection, Mapping
from numbers import Integral, Real
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from latentia.table.frames import on_host

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

#: The argument `random_state` of estimators.
RandomState: TypeAlias = int | np.random.RandomState | None

#: The argument `callback`: sees the steps of a training and the trials of a search, and ends it by
#: returning True.
Callback: TypeAlias = Callable[..., object]


def _numbers(name: str, values: ArrayLike, allowed: str) -> np.ndarray:
    """An array of real numbers."""
    try:
        found = on_host(values)
        if found.dtype.kind == "c":  # which NumPy would take for their real parts
            raise ValueError
        return found.astype(np.float64)
    except (TypeError, ValueError):
        shown = " ".join(repr(values).split())  # as long as a table has rows
        shown = shown if len(shown) <= 120 else f"{shown[:117]}..."
        raise ValueError(f"{name}={shown}; allowed are {allowed}.") from None


def check_choice(name: str, value: object, allowed: Collection[str], besides: str = "") -> None:
    """One of some strings; `besides` names what else is allowed, where others check it."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name}={value!r}; allowed are {', '.join(repr(a) for a in allowed)}{besides}.")


def check_bool(name: str, value: object) -> None:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name}={value!r}; allowed are True and False.")


def check_number(
    name: str,
    value: object,
    *,
    gt: float | None = None,
    ge: float | None = None,
    lt: float | None = None,
    integer: bool = False,
    besides: str = "",
) -> None:
    """A finite number within bounds; `besides` names what else is allowed and checked by others."""
    kind = Integral if integer else Real
    bounds = [
        f"> {gt}" if gt is not None else "",
        f">= {ge}" if ge is not None else "",
        f"< {lt}" if lt is not None else "",
    ]
    found = _finite(value) if isinstance(value, kind) and not isinstance(value, bool | np.bool_) else None
    fits = found is not None and (gt is None or found > gt) and (ge is None or found >= ge)
    if found is None or not fits or (lt is not None and found >= lt):
        noun = "an integer" if integer else "a finite number"
        within = " ".join(["", " and ".join(b for b in bounds if b)]).rstrip()
        raise ValueError(f"{name}={value!r}; allowed is {noun}{within}{besides}.")


def _finite(value: Real) -> float | None:
    """A number as a float; None for infinity and NaN."""
    try:
        found = float(value)
    except OverflowError:  # an integer that no float is as large as
        return None
    return found if math.isfinite(found) else None


#: Validates the value of the argument of that name.
Check = Callable[[str, object], None]


def number(gt: float | None = None, ge: float | None = None, lt: float | None = None) -> Check:
    """A check for finite numbers within bounds."""
    return lambda name, value: check_number(name, value, gt=gt, ge=ge, lt=lt)


def integer(ge: int | None = None) -> Check:
    """A check for integers, from `ge` on if given."""
    return lambda name, value: check_number(name, value, ge=ge, integer=True)


def choice(*allowed: str) -> Check:
    """A check for one of some strings."""
    return lambda name, value: check_choice(name, value, allowed)


def registered(registry: Mapping[str, object], *others: str) -> Check:
    """A check for the names of a registry, which may grow, and for some others."""
    return lambda name, value: check_choice(name, value, [*others, *registry])


def optional(check: Check) -> Check:
    """A check that lets None pass, and says so."""

    def check_unless_none(name: str, value: object) -> None:
        if value is None:
            return
        try:
            check(name, value)
        except ValueError as error:
            raise ValueError(f"{str(error).removesuffix('.')}, or None.") from None

    return check_unless_none


def check_options(estimator: BaseEstimator) -> None:
    """Validate constructor arguments by the tables `_CHECKS` of the estimator's classes."""
    for cls in reversed(type(estimator).__mro__):
        for name, check in vars(cls).get("_CHECKS", {}).items():
            check(name, getattr(estimator, name))


#: What other libraries call an argument, and what it is called here.
OTHER_NAMES = {
    "covariance_type": ("covariance",),
    "reg_covar": ("var_floor", "ridge"),
    "n_factors": ("n_latent",),
    "n_components": ("n_latent", "n_experts", "n_subclasses"),
    "class_prior": ("priors",),
    "prior": ("priors",),
    "class_weight": ("priors",),
    "seed": ("random_state",),
}


def name_hint(given: Collection[str], known: Collection[str]) -> str:
    """Which argument may be meant by a name that is none."""
    unknown = next((name for name in given if name.partition("__")[0] not in known), "")
    likely = [name for name in OTHER_NAMES.get(unknown, ()) if name in known]
    likely += difflib.get_close_matches(unknown, known, n=1)
    return f" Did you mean {likely[0]!r}?" if likely else ""


def random_generator(random_state: RandomState) -> np.random.Generator:
    """The generator of scikit-learn's `random_state`; a RandomState moves on by one draw."""
    return np.random.default_rng(legacy_generator(random_state).randint(2**31 - 1))


def legacy_generator(random_state: RandomState) -> np.random.RandomState:
    """scikit-learn's own generator, for what it splits."""
    try:
        return check_random_state(random_state)
    except (TypeError, ValueError):
        raise ValueError(
            f"random_state={random_state!r}; allowed are None, an integer from 0 to 2**32 - 1, and a RandomState."
        ) from None
