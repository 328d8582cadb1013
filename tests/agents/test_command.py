"""`hanse agent`, as typed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from paho.mqtt import publish
from tests.cli.conftest import Ran, hanse
from tests.mosquitto import Mosquitto
from tests.serving import serving

import hanse as library

EXAMPLES = Path(__file__).parents[2] / "examples" / "agents"
WAIT_S = 60.0
__all__ = ["hanse"]  # the fixture


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving() as found:
        yield found


def test_gtfs(hanse: Callable[..., Ran], url: str, tmp_path: Path) -> None:
    live = tmp_path / "rt.pb"
    subprocess.run([sys.executable, EXAMPLES / "realtime.py", live], check=True, capture_output=True)
    ran = hanse(
        "agent", "gtfs", EXAMPLES / "intercity-bus", "--node", url, "--realtime", live, "--once", "--stop-times", "--name", "ktel"
    )
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "gtfs: 2 received, 28 entities written, 0 unchanged\n"
    again = hanse("agent", "gtfs", EXAMPLES / "intercity-bus", "--node", url, "--name", "ktel", "--json")
    assert json.loads(again.out)["unchanged"] == 16
    with library.connect_sync(url) as node:
        assert node.get("urn:ngsi-ld:GtfsRoute:ktel:R10", format="simplified")["shortName"] == "10"


def test_rows_that_are_refused_are_told(hanse: Callable[..., Ran], url: str, tmp_path: Path) -> None:
    for name, text in {
        "stops.txt": "stop_id,stop_lat,stop_lon\nA,1,2\nB,x,y\n",
        "routes.txt": "route_id,route_type\n",
        "trips.txt": "trip_id\n",
    }.items():
        (tmp_path / name).write_text(text)
    ran = hanse("agent", "gtfs", tmp_path, "--node", url)
    assert ran.code == 0
    assert ran.err == "refused: stops.txt line 3: stop_lon is 'y', which is no number\n"
    assert ran.out == "gtfs: 1 received, 1 entities written, 0 unchanged, 1 refused\n"


def test_what_is_wrong_is_one_line(hanse: Callable[..., Ran], url: str, tmp_path: Path) -> None:
    mapping = tmp_path / "m.toml"
    mapping.write_text("devices = 3")
    for arguments, code in (
        (("gtfs", tmp_path / "nothing", "--node", url), 2),
        (("gtfs", tmp_path, "--node", url), 2),
        (("gtfs", tmp_path, "--node", "ftp://x"), 2),
        (("gtfs", "http://127.0.0.1:9/feed.zip", "--node", url), 1),
        (("mqtt", mapping, "--node", url), 2),
        (("mqtt", EXAMPLES / "devices.toml", "--node", url, "--broker", "http://x"), 2),
    ):
        ran = hanse("agent", *arguments)
        assert (ran.code, ran.err.count("\n")) == (code, 1), ran.err
        assert ran.err.startswith("hanse: ")


def test_mqtt_until_it_is_stopped(url: str) -> None:
    with Mosquitto() as broker, library.connect_sync(url) as node:
        command = [sys.executable, "-m", "hanse", "agent", "mqtt", str(EXAMPLES / "devices.toml"), "--node", url]
        publish.single("gates/3/open", "true", qos=1, retain=True, port=broker.port)
        with subprocess.Popen([*command, "--broker", broker.url], stdout=subprocess.PIPE, text=True, env=os.environ) as running:
            while not node.count(type="Gate"):
                assert running.poll() is None
            running.send_signal(signal.SIGTERM)
            said, _ = running.communicate(timeout=WAIT_S)
        assert running.returncode == 0
        assert said == "mqtt: 1 received, 1 entities written, 0 unchanged\n"
        assert node.get("urn:ngsi-ld:Gate:3", format="simplified")["open"] is True


@pytest.mark.parametrize("verb", ["gtfs", "mqtt"])
def test_help_has_an_example(hanse: Callable[..., Ran], verb: str) -> None:
    assert f"Example: hanse agent {verb}" in " ".join(hanse("agent", verb, "--help").out.split())
