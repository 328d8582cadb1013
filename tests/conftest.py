"""The same examples every time, so that a red test is always about the change; `HANSE_EXPLORE=1 make test` looks for new ones."""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

# one JVM and one federation to look at are enough, and pages use the same ports; they take longest, so they begin
TOGETHER = ("tests/pipeline/", "tests/docs/", "tests/dashboard/")
TEST_S_MAX = float(os.environ.get("HANSE_TEST_S_MAX", "240"))  # a test that hangs fails, with all stacks; the others go on
DEAF_S_MAX = 60.0  # after that, one that does not even notice ends its process

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile("explore" if os.environ.get("HANSE_EXPLORE") else "fixed")


class Apart(LoadScopeScheduling):  # type: ignore[misc]
    """Files go to whichever worker is free, whole, for their tests share what they set up; some files all to the same one."""

    def _split_scope(self, nodeid: str) -> str:
        return next((scope for scope in TOGETHER if nodeid.startswith(scope)), nodeid.partition("::")[0])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Apart:
    return Apart(config, log)


def _hangs(_signal: int, _frame: Any) -> None:
    faulthandler.dump_traceback(all_threads=True)
    raise pytest.fail.Exception(f"it takes longer than {TEST_S_MAX:g} seconds")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        return (yield)
    before = signal.signal(signal.SIGALRM, _hangs)
    signal.setitimer(signal.ITIMER_REAL, TEST_S_MAX)
    faulthandler.dump_traceback_later(TEST_S_MAX + DEAF_S_MAX, exit=True)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _turn(item: pytest.Item) -> int:
    return next((number for number, scope in enumerate(TOGETHER) if item.nodeid.startswith(scope)), len(TOGETHER))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes a minute and more has its own target: make test-long."""
    items.sort(key=_turn)
    if os.environ.get("HANSE_LONG") or any("::" in str(argument) for argument in config.args):
        return
    long = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if item not in set(long)]
