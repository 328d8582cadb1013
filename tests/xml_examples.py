"""XML payloads with indicators of quality and constraints on them, as hypothesis draws them: few names, so that they meet."""

from __future__ import annotations

from hypothesis import strategies as st

LISTING_1 = (
    "//observable[uri='#pollution' and entity[uri='bordeaux://thiersave./sensors/45/']]",
    "//qocindicator[@id='10' and qoccriterion[@id='[10.1]']/qocmetricdefinition[@id='10.1']]",
    "//qocindicator[@id='10' and qoccriterion[@id='[10.1]']/qocmetricdefinition[@id='10.1'] and qocmetricvalue[@value >= '40']]",
)
OBSERVATION = """<?xml version="1.0" encoding="UTF-8"?>
<observation date="2014-06-01T12:00:00Z" value="112">
  <observable><uri>#pollution</uri><entity><uri>bordeaux://thiersave./sensors/45/</uri></entity></observable>
  <qocindicator id="10" name="PrecisionQoCIndicator">
    <qoccriterion id="[10.1]"><qocmetricdefinition id="10.1"/></qoccriterion>
    <qocmetricvalue id="1" value="45" date="2014-06-01T12:00:00Z"/>
  </qocindicator>
</observation>"""

ids = st.sampled_from(["10", "15"])
values = st.sampled_from(["40", "39.9", "40.0", "-1", "", "much", " 41 ", "4e1", ".5", "40.00000000000000001"])


def _attributes(*names: str) -> st.SearchStrategy[str]:
    drawn = [st.builds(f" {name}='{{}}'".format, ids) | st.just("") for name in names]
    return st.tuples(*drawn).map("".join)


_definitions = st.builds("<qocmetricdefinition{}/>".format, _attributes("id", "name"))
_criteria = st.builds(
    "<qoccriterion{}>{}</qoccriterion>".format, _attributes("id", "name"), st.lists(_definitions, max_size=2).map("".join)
)
_values = st.builds("<qocmetricvalue value='{}'/>".format, values) | st.sampled_from(
    [
        "<qocmetricvalue/>",
        "<!-- - -->",
        "<other><qocmetricvalue value='50'/></other>",
        "<x:qocmetricvalue xmlns:x='u:x' value='50'/>",
    ]
)
_indicators = st.builds(
    "<qocindicator{}>{}{}</qocindicator>".format,
    _attributes("id", "name"),
    st.lists(_criteria, max_size=2).map("".join),
    st.lists(_values, max_size=2).map("".join),
)
_simple = st.builds(
    "<qocindicator id='{}'><qoccriterion id='10'><qocmetricdefinition id='15'/></qoccriterion>"
    "<qocmetricvalue value='{}'/></qocindicator>".format,
    ids,
    values,
)
documents = st.builds("<o state='{}'>{}</o>".format, ids, st.lists(_simple | _indicators, max_size=3).map("".join))

_fields = st.builds("@{}='{}'".format, st.sampled_from(["id", "name"]), ids)
_operators = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
_constants = values.map("'{}'".format) | st.sampled_from(["40", "39.9", "-1", ".5"])
_comparisons = st.builds("@value{}{}".format, _operators, _constants)
_brackets = st.just("") | st.lists(_fields, min_size=1, max_size=2).map(lambda parts: f"[{' and '.join(parts)}]")
_conjuncts = st.one_of(
    _fields,
    st.builds("qoccriterion{}".format, _brackets),
    st.builds("qoccriterion{}/qocmetricdefinition{}".format, _brackets, _brackets),
    st.lists(_comparisons, min_size=1, max_size=2).map(lambda parts: f"qocmetricvalue[{' and '.join(parts)}]"),
    st.builds("qocmetricvalue/{}".format, _comparisons),
    st.builds("other/qocmetricvalue[{}]".format, _comparisons),
    st.builds("not(qocmetricvalue[{}])".format, _comparisons),
)
_paper_like = st.builds(
    "//qocindicator[@id='{}'{} and qocmetricvalue[@value {} {}]]".format,
    ids,
    st.sampled_from(["", " and qoccriterion[@id='10']", " and qoccriterion[@id='10']/qocmetricdefinition[@id='15']"]),
    _operators,
    _constants,
)
quality_constraints = (
    _paper_like
    | st.builds("//qocindicator[{}]".format, st.lists(_conjuncts, min_size=1, max_size=4).map(" and ".join))
    | st.builds("//qocindicator[{}][{}]".format, _conjuncts, _conjuncts)
)
constraints = quality_constraints | st.sampled_from(
    ["/o[@state='10']", "not(//qocindicator)", "count(//qocindicator) > 1", "//other"]
)
