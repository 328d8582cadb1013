"""A pipeline as its user writes it: a TOML file, or a Python file that defines `pipeline`.

    trigger = "1 second"            # how often a batch is made
    folder = "air.pipeline"         # checkpoints, state, what was set aside; this, beside the file, if nothing is said

    [source]                        # the options of format("hanse"), see hanse.pipeline.source
    nodes = "fire=http://127.0.0.1:9090"

    [sink]                          # see hanse.pipeline.sink
    node = "http://127.0.0.1:9090"

    [lake]
    folder = "lake"
    tables = ["raw", "qualified", "derived"]

    [spark]                         # any setting of Spark
    "spark.driver.memory" = "4g"

    [[collectors]]                  # foreign data into the sink's node, see hanse.pipeline.collectors
    name = "stations"
    mapping = "stations.toml"
    path = "incoming"

    [[capsules]]
    name = "no2-by-street"
    kind = "aggregation"            # see hanse.pipeline.kinds
    types = ["AirQualityObserved"]
    attributes = ["no2"]
    place = "scope"
    window = "10 minutes"
    output = "StreetAir"
    guarantee = "completeness>=50"

`load(file) -> Pipeline`. In Python: `pipeline = Pipeline(source={"nodes": ...}, sink={"node": ...},
capsules=(Capsule(...),))`. Relative folders are beside the file.
"""

from __future__ import annotations

import re
import runpy
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from hanse.model import InvalidInput
from hanse.pipeline.capsules import Capsule, Selector
from hanse.pipeline.capsules.places import seconds
from hanse.pipeline.kinds import Section, place_in_words
from hanse.pipeline.lake_formats import PARQUET, checked_format
from hanse.pipeline.options import SinkOptions, SourceOptions

RAW: Final = "raw"
QUALIFIED: Final = "qualified"
DERIVED: Final = "derived"
TABLES: Final = (RAW, QUALIFIED, DERIVED)
SUFFIX: Final = ".pipeline"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")


class InLake(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the lake is, and what is written to it: `derived` is one table for each capsule, `derived_<name>`."""

    folder: str
    tables: tuple[str, ...] = (RAW,)
    format: str = PARQUET  # of the tables: delta and iceberg need their jars on Spark's class path
    past: bool = False  # whether raw has what a node needs to answer from it (`hanse.pipeline.past`)

    def __post_init__(self) -> None:
        checked_format(self.format)
        if unknown := sorted(set(self.tables) - set(TABLES)):
            raise InvalidInput(f"there is no table {unknown[0]!r}; there are {', '.join(TABLES)}", place="lake")


class Collecting(Struct, frozen=True, forbid_unknown_fields=True):
    """A folder that grows, and the file that says what its lines mean."""

    name: str
    mapping: str
    path: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InvalidInput(f"a collector's name has letters, digits, -, _ and ., not {self.name!r}")


class Pipeline(Struct, frozen=True, kw_only=True):
    """`name` and `folder` come from the file where they are empty."""

    source: Mapping[str, Any] | None = None
    capsules: tuple[Capsule, ...] = ()
    collectors: tuple[Collecting, ...] = ()
    sink: Mapping[str, Any] | None = None
    lake: InLake | None = None
    spark: Mapping[str, Any] = {}
    name: str = ""
    folder: str = ""
    trigger_s: float = 1.0

    def __post_init__(self) -> None:
        if self.source is not None:
            SourceOptions.of(options_of(self.source))
        elif self.capsules or self.lake is not None:
            raise InvalidInput("capsules and the lake need a source: the nodes whose logs they read")
        if self.sink is not None:
            SinkOptions.of({"deadLetters": "-"} | options_of(self.sink))
        for what, every in (("capsules", self.capsules), ("collectors", self.collectors)):
            names = [one.name for one in every]
            if twice := sorted({name for name in names if names.count(name) > 1}):
                raise InvalidInput(f"there are two {what} that are called {twice[0]}")
        if not self.capsules and not self.collectors and self.lake is None:
            raise InvalidInput("this pipeline does nothing: name capsules, collectors, or a lake")
        if self.collectors and self.sink is None:
            raise InvalidInput("what is collected goes nowhere: name a sink")
        if self.capsules and self.sink is None and (self.lake is None or DERIVED not in self.lake.tables):
            raise InvalidInput("what the capsules make goes nowhere: name a sink, or a lake with the table derived")

    def with_format(self, name: str) -> Pipeline:
        """The same, with tables of another format."""
        if self.lake is None:
            raise InvalidInput("a format is one of the lake's tables, and this pipeline writes no lake")
        return msgspec.structs.replace(self, lake=msgspec.structs.replace(self.lake, format=name))


def options_of(given: Mapping[str, Any]) -> dict[str, str]:
    """As Spark takes them: all are texts; lists are joined by commas."""
    return {name: _option(value) for name, value in given.items()}


def _option(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def load(file: str | Path) -> Pipeline:
    """The pipeline that a file names, with its name and folder. Raises InvalidInput in words that name the place."""
    path = Path(file)
    if not path.is_file():
        raise InvalidInput(f"there is no file {path}")
    pipeline = _from_python(path) if path.suffix == ".py" else _from_toml(path)
    name = pipeline.name or path.stem
    if not _NAME.fullmatch(name):
        raise InvalidInput(f"a pipeline's name has letters, digits, -, _ and ., not {name!r}", place=str(path))
    beside = path.resolve().parent
    lake = pipeline.lake and msgspec.structs.replace(pipeline.lake, folder=str(beside / pipeline.lake.folder))
    folder = str(beside / (pipeline.folder or path.stem + SUFFIX))
    collectors = tuple(Collecting(one.name, str(beside / one.mapping), str(beside / one.path)) for one in pipeline.collectors)
    return msgspec.structs.replace(pipeline, name=name, folder=folder, lake=lake, collectors=collectors)


def folder_of(what: str | Path) -> Path:
    """Where the state of a pipeline is, by its file or by its folder; nothing is run for that."""
    path = Path(what)
    if path.is_dir():
        return path
    if path.suffix == ".toml" and path.is_file():
        return path.parent / (_read(path).get("folder") or path.stem + SUFFIX)
    found = path.with_name(path.stem + SUFFIX)
    if not found.is_dir():
        raise InvalidInput(f"nothing has run from {what}: there is no folder {found}; name the pipeline's folder")
    return found


# --- files --------------------------------------------------------------------------------------------------------------


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    source: dict[str, Any] | None = None
    capsules: tuple[Section, ...] = ()
    collectors: tuple[Collecting, ...] = ()
    sink: dict[str, Any] | None = None
    lake: InLake | None = None
    spark: dict[str, Any] = {}
    name: str = ""
    folder: str = ""
    trigger: str | float = 1.0


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # not UTF-8, not TOML, a number with thousands of digits
        raise InvalidInput(f"it cannot be read: {error}", place=str(path)) from error


def _from_toml(path: Path) -> Pipeline:
    raw = _read(path)
    try:
        read = msgspec.convert(raw, _File)
    except msgspec.ValidationError as error:
        raise InvalidInput(place_in_words(str(error), raw), place=str(path)) from error
    try:
        capsules = tuple(_capsule(section) for section in read.capsules)
        return Pipeline(
            source=read.source,
            capsules=capsules,
            collectors=read.collectors,
            sink=read.sink,
            lake=read.lake,
            spark=read.spark,
            name=read.name,
            folder=read.folder,
            trigger_s=seconds(read.trigger, "trigger"),
        )
    except InvalidInput as error:
        raise error.at(str(path)) from None


def _capsule(section: Section) -> Capsule:
    try:
        return Capsule(
            name=section.name,
            input=Selector(section.types, section.attributes, section.area, section.scopes, section.quality),
            transform=section.transform(),
            output=section.output,
            guarantee=section.guarantee,
            is_newest_only=section.newest_only,
            description=section.description,
        )
    except InvalidInput as error:
        raise error.at(f"capsule {section.name}") from None


def _from_python(path: Path) -> Pipeline:
    try:
        defined = runpy.run_path(str(path), run_name=f"hanse_pipeline_{path.stem}").get("pipeline")
    except InvalidInput as error:
        raise error.at(str(path)) from None
    except Exception as error:
        raise InvalidInput(f"it does not run: {type(error).__name__}: {error}", place=str(path)) from error
    if not isinstance(defined, Pipeline):
        raise InvalidInput("it defines no `pipeline = Pipeline(...)`", place=str(path))
    return defined
