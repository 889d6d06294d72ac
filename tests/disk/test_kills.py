"""SIGKILL at SQL statements and at calls on the store's files, in real processes (D3, D4, D8).

This is one in a hundred of the points, and each at which a commit has just been made to last; all
of them are `make sweep`.
"""

from __future__ import annotations

import pytest

from tests.disk.forge import Forge
from tests.disk.life import KINDS, Kind, Phase
from tests.disk.lives import Prepared, a_directory
from tests.disk.sweep import Tally, points_of, thinned, tried_with

EVERY = 100


@pytest.mark.slow
@pytest.mark.promise("D2", "D3", "D4", "D8", "G7")
@pytest.mark.conformance(2, 11)
@pytest.mark.parametrize("kind", KINDS)
def test_a_payment_whose_process_is_killed_anywhere_is_made_once_or_a_person_is_asked(
    forge: Forge, kind: Kind
) -> None:
    tallies: dict[Phase, Tally] = {}
    total = Tally()
    with a_directory() as root:
        prepared = Prepared(forge, kind, root)
        for phase in prepared.phases:
            tallies[phase] = Tally()
            for point in thinned(points_of(prepared, phase), EVERY):
                tallies[phase].add(tried_with(prepared, forge, point))
            total.add(tallies[phase])
    assert not total.wrong, "\n".join(total.wrong)
    assert total.twice == 0
    assert total.asked == total.points > 30
    assert total.survived == 0, "every point that was counted is come to again"
    if kind in ("plain", "compensate once"):
        assert 0 < tallies["resume"].settlements < tallies["resume"].points
    else:
        assert total.settlements == 0
