"""Small bugs in runs and in what holds what: each of these tests is the one that finds some.

`tests/mutants/` lists the bugs; `make mutants` plants them one by one.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from placet.core.commands import FinishRun
from placet.core.values import LEASE
from placet.core.work import Wait
from tests.core.build import ALLOW, ASK, HOUR, World, approve, asking, sound

MINUTE = timedelta(minutes=1)


@pytest.mark.promise("D5")
def test_a_driver_whose_lease_has_ended_is_refused_though_nobody_has_taken_it() -> None:
    world = World()
    world.start()
    step = world.proposal(sound(ruling=ALLOW))
    world.wait(LEASE)
    assert world.refused(step) == "stale_fence"
    world.wait(-timedelta(microseconds=1))
    assert world.apply(step)


@pytest.mark.promise("G6")
def test_a_run_is_not_ended_while_a_call_of_it_has_no_result() -> None:
    world = asking(ALLOW)
    finish = FinishRun(run="r1", fence=world.run().fence, stop="final", answer="done")
    assert world.refused(finish) == "calls_open"


@pytest.mark.promise("G9", "D2")
def test_a_run_is_looked_at_again_at_the_first_deadline_of_what_it_waits_for() -> None:
    world = asking(replace(ASK, lasts=2 * HOUR), ASK, replace(ASK, lasts=3 * HOUR))
    work = world.work()
    assert isinstance(work, Wait)
    assert work.until == world.asked(1).deadline_at == world.state.now + HOUR


@pytest.mark.promise("G8")
def test_a_framework_is_not_told_to_go_on_with_what_an_older_request_holds() -> None:
    world = World()
    world.start(kind="hosted", holder=None)
    world.propose(sound(0), sound(1))
    world.apply(approve(world.asked(1).id))
    work = world.work()
    assert isinstance(work, Wait)
    assert work.held_by == (world.asked(0).id,)
