"""Agents know a node by HTTP only: nothing of its inside is imported."""

from __future__ import annotations

import re
from pathlib import Path

import hanse.agents

IMPORT = re.compile(r"^\s*(?:from|import) (hanse\.\w+)", re.MULTILINE)


def test_agents_import_the_client_and_the_model_only() -> None:
    files = list(Path(hanse.agents.__file__).parent.glob("*.py"))
    found = {name for file in files for name in IMPORT.findall(file.read_text(encoding="utf-8"))}
    assert found == {"hanse.agents", "hanse.client", "hanse.model"}
