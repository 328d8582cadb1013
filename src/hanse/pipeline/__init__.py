"""The data pipeline on Spark: what the federation's nodes log, read, kept, refined and published back.

Nothing here needs the rest of Hanse to be running in the same process, and nothing outside this package needs PySpark.

- `session(app, master)`: a Spark session that is quiet and set up for this machine; `words(error)`: its errors in one line.
"""

from __future__ import annotations

from hanse.pipeline.session import session
from hanse.pipeline.words import words

__all__ = ["session", "words"]
