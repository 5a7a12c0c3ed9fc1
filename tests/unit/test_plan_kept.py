"""Under which records a plan is kept, where these change while it is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from aisb.domain.base_image import parse_base_image
from aisb.domain.wanted import Wanted
from aisb.effects.image_inputs import known_inputs
from aisb.effects.pins import read_pins, write_base_pin, write_node_pin
from aisb.effects.plan import Question, find_plan, fingerprint, keep_plan, note_images
from aisb.effects.situation import need_plan, spec_of
from aisb.render.images import image_names
from tests.fakes import FakeRunner, said
from tests.image_values import BOOTSTRAPPED, NODE_FROM_NPM
from tests.image_world import make_shop

if TYPE_CHECKING:
    from pathlib import Path

    from aisb.domain.images import ImageNames, PinnedBase
    from aisb.effects.process import Command, Finished
    from aisb.effects.workshop import Workshop

pytestmark = pytest.mark.usefixtures("profile")
BASE = parse_base_image("bootstrap:trixie")
NEXT = BOOTSTRAPPED._replace(generation="2026-11-30")
QUESTION = Question(
    Wanted("none", (), (), (), BASE.text, "", "", 600), "", "/p", "home", "user", "", "", (), "", fingerprint()
)


class Meanwhile(FakeRunner):
    """podman has every image; before it says so for the first time, somebody else's update comes to its end."""

    def __init__(self, cache: str) -> None:
        super().__init__(*[said("")] * 20)
        self._cache = cache

    def run(self, command: Command) -> Finished:
        """See `Runner.run`."""
        write_base_pin(self._cache, BASE, NEXT)
        return super().run(command)


def names_on(shop: Workshop, base: PinnedBase) -> ImageNames:
    known = known_inputs(shop.directories.cache, spec_of(QUESTION), base)
    assert known is not None
    return image_names(known)


def kept(shop: Workshop, question: Question = QUESTION) -> str | None:
    """The sandbox's image in the plan that answers the question now."""
    cache = shop.directories.cache
    plan = find_plan(cache, question._replace(pin=read_pins(cache, BASE.text)))
    return plan and plan.sandbox_image


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    """A workshop on a machine that has records of the base and of Node."""
    shop = make_shop(tmp_path)
    cache = shop.directories.cache
    write_base_pin(cache, BASE, BOOTSTRAPPED)
    write_node_pin(cache, "linux/amd64", NODE_FROM_NPM)
    return shop._replace(runner=Meanwhile(cache))


def test_a_plan_is_kept_for_the_next_run(shop: Workshop) -> None:
    note_images(shop.directories.cache, names_on(shop, BOOTSTRAPPED))

    assert need_plan(QUESTION, shop).sandbox_image == kept(shop) == names_on(shop, BOOTSTRAPPED).sandbox


def test_a_plan_from_older_records_answers_no_run_that_has_the_newer_ones(shop: Workshop) -> None:
    """Of an update that ended while a plan was made, every later run had the images of before it."""
    found = [(need_plan(QUESTION, shop).sandbox_image, kept(shop)) for _ in range(2)]

    before, after = names_on(shop, BOOTSTRAPPED).sandbox, names_on(shop, NEXT).sandbox
    assert found == [(before, None), (after, after)]


def test_a_plan_from_other_programs_is_not_kept_under_those_of_before(shop: Workshop) -> None:
    note_images(shop.directories.cache, names_on(shop, BOOTSTRAPPED))
    before = QUESTION._replace(programs="another version of them")

    need_plan(before, shop)

    assert kept(shop, before) is None


def test_where_the_images_of_a_plan_are_gone_and_the_records_are_others_a_new_one_is_made(shop: Workshop) -> None:
    cache = shop.directories.cache
    note_images(cache, names_on(shop, BOOTSTRAPPED))
    old = need_plan(QUESTION, shop)
    write_base_pin(cache, BASE, NEXT)
    keep_plan(
        cache,
        QUESTION._replace(pin=read_pins(cache, BASE.text)),
        old._replace(sandbox_image="localhost/aisb-sandbox:gone"),
    )

    assert need_plan(QUESTION, shop).sandbox_image == names_on(shop, NEXT).sandbox
