"""What may be mounted besides the project, and where."""

from __future__ import annotations

import os
import re
import socket
from typing import TYPE_CHECKING

import pytest

from aisb.domain.layers import Setting
from aisb.domain.mounts import MountWish, check_target, default_target, parse_mount
from aisb.domain.protected import DIRECTORY, FILE, Cover
from aisb.effects.guard import Root
from aisb.effects.mounts import Around, Placed, find_places, need_no_bypass, need_own_targets
from aisb.effects.run import covered_sources, roots_to_guard
from aisb.effects.shield import Shield, Wishes
from aisb.errors import AisbError, Untrusted, UsageError
from tests.unit.jobs import JOB

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/a", ("/a", "", True)),
        ("/a:rw", ("/a", "", False)),
        ("/a:ro", ("/a", "", True)),
        ("/a:/b", ("/a", "/b", True)),
        ("a b:/b c:rw", ("a b", "/b c", False)),
        ("~/x", ("~/x", "", True)),
        ("./ro", ("./ro", "", True)),
        ("type=bind,src=/a:b,dst=/c:d", ("/a:b", "/c:d", True)),
        ("type=bind,source=/a,target=/b,rw", ("/a", "/b", False)),
        ("type=bind,source=/a,destination=/b,readonly=false", ("/a", "/b", False)),
        ("type=bind,src=/a,ro=true", ("/a", "", True)),
        ('type=bind,"src=/a,b ""c""",dst=/b,ro', ('/a,b "c"', "/b", True)),
        ("type=bind,src=a=b,dst=/b", ("a=b", "/b", True)),
    ],
)
def test_both_forms_are_read(text: str, expected: tuple[str, str, bool]) -> None:
    """What is not said to be writable is not."""
    assert parse_mount(text, "--mount") == MountWish(*expected, "--mount")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("/a:/b:wr", "did you mean :rw? write: /a:/b:rw"),
        ("/a:w", "did you mean :rw? write: /a:rw"),
        ("/a:/b:readonly", "did you mean :ro? write: /a:/b:ro"),
    ],
)
def test_of_what_is_almost_a_mode_the_mode_is_named(text: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_mount(text, "--mount")
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "names no source"),
        (":/b", "names no source"),
        ("/a:", "has an empty target"),
        ("/a::rw", "has an empty target"),
        ("/a:b", "does not begin with a slash"),
        ("/a:/b:z", "more colons"),
        ("/a:/b:wr", "wr is no mode"),
        ("/a:RO", "RO is no mode"),
        ("/a:/b:ro:rw", "more colons"),
        ("/a:/b/../c", "not a whole path in its plain form"),
        ("/a:/b/", "not a whole path in its plain form"),
        ("/a://etc", "not a whole path in its plain form"),
        ("type=bind,src=/a,dst=//run/aisb", "not a whole path in its plain form"),
        ("/a\n/b", "has a line break or is not UTF-8"),
        ("/a:/b\udcff", "has a line break or is not UTF-8"),
        ("type=volume,src=x,dst=/b", "is not of the type bind"),
        ("type=tmpfs,dst=/b", "is not of the type bind"),
        ("type=bind,dst=/b", "names no source"),
        ("type=bind,src=/a,dst=", "has an empty target"),
        ("type=bind,src=/a,src=/b", "said twice"),
        ("type=bind,src=/a,ro,rw", "said twice"),
        ("type=bind,src=/a,relabel=shared", "is not understood"),
        ("type=bind,src=/a,bind-propagation=shared", "is not understood"),
        ("type=bind,src=/a,U=true", "is not understood"),
        ('type=bind,"src=/a', "has a quote that does not end"),
        ('type=bind,"src=/a"x,dst=/b', "has a quote that does not end"),
        ("type=bind,src=/a,", "is not understood"),
    ],
)
def test_what_is_neither_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        parse_mount(text, "--mount")


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/home/u/x/y", "/home/sandbox/x/y"),
        ("/home/u/p/data", "/project/data"),
        ("/srv/data", "/srv/data"),
        ("/home/user2/x", "/home/user2/x"),
    ],
)
def test_a_place_that_nobody_named(path: str, target: str) -> None:
    assert default_target(path, project="/home/u/p", home="/home/u") == target


@pytest.mark.parametrize(
    "target",
    ["/", "/bin", "/dev", "/dev/x", "/etc", "/etc/passwd", "/etc/aisb", "/home", "/home/sandbox", "/lib/x", "/proc",
     "/project", "/run", "/run/aisb", "/run/aisb/gate", "/run/user/1000", "/sys/fs", "/usr", "/usr/libexec/aisb",
     "/usr/local/bin", "/var", "/var/run/x"],
)  # fmt: skip
def test_what_would_hide_what_encloses_the_sandbox_is_refused(target: str) -> None:
    """C29."""
    with pytest.raises(UsageError, match=f"nothing may be mounted at {target},"):
        check_target(target, "--mount")


@pytest.mark.parametrize("target", ["/home/sandbox/.cache", "/project/data", "/mnt", "/opt/x", "/usrx", "/etc2", "/x"])
def test_other_targets_are_free(target: str) -> None:
    check_target(target, "--mount")


@pytest.fixture
def around(tmp_path: Path) -> Around:
    """A home with a project, with what aisb and podman have there."""
    for name in ("home/p/data", "home/.ssh", "home/state", "home/.local/bin", "home/volumes/v", "home/x"):
        (tmp_path / name).mkdir(parents=True)
    home = f"{tmp_path}/home"
    return Around(f"{home}/p", home, (f"{home}/state",), (f"{home}/.local/bin",), f"{home}/volumes")


def places(around: Around, *texts: str) -> list[tuple[str, str, str]]:
    """What would be mounted: source, target, how; below the home and the temporary directory."""
    top = os.path.dirname(around.home)
    found = find_places([parse_mount(text, "--mount") for text in texts], around)
    return [(item.source.removeprefix(top), item.target, "ro" if item.read_only else "rw") for item in found]


def test_two_slashes_at_the_beginning_are_one(around: Around) -> None:
    """To the kernel they are: a source of that form was mounted over what encloses the sandbox."""
    with pytest.raises(UsageError, match="nothing may be mounted at /etc/"):
        places(around, "//etc/hostname")
    assert places(around, f"/{around.home}/x") == [("/home/x", "/home/sandbox/x", "ro")]


def test_a_link_is_resolved_and_keeps_its_name_inside(around: Around) -> None:
    os.symlink("x", f"{around.home}/link")

    assert places(around, f"{around.home}/link:rw", f"{around.home}/p/data:/data") == [
        ("/home/p/data", "/data", "ro"),
        ("/home/x", "/home/sandbox/link", "rw"),
    ]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("~/gone", "No such file or directory"),
        ("~", "holds your home directory"),
        ("~/..", "holds your home directory"),
        ("/", "holds your home directory"),
        ("/run", "has the system's own sockets and devices"),
        ("/proc/self", "has the system's own sockets and devices"),
        ("/dev/null", "has the system's own sockets and devices"),
        ("~/state", "decides what a sandbox may do"),
        ("~/state/runs", "No such file or directory"),
        ("~/.local/bin:/b:rw", "decides what a sandbox may do"),
        ("~/.local:/b:rw", "decides what a sandbox may do"),
        ("~/.ssh:/s:rw", "not to be mounted writable"),
    ],
)
def test_some_sources_are_refused(around: Around, monkeypatch: pytest.MonkeyPatch, source: str, message: str) -> None:
    monkeypatch.setenv("HOME", around.home)

    with pytest.raises(UsageError, match=re.escape(message)):
        places(around, source if ":" in source else f"{source}:/m/x")


def test_a_source_in_the_project_that_leads_out_of_it_is_refused(around: Around) -> None:
    """A70: the agent made it a link in an earlier run."""
    os.rmdir(f"{around.project}/data")
    os.symlink(f"{around.home}/.ssh", f"{around.project}/data")

    with pytest.raises(Untrusted, match=re.escape(f"leads through the project to {around.home}/.ssh")):
        places(around, f"{around.project}/data:/data:ro")


def test_a_source_in_a_home_of_a_sandbox_is_refused(around: Around) -> None:
    with pytest.raises(Untrusted, match="where agents write their homes"):
        places(around, f"{around.volumes}/v:/v")


def test_a_directory_with_sockets_is_mounted_file_by_file(around: Around, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no socket appears, whenever it is made; nor does a link. ~/.ssh is, even without any; so without a project."""
    for name in ("x", ".ssh"):
        os.makedirs(f"{around.home}/{name}/sub")
        for file in ("a", "sub/b"):
            with open(f"{around.home}/{name}/{file}", "w", encoding="ascii"):
                pass
    os.symlink("a", f"{around.home}/x/link")
    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir(f"{around.home}/x")
        listener.bind("agent.sock")

    for each in (around, around._replace(project="")):
        assert places(each, f"{around.home}/x", f"{around.home}/.ssh") == [
            (f"/home/{name}/{file}", f"/home/sandbox/{name}/{file}", "ro")
            for name in (".ssh", "x")
            for file in ("a", "sub/b")
        ]
    assert places(around, f"{around.home}/x/agent.sock:/m/agent") == [("/home/x/agent.sock", "/m/agent", "ro")]


def test_a_place_in_the_project_must_be_there(around: Around) -> None:
    """podman would make one on the host, of an owner that is nobody here; a link there leads elsewhere."""
    os.symlink("data", f"{around.project}/link")

    assert places(around, f"{around.home}/x:/project/data") == [("/home/x", "/project/data", "ro")]
    for target in ("/project/none", "/project/link", "/project/link/x"):
        with pytest.raises(UsageError, match=r"there is no directory .* to mount .* over"):
            places(around, f"{around.home}/x:{target}")


def test_two_mounts_at_one_place_are_refused(around: Around) -> None:
    with pytest.raises(UsageError, match="two mounts at /m"):
        places(around, f"{around.home}/x:/m", f"{around.project}/data:/m")


SECRET = "/p/secret/.env"


def covered(source: str, target: str = "/project/x") -> Cover:
    """What is protected or masked, of which only the places count."""
    return Cover(source, target, DIRECTORY, read_only=True, identity="1 2")


def test_what_is_covered_in_the_mount_too_is_no_other_way() -> None:
    """As with a repository of its own that is mounted writable."""
    need_no_bypass([placed("/lib", "/m", read_only=False)], [covered("/lib/.git/hooks", "/m/.git/hooks")], [])


def placed(source: str, target: str, *, read_only: bool) -> Placed:
    """A mount of which only the places count."""
    return Placed(source, source, target, read_only, "1 2", is_directory=True)


def test_what_is_mounted_over_no_other_agent_may_be_able_to_replace() -> None:
    """Covers, what lies around masks, the policy's directory, and the places of mounts, in the project and in others."""
    places = (placed("/x", "/project/data", read_only=False), placed("/y", "/project/data/in", read_only=True))
    job = JOB._replace(project="/p", policy_directory="1 2", places=places)
    shield = Shield(
        covers=(Cover("/p/.git", "/project/.git", DIRECTORY, False, ""),),
        masks=(
            Cover("/p/sub", "/project/sub", DIRECTORY, False, ""),
            Cover("/p/sub/.env", "/project/sub/.env", FILE, True, "", "nothing"),
        ),
    )

    assert covered_sources(job, shield) == ["/p/.ai-sandbox", "/p/.git", "/p/sub", "/p/data", "/p/data/in", "/x/in"]


@pytest.mark.parametrize(
    ("source", "read_only", "is_fit"),
    [
        ("/p/data", False, True),
        ("/p/.git", False, False),
        ("/p/.git/hooks/sub", False, False),
        ("/p", False, False),
        ("/p/.git", True, True),
        ("/p/secret", True, False),
        ("/p/secret/.env", True, False),
    ],
)
def test_no_mount_is_another_way_to_what_is_protected_or_masked(source: str, read_only: bool, is_fit: bool) -> None:
    try:
        need_no_bypass([placed(source, "/m", read_only=read_only)], [covered("/p/.git/hooks")], [covered(SECRET)])
        assert is_fit
    except AisbError:
        assert not is_fit


def test_in_a_writable_mount_names_are_masked_as_in_the_project() -> None:
    """Paths mean the project's own, and what is protected in it or not. A read-only mount shows what it was named for."""
    wishes = Wishes((), (Setting(".git", "--unprotect"),), ("*.secret", "a/b"), home="/h", git_files=("/h/.gitconfig",))
    places = (placed("/x", "/m/x", read_only=False), placed("/y", "/m/y", read_only=True))

    assert roots_to_guard("/p", "/project", wishes, places) == [
        Root("/p", "/project", wishes),
        Root("/x", "/m/x", Wishes(masks=("*.secret",), home="/h", git_files=("/h/.gitconfig",))),
    ]


def test_no_mount_lies_on_what_is_protected() -> None:
    need_own_targets([placed("/a", "/project/.git2", read_only=True)], ["/project/.git"])
    for target in ("/project/.git", "/project/.git/hooks"):
        with pytest.raises(UsageError, match="which is protected or masked"):
            need_own_targets([placed("/a", target, read_only=True)], ["/project/.git"])
