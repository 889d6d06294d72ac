"""Disk full, disk broken: refused with what to do, nothing lost, and nothing done twice (D4).

This is one in sixty of the calls; all of them are `make sweep ARGS="--part errors"`.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.disk.forge import Forge
from tests.disk.life import KINDS, Kind
from tests.disk.lives import Prepared, a_directory
from tests.disk.trouble import met_with, troubles_of

EVERY = 60


@pytest.mark.slow
@pytest.mark.promise("D3", "D4", "D8", "G1")
@pytest.mark.conformance(11)
@pytest.mark.parametrize("kind", KINDS)
def test_a_disk_that_fails_is_named_and_once_it_is_well_the_life_goes_on_with_one_payment(
    forge: Forge, kind: Kind
) -> None:
    refused: Counter[str] = Counter()
    acknowledged = 0
    with a_directory() as root:
        prepared = Prepared(forge, kind, root)
        for phase in prepared.phases[:3]:
            for trouble in troubles_of(prepared, phase, every=EVERY):
                came = met_with(prepared, forge, trouble)
                assert came.wrong == []
                refused[came.refused] += 1
                acknowledged += came.acknowledged
    assert acknowledged > 20
    assert set(refused) == {"", "store_full", "store_unreachable"}
    assert refused["store_full"] > 2
    assert refused["store_unreachable"] > 2
