"""The simulated store keeps the contract of every store, while nothing is told to fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.simulation.disk import Disk
from tests.simulation.store import SimulatedStore
from tests.stores.contract import StoreContract
from tests.stores.contract_outbox import OutboxContract
from tests.stores.contract_runs import RunsContract
from tests.stores.walk import WalkContract


class MemoryPlace:
    """A disk, and the stores that were opened on it."""

    def __init__(self) -> None:
        self.disk = Disk()

    def open(self, **settings: Any) -> SimulatedStore:
        return SimulatedStore(self.disk, **settings)


@pytest.fixture
def place() -> MemoryPlace:
    return MemoryPlace()


class TestSimulatedStore(StoreContract, RunsContract, OutboxContract, WalkContract):
    """The shared contract, held by the store of the simulation."""

    @pytest.fixture
    def fresh(self) -> Callable[[], MemoryPlace]:
        return MemoryPlace
