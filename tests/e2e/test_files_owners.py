"""Whose the files are that are made inside, what odd ones do to the host, and whose repository it is to git."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

import pytest

from tests.e2e.sandbox import outside
from tests.e2e.test_files_protected import NET, REPOSITORY

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

LEAVE = r"""
mknod null c 1 3; mknod disk b 7 0; ls null disk
mkfifo conftest.py .envrc .env.fifo
cp /bin/sh shell; chmod 6755 shell
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("Makefile")'
: >theirs; chown 0 theirs; chown 7:7 theirs; chgrp 7 theirs
mkdir "$(printf 'a\nb\033[31m')"; echo x >"$(printf 'a\nb\033[31m')/package.json"
"""


def test_special_files_that_are_left_in_the_project_are_the_users_and_do_nothing(lab: Lab) -> None:
    """
    No device can be made, nobody else's file, and nothing that is set-user-id; the end report and the next run wait for
    no pipe, and a name with a line break and an escape is shown as text. (A73)
    """
    result = lab.run(
        'aisb --net none -- sh -c "$LEAVE" 2>said; find . -not -user "$(id -un)" -o -not -group "$(id -gn)"; '
        "stat -c '%F %a' conftest.py .envrc shell Makefile; "
        "timeout 60 aisb -q --net none -- true; echo $?; cat said",
        env={"LEAVE": LEAVE},
    )

    *states, said = result.text.split("\n", 5)
    assert states == ["fifo 644", "fifo 644", "regular file 755", "socket 755", "0"], result.errors
    assert said.count("Operation not permitted") == 6
    assert said.splitlines()[-1] == r"aisb: changed, and may be run on this machine: a\nb\x1b[31m/package.json (new)"
    assert "\x1b" not in said


OWNED = """
git init -q /tmp/aisb-owned; git -C /tmp/aisb-owned -c user.name=a -c user.email=a@a.test commit -q --allow-empty -m one
chown -R aisb-lab:aisb-lab /tmp/aisb-owned; chgrp -R 4242 /tmp/aisb-owned/.git
echo theirs >/tmp/aisb-owned/root; echo theirs >/tmp/aisb-owned/.git/description
"""


def test_git_takes_the_users_own_repository_for_ones_own(lab: Lab) -> None:
    """As project and as a mount, of another group, and with root's files in it: no word of dubious ownership. (B09)"""
    lab.as_root(OWNED)
    try:
        result = lab.run(
            f"{REPOSITORY} {NET} --mount /tmp/aisb-owned:/m/owned:rw -- sh -c 'git log --format=%s; git -C /m/owned log --format=%s; "
            "git -C /m/owned status --short; stat -c %u /m/owned/root'; "
            f"{NET} --project /tmp/aisb-owned -- git log --format=%s"
        )
    finally:
        lab.as_root("rm -r /tmp/aisb-owned")

    assert result.text.splitlines() == ["one", "one", "?? root", "65534", "one"], result.errors
    assert result.errors == ""


CHANGE = """
mkdir made; echo new >made/file; chmod 640 made/file; ln -s made link; mkfifo pipe; echo more >>kept; chmod 600 kept; rm gone
chown 0 kept; chgrp 0 kept; chmod 4755 made/file; mv moved there
"""


def test_what_is_made_inside_is_the_callers_own(lab: Lab) -> None:
    """Whatever the caller's number: made, changed, renamed, removed; nobody else's can be made of it. (C31)"""
    result = lab.run(
        f'touch kept gone moved; {NET} -- sh -c "$CHANGE" 2>said; grep -c "not permitted" said; rm said; '
        'find . -not -user "$(id -un)" -o -not -group "$(id -gn)"; find . -printf "%M %P\\n" | sort -k 2; '
        f'{NET} -- sh -c "id -u; stat -c %u:%g kept"; id -u',
        env={"CHANGE": CHANGE},
    )

    *lines, inside, of_file, uid = result.text.splitlines()
    assert lines == [
        "3", "drwxr-xr-x ", "-rw------- kept", "lrwxrwxrwx link", "drwxr-xr-x made", "-rw-r----- made/file", "prw-r--r-- pipe",
        "-rw-r--r-- there",
    ]  # fmt: skip
    assert (inside, of_file) == ("1000", "1000:1000")
    assert uid != "1000"


@pytest.mark.parametrize(("uid", "gid"), [(1000, 1000), (1600000001, 4242)], ids=["the sandbox's own", "a directory's"])
def test_what_is_made_inside_is_of_any_callers_own(lab: Lab, uid: int, gid: int) -> None:
    """One whose number is that of the sandbox's user, and one of a directory service, of another group's number. (C31)"""
    command = (
        f"touch kept gone moved; aisb -q --allow cdn.test:9443 -- sh -c {quote(CHANGE)} 2>../said; grep -c 'not permitted' ../said; "
        f"find . -not -uid {uid} -o -not -gid {gid}; ls; {NET} -- sh -c 'id -u; stat -c %u:%g kept made/file'; "
        "podman rm --force --all --time 0 >/dev/null"
    )

    result = lab.run_as_other(outside("other_user"), command, uid, gid)

    lines = result.text.splitlines()
    assert lines == ["3", "kept", "link", "made", "pipe", "there", "1000", "1000:1000", "1000:1000"], result.errors


TEAM = """
mkdir -p /tmp/aisb-team/closed /tmp/aisb-team/open; chgrp 4242 /tmp/aisb-team/*; chmod 2770 /tmp/aisb-team/closed
chmod 2775 /tmp/aisb-team/open
"""


def test_what_is_open_to_a_group_alone_is_refused_with_the_reason(lab: Lab) -> None:
    """A sandbox has none of the caller's other groups: as a project, as a mount, and where it only cannot be written. (C31)"""
    lab.as_root(TEAM)
    try:
        closed = lab.run_as_member(
            "cd /tmp/aisb-team/closed; touch mine; aisb --net none -- touch ran; echo $?; ls", 4242
        )
        mounted = lab.run_as_member(
            "cd; aisb --no-cwd --net none --mount /tmp/aisb-team/closed:/m -- true; echo $?", 4242
        )
        readable = lab.run_as_member(
            "cd /tmp/aisb-team/open; aisb --net none --unprotect .pi --unprotect .husky -- touch ran", 4242
        )
    finally:
        lab.as_root("rm -r /tmp/aisb-team")

    why = "is open to you as a member of the group 4242 only, which no sandbox is"
    assert (closed.text.split(), closed.errors.splitlines()[0]) == (["2", "mine"], f"aisb: /tmp/aisb-team/closed {why}")
    assert (mounted.text, f"aisb: --mount /tmp/aisb-team/closed: /tmp/aisb-team/closed {why}" in mounted.errors) == (
        "2\n",
        True,
    )
    assert (
        "note: /tmp/aisb-team/open cannot be written inside: you may as a member of the group 4242" in readable.errors
    )
