"""Whatever is sent: no failure of ours, ProblemDetails for every refusal, nothing changed by what was refused, the node alive.

`make fuzz` runs the same for ten minutes with examples that nobody has seen before (HANSE_FUZZ_S: how many seconds).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import content_type_conformance, response_schema_conformance
from schemathesis.generation import GenerationMode
from tests.node.http import fuzzing
from tests.raw_http import PATIENCE_S, RawClient, Reply
from websockets.sync.client import connect

FUZZ_S = float(os.environ.get("HANSE_FUZZ_S", "0"))  # for each test
EXAMPLES = 1200
PROMISES = 200
MESSAGES = 300
ENDLESS = ["/hanse/v1/notifications", "/hanse/v1/subscribe", "/hanse/v1/clients/{client}/stream"]
OURS = {503, 504}  # too busy, and contexts that are not to be had


class Client(RawClient):
    def ask(self, request: fuzzing.Request) -> Reply | None:
        return self.send(request.method, request.target, request.headers, request.body)

    def state(self) -> dict[str, Any]:
        """What a refused request must leave as it was."""
        counted = ("entities?local=true&", "subscriptions?", "csourceSubscriptions?", "csourceRegistrations?type=Fuzz&")
        found: dict[str, Any] = {
            path: self.get(f"/ngsi-ld/v1/{path}limit=0&count=true").headers["ngsild-results-count"] for path in counted
        }
        found["log"] = self.get("/hanse/v1/log?limit=0").headers["hanse-log-end"]
        found["tenants"] = self.get("/hanse/v1/tenants").body
        found["contexts"] = len(json.loads(self.get("/ngsi-ld/v1/jsonldContexts?kind=Hosted").body))
        found["clients"] = self.get("/hanse/v1/clients").body
        return found


@contextmanager
def running(folder: Path, *options: str) -> Iterator[tuple[str, Path]]:
    """A node in a process of its own, so that it can die, and its log."""
    log = folder / "log.jsonl"
    settings = {"HANSE_LOG__FORMAT": "json", "HANSE_CONTEXT_FETCH__TIMEOUT_S": "1", "HANSE_TENANTS__MAX": "5"}
    command = [sys.executable, "-m", "hanse", "serve", "--port", "0", *(options or ("--no-mqtt",))]
    with (
        log.open("wb") as errors,
        subprocess.Popen(command, env=os.environ | settings, stdout=errors, stderr=subprocess.STDOUT) as process,
    ):
        try:
            while not (found := re.search(r"http://[\d.]+:\d+", log.read_text())):
                assert process.poll() is None, log.read_text()
                time.sleep(0.05)
            yield found[0], log
            assert process.poll() is None, log.read_text()
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with running(tmp_path_factory.mktemp("fuzz")) as (url, log):
        client = Client(url)
        for request in fuzzing.sown():
            reply = client.ask(request)
            assert reply is not None
            assert reply.status in (201, 204), reply
        yield client
        assert client.get("/healthz").status == 200
        faults = [line for line in log.read_text().splitlines() if "Traceback" in line or '"level":"error"' in line]
        assert not faults, "\n".join(faults[:20])


class TimeIsUp(KeyboardInterrupt):  # hypothesis takes anything else for a finding
    pass


def explored(strategy: st.SearchStrategy[Any], check: Callable[[Any], None], examples: int) -> None:
    """A fixed set of examples; or as many new ones as the time allows."""
    end = time.monotonic() + FUZZ_S

    def checked(example: Any) -> None:
        if FUZZ_S and time.monotonic() >= end:
            raise TimeIsUp
        check(example)

    while True:
        bounded = settings(
            max_examples=examples,
            derandomize=not FUZZ_S,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        try:
            bounded(given(strategy)(checked))()
        except TimeIsUp:
            return
        if time.monotonic() >= end:
            return


def judged(request: object, reply: Reply) -> None:
    if reply.status < 400:
        return
    assert reply.status < 500 or reply.status in OURS, (request, reply)
    if reply.status == 411:  # the specification wants it bare
        assert not reply.body, (request, reply)
        return
    if not reply.body and getattr(request, "method", "") == "HEAD":
        return
    assert reply.content_type.startswith(("application/json", "application/problem+json")), (request, reply)
    problem = json.loads(reply.body)
    assert problem["type"].startswith("https://uri.etsi.org/ngsi-ld/errors/"), (request, reply)
    assert problem["title"], (request, reply)
    assert problem["status"] == reply.status, (request, reply)
    assert len(problem.get("detail", "")) < 2500, (request, reply)
    assert problem.get("detail", "x").splitlines(), (request, reply)


def test_bent_requests(node: Client) -> None:
    before = node.state()

    def check(request: fuzzing.Request) -> None:
        nonlocal before
        started = time.monotonic()
        reply = node.ask(request)
        if FUZZ_S and time.monotonic() - started > 0.5:
            print(f"slow, {time.monotonic() - started:.2f} s: {request}")
        if reply is None:
            return
        judged(request, reply)
        if request.method != "GET":
            after = node.state()
            if 400 <= reply.status < 500:
                assert after == before, (request, reply)
            elif request.method in ("DELETE", "POST") and after != before:
                for sowing in fuzzing.sown():  # it may have taken away what the next wants to find
                    node.ask(sowing)
                after = node.state()
            before = after

    explored(fuzzing.requests(), check, EXAMPLES)
    assert node.get("/healthz").status == 200
    assert node.get(f"/ngsi-ld/v1/entities/{fuzzing.ENTITY}").status in (200, 404)


def test_what_the_openapi_page_promises(node: Client) -> None:
    """Requests made from the document itself, right and wrong; answers that are as it says."""
    schema = schemathesis.openapi.from_url(f"{node.url}/openapi.json").exclude(path=ENDLESS)
    cases = st.one_of([schema.as_strategy(mode) for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)])

    def check(case: Any) -> None:
        response = case.call(timeout=PATIENCE_S)
        headers = {name.lower(): values[0] for name, values in response.headers.items()}
        judged(case, Reply(response.status_code, headers, response.content))
        case.validate_response(response, checks=[response_schema_conformance, content_type_conformance])

    explored(cases, check, PROMISES)


def test_bent_messages_of_a_web_socket(node: Client) -> None:
    """Every message is answered, however wrong; and the connection goes on."""
    plain: list[Any] = [
        {"op": "subscribe", "id": "a", "subscription": fuzzing.SUBSCRIPTION},
        {"op": "listen", "id": "b", "subscriptionId": "urn:ngsi-ld:Subscription:fuzz", "lastEventId": 17},
        {"op": "unsubscribe", "id": "a"},
        {"op": "ping"},
    ]
    messages = st.sampled_from(plain).flatmap(lambda message: fuzzing.bodies(message, ld=False))
    with connect(node.url.replace("http", "ws") + "/hanse/v1/stream", ping_interval=None) as socket:

        def check(message: bytes) -> None:
            socket.send(message)
            while (answer := json.loads(socket.recv(timeout=PATIENCE_S)))["op"] in ("notification", "gap"):
                pass
            if answer["op"] == "error":
                problem = answer["problem"]
                assert problem["type"].startswith("https://uri.etsi.org/ngsi-ld/errors/"), (message, problem)
                assert problem["status"] < 500 or problem["status"] in OURS, (message, problem)

        explored(messages, check, MESSAGES)
