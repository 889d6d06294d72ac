"""What all tests share: Hypothesis profiles, time limits, and no settings from the environment.

`HYPOTHESIS_PROFILE=slow` asks for more examples, at random; the default `fast` repeats itself, and
tries fewer of them where the slow tests are left out (`brief`).
Fixtures belong to the files that use them.
"""

from __future__ import annotations

import os

import hypothesis
import pytest

SLOW_TIMEOUT_SECONDS = 600

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
    usual = "brief" if config.getoption("markexpr") == "not slow" else "fast"
    hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", usual))
    for name in [name for name in os.environ if name.startswith("PLACET_")]:
        del os.environ[name]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give slow tests more time, where they do not name their own limit."""
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_TIMEOUT_SECONDS))
