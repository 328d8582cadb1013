"""A constraint on an observation in XML and a requirement on the quality that is read of it agree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.matching import MatchIndex, satisfies
from hanse.model import Notification, Subscription
from hanse.quality import default_registry
from hanse.quality.indicators import quality
from hanse.quality.observation import Observation
from hanse.quality.xml_form import quality_of_xml, to_xml

REGISTRY = default_registry()
CRITERIA = sorted(name for name, criterion in REGISTRY.by_name.items() if not criterion.rule)

# as many digits as people write: beyond fifteen of them, XPath's numbers are rounded otherwise than ours
numbers = st.integers(0, 100_000).map(lambda thousandths: thousandths / 1000) | st.sampled_from(
    [0.0, 40.0, 39.999, 40.001, 100.0]
)
qualities = st.dictionaries(st.sampled_from(CRITERIA), numbers, max_size=4)
wants = st.tuples(st.sampled_from(CRITERIA), st.sampled_from([">=", "<=", ">", "<", "=="]), numbers)


def xpath(name: str, condition: str = "") -> str:
    criterion = REGISTRY.by_name[name]
    kind = f"qoccriterion[@id='{criterion.criterion_id}']/qocmetricdefinition[@id='{criterion.definition.id}']"
    return f"//qocindicator[@id='{criterion.id}' and {kind}{condition}]"


def observed(values: dict[str, float]) -> Notification:
    payload = to_xml(Observation(entity="urn:ngsi-ld:Sensor:1", observable="#NO2", value=7, quality=quality(values)))
    return Notification(
        id="n", publisher="p", payload=payload, media_type="application/xml", quality=quality_of_xml(payload, REGISTRY)
    )


@pytest.mark.parametrize("few_max", [0, 32], ids=["columns", "one by one"])
@given(values=qualities, wanted=st.lists(wants, min_size=1, max_size=3))
def test_filters_on_both_forms_agree(few_max: int, values: dict[str, float], wanted: list[tuple[str, str, float]]) -> None:
    notification = observed(values)
    by_xpath = tuple(
        xpath(name, f" and qocmetricvalue[@value {operator.replace('==', '=')} {number:g}]") for name, operator, number in wanted
    )
    subscriptions = [
        Subscription(id="xpath", client="c", xpath=by_xpath),
        Subscription(
            id="attribute", client="c", quality=";".join(f"NO2.{name}{sign}{number:g}" for name, sign, number in wanted)
        ),
        Subscription(id="whole", client="c", quality=";".join(f"{name}{sign}{number:g}" for name, sign, number in wanted)),
    ]
    index = MatchIndex(few_max)
    for subscription in subscriptions:
        index.add(subscription)
    answers = {satisfies(subscription, notification, None, None) for subscription in subscriptions}
    assert len(answers) == 1
    assert len(index.match(notification, None)) == 3 * answers.pop()


@given(qualities, st.sampled_from(CRITERIA))
def test_presence_is_the_same_in_both_forms(values: dict[str, float], name: str) -> None:
    notification = observed(values)
    for subscription in (
        Subscription(id="xpath", client="c", xpath=(xpath(name),)),
        Subscription(id="quality", client="c", quality=f"NO2.{name}"),
    ):
        assert satisfies(subscription, notification, None, None) == (name in values)
