"""The page on configuration shows the file that `hanse config` prints."""

from __future__ import annotations

import re
from pathlib import Path

from hanse.node.settings import default_toml

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_page_shows_what_the_command_prints() -> None:
    found = re.search(r"^```toml\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None
    assert found[1] == default_toml(), "paste what `hanse config` prints"
