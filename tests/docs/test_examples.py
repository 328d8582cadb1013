"""The smart port of `make demo`: everything that its devices publish is there, after a kill too."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from hanse.model.ports import free_port

PORT = Path(__file__).parents[2] / "examples" / "smart-port" / "port.py"


def test_the_smart_port_tells_its_story() -> None:
    command = [sys.executable, str(PORT), "--seconds", "1", "--port", str(free_port())]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout + ran.stderr
    published = re.search(r"(\d+) values published", ran.stdout)
    assert published is not None
    assert f"after: 10 entities, {published[1]} changes" in ran.stdout
    assert f'hanse_mqtt_messages_total{{kind="changed"}} {published[1]}.0' in ran.stdout
    assert "urn:ngsi-ld:Crane:3  [9.941, 53.533]" in ran.stdout
