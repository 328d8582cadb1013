"""What went wrong in Spark, in one line, without stack traces.

    words(error) -> "there is no column `colour` …"

An error comes out of Spark wrapped several times: a Python exception in a worker, in a Java exception, in the exception of a
query. What a user can act on is the innermost message; codes, SQL states and traces are left out.
"""

from __future__ import annotations

import re
from typing import Final

LENGTH_MAX: Final = 500
_CODE: Final = re.compile(r"^\s*\[[A-Z][A-Z0-9_.]+\]\s*")
_STATE: Final = re.compile(r"\s*SQLSTATE: \w{5}\s*")
_PLACE: Final = re.compile(r"[ .;]*\bline (\d+),? pos(?:ition)? (\d+);?\s*$")
# the last line of a Python traceback, which may be nested in the text of a Java exception
_PYTHON: Final = re.compile(r"^(?:[A-Za-z_][\w]*\.)*([A-Z]\w*|\w*Error|\w*Exception): ?(.*)$", re.MULTILINE)
_JAVA: Final = re.compile(r"^(?:[a-z][\w$]*\.)+[A-Z][\w$]*(?:Exception|Error): ?")
_PLAIN: Final = frozenset({"InvalidInput", "NodeAway", "PySparkException", "RuntimeError", "ValueError"})
_LACKS: Final = re.compile(r"^No module named '(\w+)")
_WORKERS: Final = "the Python of Spark's workers"
_GATEWAY: Final = "Java did not start; its own message is above"


def words(error: BaseException | str) -> str:
    """One line that says what is wrong."""
    text = str(error)
    if "JAVA_GATEWAY_EXITED" in text:
        return _GATEWAY
    java = getattr(error, "java_exception", None)
    if java is not None:
        text = str(java)
    if "Traceback (most recent call last)" in text:
        return _from_traceback(text)
    return _shortened(_first_line(text))


def _from_traceback(text: str) -> str:
    """The innermost exception: the last one in the innermost traceback's text."""
    innermost = text[text.rfind("Traceback (most recent call last)") :]
    found = _PYTHON.search(innermost)
    if found is None:
        return _shortened(_first_line(text))
    kind, message = found[1], _first_line(found[2])
    if kind == "ModuleNotFoundError" and (lacks := _LACKS.match(message)):
        return f"{_WORKERS} has no {lacks[1]}: pip install 'hanse[pipeline]' there, or name another one by PYSPARK_PYTHON"
    return _shortened(message if kind in _PLAIN and message else f"{kind}: {message}" if message else kind)


def _first_line(text: str) -> str:
    for line in text.splitlines():
        cut = _STATE.sub(" ", _CODE.sub("", _JAVA.sub("", line.strip()))).split("JVM stacktrace:")[0].strip()
        cut = _PLACE.sub(r" (line \1, position \2)", cut)
        if cut:
            return cut
    return "Spark does not say what is wrong"


def _shortened(text: str) -> str:
    return text if len(text) <= LENGTH_MAX else text[: LENGTH_MAX - 1] + "…"
