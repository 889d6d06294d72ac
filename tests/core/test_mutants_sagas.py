"""Small bugs in sagas: each of these tests is the one that finds some of them.

`tests/mutants/` lists the bugs; `make mutants` plants them one by one.
"""

from __future__ import annotations

import pytest

from placet.core.commands import Unknown
from placet.core.values import Recovery, Undoing
from tests.core.build import ALLOW, DONE, ENDED, LOST, RAISED, World, later, sound

BACK = Recovery(idempotent=True, roll_back=Undoing(safe_if_absent=True, idempotent=True))


@pytest.mark.promise("D8", "D4")
@pytest.mark.parametrize("first, then", [(ENDED, "UndoDue"), (LOST, "Unsettled")])
def test_what_the_body_of_an_earlier_attempt_may_do_yet_is_put_to_a_person_and_not_rolled_back(
    first: Unknown, then: str
) -> None:
    world = World()
    world.start(on_failure="compensate_earlier")
    world.propose(sound(0, ruling=ALLOW, recovery=BACK), sound(1, ruling=ALLOW))
    world.begin(0, snapshot="before")
    world.conclude(first, 0)
    later(world).begin(0)
    world.conclude(DONE, 0)
    world.begin(1)
    world.conclude(RAISED, 1)
    world.unwind(1)
    assert world.code(0) == then
