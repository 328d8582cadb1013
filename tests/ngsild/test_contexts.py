"""Names in, URIs out, and back; and nothing but an NGSI-LD error for a context that makes no sense."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.ngsild.contexts import CORE, CORE_URL, compile_context, context_key, is_core_url, referenced_urls
from hanse.ngsild.entity import DEFAULT_VOCAB, NGSI_LD
from hanse.ngsild.errors import BadRequestData, LdContextNotAvailable, NgsiLdError

SHOP = "https://shop.example/context.jsonld"
COMPOUND = "https://shop.example/compound.jsonld"
DOCUMENTS: dict[str, Any] = {
    SHOP: {
        "@context": {"shop": "https://shop.example/terms#", "price": "shop:price", "Shop": "shop:Shop", "location": "shop:place"}
    },
    COMPOUND: {"@context": ["context.jsonld", "https://uri.etsi.org/ngsi-ld/v1/ngsi-ld-core-context-v1.6.jsonld"]},
}


def test_the_core_context_knows_its_terms_and_gives_every_other_name_to_the_default_vocabulary() -> None:
    assert CORE.expand_term("location") == NGSI_LD + "location"
    assert CORE.expand_term("speed") == DEFAULT_VOCAB + "speed"
    assert CORE.expand_type("Vehicle") == DEFAULT_VOCAB + "Vehicle"
    assert CORE.expand_term("ngsi-ld:speed") == NGSI_LD + "speed"
    assert CORE.expand_term("https://a.example/b") == "https://a.example/b"
    assert CORE.compact_iri(NGSI_LD + "location") == "location"
    assert CORE.compact_type(DEFAULT_VOCAB + "Vehicle") == "Vehicle"
    assert CORE.compact_iri("https://a.example/b") == "https://a.example/b"
    assert CORE.coercion("object") == "@id"
    assert CORE.coercion("observedAt") == NGSI_LD + "DateTime"
    assert CORE.coercion("speed") is None
    assert CORE.document() == CORE.link_url == CORE.key == CORE_URL


def test_a_default_name_that_would_be_read_otherwise_gets_its_prefix() -> None:
    assert CORE.compact_iri(DEFAULT_VOCAB + "location") == "ngsi-ld:default-context/location"
    assert CORE.compact_iri(DEFAULT_VOCAB + "a:b") == "ngsi-ld:default-context/a:b"


@pytest.mark.parametrize("name", ["speed", "výška_1", "Škola", "a-b", "https://a.example/b", "ngsi-ld:speed"])
def test_a_legal_name(name: str) -> None:
    assert CORE.expand_name(name) == CORE.expand_term(name)


@pytest.mark.parametrize(
    "name", ["", "my attr", "9Vehicle", "_a", "@id", "@any", "type", "id", "a<b", "a(b)", 'a"b', "a=b", ":", "1:2", "a" * 3000]
)
def test_a_name_that_is_not_legal(name: str) -> None:
    with pytest.raises(BadRequestData):
        CORE.expand_name(name)


def test_every_version_of_the_core_context_is_built_in() -> None:
    for version in ("", "-v1.3", "-v1.8", "-v1.9"):
        url = f"https://uri.etsi.org/ngsi-ld/v1/ngsi-ld-core-context{version}.jsonld"
        assert is_core_url(url)
        assert compile_context(url, {}) is CORE
        assert referenced_urls([url, SHOP]) == {SHOP}
    assert compile_context(None) is compile_context([]) is compile_context({}) is CORE


def test_a_context_by_url_follows_what_it_names() -> None:
    assert referenced_urls(COMPOUND) == {COMPOUND}
    assert referenced_urls(DOCUMENTS[COMPOUND], COMPOUND) == {SHOP}
    context = compile_context(COMPOUND, DOCUMENTS)
    assert context.expand_term("price") == "https://shop.example/terms#price"
    assert context.compact_iri("https://shop.example/terms#price") == "price"
    assert context.compact_iri("https://shop.example/terms#other") == "shop:other"
    assert context.key == context.link_url == COMPOUND
    assert context.document() == COMPOUND, "it ends with the core context already"


def test_nobody_redefines_a_core_term() -> None:
    context = compile_context([CORE_URL, SHOP, {"object": "https://a.example/object"}], DOCUMENTS)
    assert context.expand_term("location") == NGSI_LD + "location"
    assert context.expand_term("object") == NGSI_LD + "hasObject"


def test_terms_may_be_written_with_the_prefixes_of_the_core_context_if_it_comes_first() -> None:
    context = compile_context([CORE_URL, {"mine": "ngsi-ld:mine", "when": {"@id": "ngsi-ld:when", "@type": "DateTime"}}])
    assert context.expand_term("mine") == NGSI_LD + "mine"
    assert context.coercion("when") == NGSI_LD + "DateTime"
    assert context.document()[-1] == CORE_URL
    assert context.document().count(CORE_URL) == 1


def test_an_imported_context() -> None:
    context = compile_context({"@version": 1.1, "@import": SHOP, "price": "https://a.example/price"}, DOCUMENTS)
    assert context.expand_term("price") == "https://a.example/price"
    assert context.expand_term("Shop") == "https://shop.example/terms#Shop"


def test_scoped_contexts_are_refused_but_for_terms_of_the_core_context() -> None:
    scoped = {"@id": "https://a.example/a", "@context": "https://nowhere.example/"}
    with pytest.raises(BadRequestData, match="'a' with a context of its own"):
        compile_context({"a": scoped})
    copied = compile_context({"ngsildproof": scoped, "b": "https://a.example/b"})
    assert copied.expand_term("b") == "https://a.example/b"
    assert copied.expand_term("ngsildproof") == "https://uri.etsi.org/ngsi-ld/ngsildproof"
    assert referenced_urls(copied.source) == set()


def test_the_key_is_the_same_for_the_same_context() -> None:
    inline = {"b": "https://a.example/b", "a": "https://a.example/a"}
    assert compile_context(inline).key == compile_context([dict(reversed(inline.items())), CORE_URL]).key == context_key(inline)
    assert compile_context(inline).key != compile_context(inline | {"c": "https://a.example/c"}).key


def test_the_shortest_name_is_shown() -> None:
    context = compile_context(
        {"temperature": "https://a.example/t", "temp": "https://a.example/t", "tamp": "https://a.example/t"}
    )
    assert context.compact_iri("https://a.example/t") == "tamp"


@pytest.mark.parametrize(
    "source",
    [
        1,
        True,
        [1],
        [[{}]],
        {"a": 1},
        {"a": {"@id": 1}},
        {"@vocab": 1},
        {"a": {}},
        {"a": "b", "b": "a"},
        {"": "https://a.example/"},
        {"@import": 1},
    ],
)
def test_a_context_that_makes_no_sense(source: Any) -> None:
    with pytest.raises(BadRequestData):
        compile_context(source)


@pytest.mark.parametrize("document", [[], 5, {}, {"context": {}}])
def test_a_document_that_is_no_context(document: Any) -> None:
    with pytest.raises(BadRequestData):
        compile_context(SHOP, {SHOP: document})


def test_a_document_that_is_not_there() -> None:
    with pytest.raises(LdContextNotAvailable):
        compile_context(SHOP, {})


def test_contexts_in_a_circle() -> None:
    with pytest.raises(BadRequestData, match="names itself"):
        compile_context(SHOP, {SHOP: {"@context": COMPOUND}, COMPOUND: {"@context": [SHOP]}})


TERMS = st.sampled_from(["a", "b", "ab", "ex", "ex:c", "https://a.example/a", "location", "a b", "é"])
URIS = st.sampled_from(
    ["https://a.example/", "https://a.example/a", "https://a.example/a#", "urn:x:", "ex:d", "@type", "ngsi-ld:q"]
)
CONTEXTS = st.dictionaries(
    TERMS, st.one_of(URIS, st.none(), st.builds(lambda uri: {"@id": uri, "@type": "@id"}, URIS)), max_size=5
)


@settings(max_examples=200)
@given(st.lists(CONTEXTS, max_size=3), st.one_of(TERMS, st.text(max_size=5)))
def test_what_is_compacted_expands_to_the_same(source: list[Any], name: str) -> None:
    try:
        context = compile_context(source)
    except BadRequestData:
        return
    iri = context.expand_term(name)
    assert context.expand_term(context.compact_iri(iri)) == iri


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4), URIS, st.just(SHOP)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(
                TERMS,
                st.sampled_from(
                    ["@id", "@type", "@vocab", "@container", "@import", "@context", "@version", "@reverse", "@prefix"]
                ),
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)


@settings(max_examples=300)
@given(JSON, JSON)
def test_any_json_as_context_is_compiled_or_refused(source: Any, document: Any) -> None:
    referenced_urls(source)
    try:
        context = compile_context(source, {SHOP: document})
    except NgsiLdError:
        return
    assert context.expand_term("location") == NGSI_LD + "location"
