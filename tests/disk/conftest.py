"""A forge for the tests of this directory, where the failing disk can be had."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.disk import shim
from tests.disk.forge import Forge


@pytest.fixture(scope="session")
def forge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forge]:
    reason = shim.why_not()
    if reason is not None:
        pytest.skip(reason)
    library = shim.build(tmp_path_factory.mktemp("shim"))
    with Forge(library, "tests.disk.life") as made:
        yield made
