"""What all tests share: Hypothesis profiles, time limits, and nothing of who runs them.

`HYPOTHESIS_PROFILE=slow` asks for more examples, at random; the default `fast` repeats itself, and
tries fewer of them where the slow tests are left out (`brief`).
Fixtures belong to the files that use them.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

import hypothesis
import pytest

SLOW_TIMEOUT_SECONDS = 600

#: A file system in memory, and how much of it must be free for the files of tests to lie there.
MEMORY = Path("/dev/shm")
MEMORY_BYTES = 2 * 1024**3

hypothesis.settings.register_profile(
    "fast",
    derandomize=True,
    max_examples=60,
    deadline=None,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile(
    "brief",
    parent=hypothesis.settings.get_profile("fast"),
    max_examples=20,
)
hypothesis.settings.register_profile(
    "slow",
    parent=hypothesis.settings.get_profile("fast"),
    derandomize=False,
    max_examples=2_000,
)


def pytest_configure(config: pytest.Config) -> None:
    """Choose the profile, and let no setting of the person who runs the tests reach them."""
    is_brief = config.getoption("markexpr") == "not slow"
    usual = "brief" if is_brief else "fast"
    hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", usual))
    if is_brief and _has_memory():  # Else half the time goes into waiting for a disk.
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
    for name in [name for name in os.environ if name.startswith("PLACET_")]:
        del os.environ[name]
    # A shell without job control has what it starts in the background ignore an interrupt, and that
    # goes on to every process that a test starts, and interrupts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Tests start hundreds of processes, each of which would compile the package anew.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


def _has_memory() -> bool:
    """Say whether files can lie in memory here, and be run there; many containers have little."""
    if not MEMORY.is_dir() or not os.access(MEMORY, os.W_OK | os.X_OK):
        return False
    may_run = not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
    return may_run and shutil.disk_usage(MEMORY).free >= MEMORY_BYTES


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give slow tests more time, where they do not name their own limit."""
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_TIMEOUT_SECONDS))
