"""A run whose image somebody has removed since it was last seen: once more, with what is there then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from aisb.cli.run import run_with_images
from aisb.domain.net import ALLOW
from aisb.effects.pins import write_base_pin, write_node_pin
from aisb.effects.plan import note_images
from aisb.effects.run import Ended
from aisb.effects.situation import need_plan
from aisb.effects.supervise import EXEC, Outcome
from aisb.errors import Unavailable
from tests.fakes import FakeRunner, said
from tests.image_values import BOOTSTRAPPED, NODE_FROM_NPM
from tests.image_world import make_shop
from tests.unit.test_plan_kept import BASE, NEXT, QUESTION, names_on

if TYPE_CHECKING:
    from pathlib import Path

    from aisb.effects.plan import Plan
    from aisb.effects.process import Finished
    from aisb.effects.workshop import Workshop

pytestmark = pytest.mark.usefixtures("profile")
# podman's own, before it has started anything; and a command's, which may be the same number.
NOT_STARTED = Ended(Outcome(125, {}, ""), ())
COMMANDS_OWN = Ended(Outcome(125, {EXEC: 1.0}, ""), ())
WELL = Ended(Outcome(0, {EXEC: 1.0}, ""), ())
NO_GATE = Unavailable("the gate does not start")
THERE, GONE = said(""), said("", 1)
SAID = "aisb: an image was removed since the last run: looking at both again\n"


class Starts:
    """What comes of each start in turn; the plans that were started."""

    def __init__(self, *answers: Ended | Unavailable) -> None:
        self._answers = list(answers)
        self.plans: list[Plan] = []

    def __call__(self, plan: Plan) -> Ended:
        """The next one."""
        self.plans.append(plan)
        answer = self._answers.pop(0)
        if isinstance(answer, Unavailable):
            raise answer
        return answer


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    """A machine on which both images were seen."""
    shop = make_shop(tmp_path)
    write_base_pin(shop.directories.cache, BASE, BOOTSTRAPPED)
    write_node_pin(shop.directories.cache, "linux/amd64", NODE_FROM_NPM)
    note_images(shop.directories.cache, names_on(shop, BOOTSTRAPPED))
    return shop


def exists(*images: str) -> list[tuple[str, ...]]:
    """podman is asked for these."""
    return [("/usr/bin/podman", "image", "exists", image) for image in images]


@pytest.mark.parametrize("first", [NOT_STARTED, NO_GATE], ids=["podman ends", "the gate does not start"])
def test_an_image_that_somebody_removed_is_looked_for_anew(
    shop: Workshop, first: Ended | Unavailable, capsys: pytest.CaptureFixture[str]
) -> None:
    """And not believed to be there for having been seen: it is there again by then, or built."""
    plan = need_plan(QUESTION, shop)
    names = names_on(shop, BOOTSTRAPPED)
    runner, starts = FakeRunner(GONE, THERE, THERE), Starts(first, WELL)

    ended = run_with_images(starts, plan, QUESTION, shop._replace(runner=runner))

    assert (ended, starts.plans, capsys.readouterr().err) == (WELL, [plan, plan], SAID)
    assert runner.argvs == exists(plan.sandbox_image, *names)


def test_the_images_are_those_of_now(shop: Workshop) -> None:
    """An update may have removed the old ones: nothing else of the plan is another."""
    plan = need_plan(QUESTION, shop)
    write_base_pin(shop.directories.cache, BASE, NEXT)
    starts = Starts(NOT_STARTED, WELL)

    run_with_images(starts, plan, QUESTION, shop._replace(runner=FakeRunner(GONE, THERE, THERE)))

    now = names_on(shop, NEXT)
    assert starts.plans == [plan, plan._replace(sandbox_image=now.sandbox, gate_image=now.gate)]
    assert now.sandbox != plan.sandbox_image


@pytest.mark.parametrize(
    ("first", "answers"),
    [(NOT_STARTED, (THERE,)), (COMMANDS_OWN, ()), (WELL, ())],
    ids=["another trouble", "the command's own code", "well"],
)
def test_what_is_no_matter_of_images_is_not_tried_again(
    shop: Workshop, first: Ended, answers: tuple[Finished, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """A command that has begun is never run twice."""
    plan = need_plan(QUESTION, shop)
    runner, starts = FakeRunner(*answers), Starts(first)

    ended = run_with_images(starts, plan, QUESTION, shop._replace(runner=runner))

    assert (ended, starts.plans, capsys.readouterr().err) == (first, [plan], "")


def test_another_trouble_of_the_gates_stays_what_it_is(shop: Workshop) -> None:
    """Each image that the run needs is there: the gate's too."""
    plan, names = need_plan(QUESTION, shop)._replace(net=ALLOW), names_on(shop, BOOTSTRAPPED)
    runner, starts = FakeRunner(THERE, THERE), Starts(NO_GATE)

    with pytest.raises(Unavailable, match="the gate does not start"):
        run_with_images(starts, plan, QUESTION, shop._replace(runner=runner))

    assert (starts.plans, runner.argvs) == ([plan], exists(*names))


def test_it_is_tried_once_more_and_no_oftener(shop: Workshop) -> None:
    starts = Starts(NO_GATE, NO_GATE)

    with pytest.raises(Unavailable, match="the gate does not start"):
        run_with_images(
            starts, need_plan(QUESTION, shop), QUESTION, shop._replace(runner=FakeRunner(GONE, THERE, THERE))
        )

    assert len(starts.plans) == 2
