"""The same examples every time, so that a red test is always about the change; `HANSE_EXPLORE=1 make test` looks for new ones."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile("explore" if os.environ.get("HANSE_EXPLORE") else "fixed")
