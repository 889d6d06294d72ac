"""Small bugs in what an outcome means: each of these tests is the one that finds some of them.

`tests/mutants/` lists the bugs; `make mutants` plants them one by one.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from placet.core.commands import Lose, Probed
from placet.core.state import RetryDue
from placet.core.values import Recovery
from tests.core.build import (
    AGAIN,
    ALLOW,
    DONE,
    HOLDER,
    LOST,
    NOT_DONE,
    PROBED,
    RAISED,
    World,
    asking,
    at,
    executing,
    later,
)

SECOND = timedelta(seconds=1)
THRICE = Recovery(idempotent=True, retries=3)


@pytest.mark.promise("D4", "D8")
def test_what_may_have_acted_is_not_tried_again_however_often_it_may_be() -> None:
    world = executing(recovery=Recovery(retries=2))
    world.conclude(RAISED)
    assert world.code() == "tool_failed"
    assert "may have acted" in world.told()


@pytest.mark.promise("D8")
def test_each_pause_before_another_attempt_is_twice_the_one_before() -> None:
    world = executing(recovery=THRICE)
    pauses = []
    for _ in range(3):
        world.conclude(RAISED)
        state = world.call().state
        assert isinstance(state, RetryDue)
        pauses.append(state.again_at - world.state.now)
        later(world).begin()
    assert pauses == [SECOND, 2 * SECOND, 4 * SECOND]


@pytest.mark.promise("D4")
def test_attempts_that_did_nothing_do_not_speak_for_the_first_one() -> None:
    world = executing(recovery=THRICE)
    world.conclude(RAISED)
    for _ in range(3):
        later(world).begin()
        world.conclude(NOT_DONE)
    assert world.code() == "tool_failed"
    assert "may have acted" in world.told()


@pytest.mark.promise("D5", "D4")
def test_the_outcome_of_an_earlier_attempt_is_not_taken_for_the_present_ones() -> None:
    world = asking(ALLOW, ALLOW, recovery=AGAIN)
    world.begin()
    world.conclude(RAISED)
    later(world).begin()
    assert world.refused(world.concluding(DONE, attempt=1)) == "stale_attempt"
    assert world.code() == "Executing"


@pytest.mark.promise("D5", "D4")
def test_who_drives_a_run_does_not_give_up_an_attempt_of_its_own() -> None:
    world = executing()
    mine = Lose(at=at(), attempt=1, fence=world.run().fence, cause="it takes long", gone=None)
    assert world.refused(mine) == "call_executing"
    assert world.refused(replace(mine, gone=HOLDER)) == "call_executing"


# --- probes -------------------------------------------------------------------------------------


def probed(world: World, *, happened: bool | None, fence: int | None = None) -> Probed:
    """Give what a probe found, of a body that is seen to be gone."""
    fence = world.run().fence if fence is None else fence
    attempt = world.call().attempts
    return Probed(at=at(), attempt=attempt, fence=fence, happened=happened, body_gone=True)


@pytest.mark.promise("D5")
@pytest.mark.parametrize("happened", [True, False, None])
def test_what_the_probe_of_a_former_driver_found_is_refused(happened: bool | None) -> None:
    world = executing(recovery=PROBED)
    world.conclude(LOST)
    stale = world.run().fence - 1
    assert world.refused(probed(world, happened=happened, fence=stale)) == "stale_fence"
    assert world.code() == "Lost"


@pytest.mark.promise("D4")
def test_a_probe_says_nothing_of_what_the_body_of_an_earlier_attempt_may_do_yet() -> None:
    world = executing(recovery=Recovery(idempotent=True, probe=True))
    while True:
        world.conclude(LOST)
        if world.code() == "Lost":
            break
        later(world).begin()
    world.apply(probed(world, happened=False))
    assert world.code() == "Unsettled"
    assert world.asked().kind == "settlement"
