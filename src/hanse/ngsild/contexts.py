"""JSON-LD contexts, compiled to two dictionaries: short name to URI, and back.

A context is processed once (by pyld, which knows every way to write a term definition); from then on a name costs one look-up.
The core context is built in and always comes last, so that its terms mean the same to everybody. Contexts that a term
definition brings along for what is below it (scoped contexts) are refused: an NGSI-LD attribute has one meaning wherever it is.
Nothing is fetched here: `referenced_urls` says what a context needs, and `compile_context` takes what came.
"""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from typing import Any, Final
from urllib.parse import urljoin

import msgspec

from hanse.ngsild.entity import DEFAULT_VOCAB, NGSI_LD
from hanse.ngsild.errors import BadRequestData, LdContextNotAvailable
from hanse.ngsild.limits import NAME_LENGTH_MAX
from hanse.ngsild.uris import is_uri

CORE_URL: Final = "https://uri.etsi.org/ngsi-ld/v1/ngsi-ld-core-context-v1.9.jsonld"
CORE_URL_PATTERN: Final = re.compile(r"https?://uri\.etsi\.org/ngsi-ld/v\d+/ngsi-ld-core-context(-v\d+\.\d+)?\.jsonld")

CACHED_NAMES_MAX: Final = 20_000  # per context and direction; beyond it, the cache starts anew
CONTEXT_DEPTH_MAX: Final = 32  # contexts that name contexts that name contexts ...
CONTEXT_PARTS_MAX: Final = 1_000  # after every URL in it is followed

# what says nothing about names; and pyld stumbles over some of it
_NO_MATTER: Final = frozenset({"@base", "@direction", "@language", "@propagate"})
_NAME: Final = re.compile(r"[^\W\d_][\w\-.]*")
_PREFIX_ENDS: Final = tuple(":/?#[]@")  # a plain term is a prefix too, if its URI ends with one of these


class _Definition(msgspec.Struct, frozen=True):
    iri: str
    is_prefix: bool
    coercion: str | None = None


_Definitions = dict[str, _Definition]


class _Names(dict[str, str]):
    """A dictionary that works out what it does not hold, and keeps it; never larger than its bound."""

    def __init__(self, find: Callable[[str], str]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, name: str) -> str:
        found = self._find(name)
        if len(self) >= CACHED_NAMES_MAX:
            self.clear()
        self[name] = found
        return found


class Context:
    """A compiled context. Treat as frozen; make one with `compile_context`, or take `CORE`."""

    __slots__ = (
        "_document", "_names", "_own", "_prefixes",
        "compact_iri", "expand_name", "expand_term", "key", "link_url", "source",
    )  # fmt: skip

    expand_term: Callable[[str], str]  # short name, prefixed name or URI -> URI; an unknown name is one of the default vocabulary
    expand_name: Callable[[str], str]  # the same for the name of a type or attribute that somebody writes: refused if not legal
    compact_iri: Callable[[str], str]  # and back; what the context does not know stays a URI

    def __init__(self, source: Any, key: str, document: Any, link_url: str, own: _Definitions) -> None:
        self.source = source
        self.key = key
        self.link_url = link_url
        self._document = document
        self._own = own  # next to the definitions of the core context, which all contexts share
        self._names = _shortest_names(own)
        self._prefixes = [*_CORE_PREFIXES, *_prefixes(own)]
        # dictionary look-ups without a Python call around them: this is the hottest line of reading and writing entities
        self.expand_term = _Names(self._find_iri).__getitem__
        self.expand_name = _Names(self._find_legal).__getitem__
        self.compact_iri = _Names(self._find_name).__getitem__

    def __repr__(self) -> str:
        return f"Context({self.key!r})"

    def expand_type(self, name: str) -> str:
        return self.expand_term(name)

    def compact_type(self, iri: str) -> str:
        return self.compact_iri(iri)

    def coercion(self, term: str) -> str | None:
        """What the context says the values of a term are: "@id", "@vocab", "@json", or the URI of a data type."""
        found = self._definition(term)
        return found.coercion if found else None

    def document(self) -> Any:
        """What an answer says as its "@context": always with the core context as the last (or only) one."""
        return self._document

    def _definition(self, name: str) -> _Definition | None:
        return _CORE_DEFINITIONS.get(name) or self._own.get(name)

    def _find_iri(self, name: str) -> str:
        found = self._definition(name)
        if found:
            return found.iri
        prefix, colon, rest = name.partition(":")
        if colon:
            if not rest.startswith("//"):
                found = self._definition(prefix)
                if found and found.is_prefix:
                    return found.iri + rest
            if prefix.isascii() and prefix[:1].isalpha():
                return name
        return DEFAULT_VOCAB + name

    def _find_legal(self, name: str) -> str:
        legal = len(name) <= NAME_LENGTH_MAX and (is_uri(name) if ":" in name else _NAME.fullmatch(name))
        iri = self._find_iri(name) if legal else ""
        if not legal or iri.startswith("@"):
            say = "it means something else in JSON-LD" if legal else "a letter, then letters, digits, '_', '-' and '.'; or a URI"
            raise BadRequestData(f"the name {name[:60]!r} is not legal: {say}")
        return iri

    def _find_name(self, iri: str) -> str:
        names = [found for found in (_CORE_NAMES.get(iri), self._names.get(iri)) if found is not None]
        if names:
            return min(names, key=_by_length)
        prefixed = sorted(
            (f"{name}:{iri[len(start) :]}" for name, start in self._prefixes if iri.startswith(start)), key=_by_length
        )
        if iri.startswith(DEFAULT_VOCAB):
            prefixed.insert(0, iri[len(DEFAULT_VOCAB) :])
        # only a name that is read back as the same URI will do
        return next((name for name in prefixed if name and self._find_iri(name) == iri), iri)


def _by_length(name: str) -> tuple[int, str]:
    return len(name), name


def _shortest_names(definitions: _Definitions) -> dict[str, str]:
    names: dict[str, str] = {}
    for name in sorted(definitions, key=_by_length):
        names.setdefault(definitions[name].iri, name)
    return names


def _prefixes(definitions: _Definitions) -> list[tuple[str, str]]:
    return [(name, found.iri) for name, found in definitions.items() if found.is_prefix]


def is_core_url(url: str) -> bool:
    """Every version of the core context counts as the one that is built in."""
    return CORE_URL_PATTERN.fullmatch(url) is not None


def referenced_urls(source: Any, base: str = "") -> set[str]:
    """The URLs that a context value (or a document with one) names directly, without those of the core context."""
    return {url for url in _urls(source, base) if not is_core_url(url)}


def _urls(source: Any, base: str) -> Iterator[str]:
    match source:
        case str():
            yield _absolute(source, base)
        case list():
            for part in source:
                if isinstance(part, (str, dict)):
                    yield from _urls(part, base)
        case {"@context": inner}:
            if not (isinstance(inner, dict) and "@context" in inner):
                yield from _urls(inner, base)
        case {"@import": str(url)}:
            yield _absolute(url, base)


def compile_context(source: Any, documents: Mapping[str, Any] | None = None, *, link_url: str | None = None) -> Context:
    """`documents`: what each URL in it, directly or not, led to. `link_url`: where this very context can be had, if anywhere."""
    if isinstance(source, dict) and "@context" in source:
        source = source["@context"]
    parts = [part for part in (source if isinstance(source, list) else [source]) if not is_empty(part)]
    if not parts:
        return CORE
    flat: list[Any] = []
    for part in _flatten(source, documents or {}, "", ()):
        flat.append(part)
        if len(flat) > CONTEXT_PARTS_MAX:
            raise BadRequestData(f"this @context has more than {CONTEXT_PARTS_MAX} parts; merge some of them")
    *_, last = (None, *_flatten(parts[-1], documents or {}, "", ()))
    while flat and flat[-1] is _CORE_DOCUMENT:
        flat.pop()
    own = {name: found for name, found in _process(flat).items() if name not in _CORE_DEFINITIONS}
    given = parts[0] if len(parts) == 1 else parts
    urls = [part for part in parts if isinstance(part, str)]
    key = given if isinstance(given, str) else context_key(given)
    shown = given if last is _CORE_DOCUMENT else [*parts, CORE_URL]  # what ends with the core context needs it no second time
    return Context(source, key, shown, link_url or (urls[0] if urls else CORE_URL), own)


def context_key(source: Any) -> str:
    """A stable name for a context: its URL, or a digest of what it says."""
    if isinstance(source, str):
        return source
    text = json.dumps(source, sort_keys=True, separators=(",", ":"), default=str)
    return "sha256:" + hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def is_empty(part: Any) -> bool:
    """Whether a part of a context adds nothing to the core context."""
    return part is None or part == {} or (isinstance(part, str) and is_core_url(part))


def _absolute(url: str, base: str) -> str:
    try:
        return urljoin(base, url) if base else url
    except ValueError:
        return url


def _flatten(part: Any, documents: Mapping[str, Any], base: str, within: tuple[str, ...]) -> Iterator[Any]:
    """The context objects in their order, every URL followed."""
    if len(within) > CONTEXT_DEPTH_MAX:
        raise BadRequestData(f"contexts name each other more than {CONTEXT_DEPTH_MAX} deep, at {within[-1]!r}")
    match part:
        case None:
            yield None
        case str():
            url = _absolute(part, base)
            if is_core_url(url):
                yield _CORE_DOCUMENT
                return
            if url in within:
                raise BadRequestData(f"the @context {url!r} names itself; remove it from one of the contexts on the way")
            yield from _flatten(_remote(url, documents), documents, url, (*within, url))
        case list():
            for inner in part:
                if isinstance(inner, list):
                    raise BadRequestData("an @context must not hold a list within a list; put its elements side by side")
                yield from _flatten(inner, documents, base, within)
        case dict():
            whole = _with_import(part, documents, base)
            _check_scoped(whole)
            yield _without_scoped(whole)
        case _:
            raise BadRequestData(f"an @context is a URL, an object or a list of them, not {_shown(part)}")


def _remote(url: str, documents: Mapping[str, Any]) -> Any:
    if url not in documents:
        raise LdContextNotAvailable(f"the @context {url!r} could not be had; check the URL and that it can be reached from here")
    document = documents[url]
    if not isinstance(document, dict) or "@context" not in document:
        raise BadRequestData(f"what is at {url!r} is no JSON-LD context: it must be an object with a member '@context'")
    return document["@context"]


def _with_import(part: dict[str, Any], documents: Mapping[str, Any], base: str) -> dict[str, Any]:
    if "@import" not in part:
        return part
    imported = part["@import"]
    if not isinstance(imported, str):
        raise BadRequestData(f"'@import' in an @context must be a URL, not {_shown(imported)}")
    url = _absolute(imported, base)
    inner = _CORE_DOCUMENT if is_core_url(url) else _remote(url, documents)
    if not isinstance(inner, dict) or "@import" in inner:
        raise BadRequestData(f"the @context {url!r} cannot be imported: it must be one object without an '@import' of its own")
    return {name: value for name, value in {**inner, **part}.items() if name != "@import"}


def _check_scoped(part: dict[str, Any]) -> None:
    """A term that means one thing here and another there is not for NGSI-LD (5.5.7); what the core context names, it means."""
    for name, definition in part.items():
        if isinstance(definition, dict) and "@context" in definition and name not in _CORE_DEFINITIONS:
            raise BadRequestData(
                f"the @context defines {name[:60]!r} with a context of its own, which NGSI-LD forbids; take it out"
            )


def _without_scoped(part: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {key: value for key, value in definition.items() if key != "@context"}
        if isinstance(definition, dict) and "@context" in definition
        else definition
        for name, definition in part.items()
        if name not in _NO_MATTER and not (name == "@vocab" and definition is None)
    }


def _process(parts: list[Any]) -> _Definitions:
    if not parts:
        return {}
    from pyld import jsonld

    processor = jsonld.JsonLdProcessor()
    try:
        with warnings.catch_warnings(action="ignore"):  # of names that look like keywords: they are left out
            initial = processor._get_initial_context({"processingMode": "json-ld-1.1"})  # noqa: SLF001
            active = processor.process_context(initial, parts, {"base": ""})
        mappings = active["mappings"]
        return {name: found for name, mapping in mappings.items() if mapping and (found := _definition(mapping))}
    except jsonld.JsonLdError as error:
        reason = str(error.args[0]).removeprefix("Invalid JSON-LD syntax; ").splitlines()[0]
        raise BadRequestData(f"the @context is not valid: {reason}") from error
    except (TypeError, AttributeError, LookupError, ValueError, ArithmeticError, RecursionError) as error:
        # pyld takes some of what it has not checked for what it should be
        raise BadRequestData(
            "the @context is not valid: one of its term definitions is neither a URI nor an object of JSON-LD"
        ) from error


def _definition(mapping: Mapping[str, Any]) -> _Definition | None:
    iri, coercion = mapping.get("@id"), mapping.get("@type")
    if not isinstance(iri, str) or mapping.get("reverse") or not iri:
        return None
    return _Definition(
        iri, bool(mapping.get("_prefix")) and not iri.startswith("@"), coercion if isinstance(coercion, str) else None
    )


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def _read_core() -> tuple[dict[str, Any], _Definitions]:
    """Few ways to write a definition occur in it, so that pyld need not be imported until somebody brings a context."""
    document = json.loads(files("hanse.ngsild").joinpath("core-context.jsonld").read_bytes())["@context"]
    definitions: _Definitions = {}
    for name, value in document.items():
        if name.startswith("@"):
            continue
        iri = value if isinstance(value, str) else value["@id"]
        coercion = None if isinstance(value, str) else value.get("@type")
        prefix, _, rest = iri.partition(":")
        if prefix in document:
            iri = document[prefix] + rest
        if coercion and not coercion.startswith("@"):
            coercion = NGSI_LD + coercion
        definitions[name] = _Definition(iri, isinstance(value, str) and iri.endswith(_PREFIX_ENDS), coercion)
    return {name: value for name, value in _without_scoped(document).items() if name != "@protected"}, definitions


_CORE_DOCUMENT, _CORE_DEFINITIONS = _read_core()
_CORE_NAMES: Final = _shortest_names(_CORE_DEFINITIONS)
_CORE_PREFIXES: Final = _prefixes(_CORE_DEFINITIONS)
CORE: Final = Context(CORE_URL, CORE_URL, CORE_URL, CORE_URL, {})
