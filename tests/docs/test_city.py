"""`make demo`: the city comes up with its page, people hear what they should, and Ctrl-C leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from hanse.model.ports import free_port

CITY = Path(__file__).parents[2] / "examples" / "smart-port" / "city.py"


def test_the_city_lives_until_ctrl_c(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "city", tmp_path / "tmp"
    elsewhere.mkdir()
    command = [sys.executable, str(CITY), "--seconds", "200", "--folder", str(folder), "--port", str(free_port())]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}  # nicegui looks at it
    environment |= {"TMPDIR": str(elsewhere), "HOME": str(elsewhere)}
    city = subprocess.Popen(
        [*command, "--no-pipeline", "--no-open"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    assert city.stdout is not None
    said = ""
    while "It goes on" not in said:
        said += (line := city.stdout.readline())
        assert line, said + (city.stderr.read() if city.stderr else "")
    page = re.search(r"http://127\.0\.0\.1:\d+", said)
    assert page is not None
    with urllib.request.urlopen(page[0] + "/map", timeout=60) as answer:
        assert "Hanse" in answer.read().decode()
    time.sleep(6)  # things happen
    city.send_signal(signal.SIGINT)
    rest, errors = city.communicate(timeout=100)
    assert (city.returncode, errors) == (0, ""), rest + errors
    heard = {
        name: int(count.replace(",", "")) for name, count in re.findall(r"^  (.+) \(at \w+\): ([\d,]+) heard", rest, re.MULTILINE)
    }
    assert heard["vehicles in the harbour"] > 0
    assert heard["alarms, wherever they are"] > 0
    assert heard["cameras of the port"] == 0
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(folder) not in running
    assert list(elsewhere.iterdir()) == []
