"""Quality that can be computed: small pure functions, each by a definition from the literature.

Each gives the plain number of the criterion of its name: seconds, metres, hertz, or percent. What cannot be computed (a span of
nothing, no checks made) is an InvalidInput.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import date
from math import fsum, isfinite, pi, sqrt
from typing import Final

from hanse.filters import temporal_value
from hanse.model.errors import InvalidInput

_SECOND_NS: Final = 1_000_000_000
_EPOCH_NS: Final = date(1970, 1, 1).toordinal() * 86_400 * _SECOND_NS


def seconds_of(moment: str) -> float:
    """A date and time (RFC 3339) in seconds since 1970."""
    found = temporal_value(moment)
    if found is None or found[0] != "instant":
        raise InvalidInput(f"{moment[:60]!r} is not a time; write it like 2026-01-31T12:00:00Z")
    return (found[1] - _EPOCH_NS) / _SECOND_NS


def freshness(observed_at: str | float, now: float) -> float:
    """The age in seconds; what is observed in the future, by another clock, is of this moment.

    Age of context information: Manzoor, Truong, Dustdar, "On the evaluation of quality of context", EuroSSC 2008.
    """
    observed = seconds_of(observed_at) if isinstance(observed_at, str) else _finite(observed_at, "the time of observation")
    return max(0.0, _finite(_finite(now, "the time") - observed, "the age"))


def timeliness(age: float, lifetime: float) -> float:
    """The share of the lifetime that is left, in percent.

    Up-to-dateness in Manzoor et al. 2008; timeliness with a sensitivity of one in Ballou, Wang, Pazer, Tayi, "Modeling
    information manufacturing systems to determine information product quality", Management Science 44(4), 1998.
    """
    return _percent(1 - _finite(age, "the age") / _positive(lifetime, "the lifetime"))


def completeness(present: Collection[str], expected: Collection[str]) -> float:
    """How many of the expected parts are there, in percent; all of them, where nothing is expected.

    Completeness in Manzoor et al. 2008, with equal weights; column completeness in Pipino, Lee, Wang, "Data quality assessment",
    CACM 45(4), 2002.
    """
    wanted = frozenset(expected)
    return _percent(len(wanted.intersection(present)) / len(wanted)) if wanted else 100.0


def accuracy(value: float, reference: float, span: float) -> float:
    """100 less the deviation from a reference, in percent of the span of what can be measured.

    Accuracy of one result, its closeness to an accepted reference value (ISO 5725-1), as a share of full scale.
    """
    deviation = abs(_finite(value, "the value") - _finite(reference, "the reference"))
    return _percent(1 - deviation / _positive(span, "the span"))


def correctness(right: int, checked: int) -> float:
    """The share of checked values that were right, in percent.

    Probability of correctness in Buchholz, Küpper, Schiffers, "Quality of context: what it is and why we need it", HP-OVUA 2003,
    estimated by its relative frequency; free-of-error in Pipino et al. 2002.
    """
    if not 0 <= right <= checked or checked == 0:
        raise InvalidInput(f"{right} of {checked} values cannot have been right; check at least one")
    return _percent(right / checked)


def precision(repeated: Sequence[float], span: float) -> float:
    """100 less the standard deviation of repeated measurements, in percent of the span of what can be measured.

    Repeatability standard deviation (ISO 5725-2), as a share of full scale.
    """
    if len(repeated) < 2:
        raise InvalidInput("precision shows in repeated measurements; give at least two")
    try:
        mean = fsum(_finite(value, "a measurement") for value in repeated) / len(repeated)
        variance = fsum((value - mean) ** 2 for value in repeated) / (len(repeated) - 1)
    except OverflowError as error:
        raise InvalidInput("the measurements are too large to compute with; take a larger unit") from error
    return _percent(1 - sqrt(variance) / _positive(span, "the span"))


def consistency(rules: Iterable[bool]) -> float:
    """The share of the rules that hold, in percent; all of them, where there is none.

    Consistency in Pipino et al. 2002: one less the ratio of violations to checks.
    """
    held = [bool(rule) for rule in rules]
    return _percent(sum(held) / len(held)) if held else 100.0


def refresh_rate(times: Sequence[str | float]) -> float:
    """How many values a second came, from the times of at least two of them, in any order.

    One over what is the refresh rate, in seconds, in Marie et al., "From ambient sensing to IoT-based context computing: an open
    framework for end to end QoC management", Sensors 15(6), 2015.
    """
    moments = sorted(seconds_of(time) if isinstance(time, str) else _finite(time, "a time") for time in times)
    if len(moments) < 2 or moments[0] == moments[-1]:
        raise InvalidInput("a rate shows in values at different times; give at least two")
    return _finite((len(moments) - 1) / (moments[-1] - moments[0]), "the rate")


def spatial_resolution(area: float) -> float:
    """The radius in metres of the circle that is as large as the area, in square metres, for which a value stands.

    Spatial resolution in Sheikh, Wegdam, van Sinderen, "Middleware support for quality of context in pervasive context-aware
    systems", PerCom Workshops 2007.
    """
    if not isfinite(area) or area < 0:
        raise InvalidInput(f"an area is 0 or more square metres, not {area}")
    return sqrt(area / pi)


def trust(kept: int, broken: int) -> float:
    """The trust that a source has earned by promises kept and broken, in percent; 50 for an unknown one.

    The beta reputation system: Jøsang, Ismail, 15th Bled Electronic Commerce Conference, 2002.
    """
    if kept < 0 or broken < 0:
        raise InvalidInput(f"{kept} kept and {broken} broken promises cannot be; count from 0")
    return _percent((kept + 1) / (kept + broken + 2))


def _percent(share: float) -> float:
    return 100.0 * min(1.0, max(0.0, share))


def _finite(value: float, what: str) -> float:
    if not isfinite(value):
        raise InvalidInput(f"{what} is {value}; give a number")
    return value


def _positive(value: float, what: str) -> float:
    if not isfinite(value) or value <= 0:
        raise InvalidInput(f"{what} is {value}; give a number above 0")
    return value
