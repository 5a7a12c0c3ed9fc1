"""Which directories may be a project."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisb.domain.project import check_project, home_volume
from aisb.errors import UsageError

HOME = "/home/u"
OWN = (
    "/run/user/1000/aisb",
    "/home/u/.cache/ai-sandbox",
    "/home/u/.local/state/ai-sandbox",
    "/home/u/.config/ai-sandbox",
)


@pytest.mark.parametrize("path", ["/home/u/src/x", "/srv/x", "/tmp/x", "/var/www/site", "/home/u/a:b", "/home/u/-rf"])
def test_an_ordinary_directory_may_be_a_project(path: str) -> None:
    assert check_project(path, home=HOME, own=OWN) == path


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/", "system directory"),
        ("/home", "system directory"),
        ("/etc", "system directory"),
        ("/etc/x/y", "system directory"),
        ("/usr/src/x", "system directory"),
        ("/tmp", "system directory"),
        ("/root", "system directory"),
        ("/home/u", "holds your home directory"),
        ("/home/u/.ssh", "credentials"),
        ("/home/u/.gnupg/x", "credentials"),
        ("/home/u/.password-store", "credentials"),
        ("/home/u/.mozilla/firefox/x", "credentials"),
        ("/home/u/.config/gcloud", "credentials"),
        ("/home/u/.config/gh", "credentials"),
        ("/home/u/.config", "decides what a sandbox may do"),
        ("/home/u/.local", "decides what a sandbox may do"),
        ("/home/u/.local/state/ai-sandbox/runs", "decides what a sandbox may do"),
        ("/home/u/a\nb", "line break"),
        ("/home/u/\udcff", "not UTF-8"),
    ],
)
def test_what_holds_more_than_a_project_is_refused(path: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        check_project(path, home=HOME, own=OWN)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/home/u/bin", "/home/u/bin decides what a sandbox may do or what runs outside of it"),
        (
            "/home/u/bin/x",
            "/home/u/bin/x holds or lies in /home/u/bin, which decides what a sandbox may do or what runs outside of it",
        ),
    ],
)
def test_what_runs_as_the_user_is_no_project(path: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_project(path, home=HOME, own=("/home/u/bin",))
    assert caught.value.message == message


@given(st.text())
def test_a_home_volume_has_a_name_that_podman_takes(path: str) -> None:
    assert re.fullmatch(r"aisb-home-[a-z0-9][a-z0-9-]*-[0-9a-f]{16}", home_volume("/" + path))
