"""Which files read as empty inside."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from aisb.domain.masks import is_masked, parse_mask
from aisb.effects import survey
from aisb.effects.placeholders import Claim
from aisb.effects.shield import Wishes, look
from aisb.effects.tree import Tree
from aisb.errors import UsageError
from aisb.render.shield import shield_lines
from tests.unit.test_no_permission import WITHOUT_PRIVILEGE

if TYPE_CHECKING:
    from pathlib import Path

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nx\n"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nPRIVATE KEY\n"
FILES = {
    ".env": "A=1",
    ".env.local": "A=1",
    ".env.example": "A=",
    ".env.sample": "",
    ".env.template": "",
    "a/.env.dist": "",
    "a/.env": "A=1",
    "a/b/.env": "A=1",
    "a/b/c/.env": "A=1",
    "env": "",
    ".envrc": "",
    "a/server.pem": KEY,
    "a/ca.pem": CERTIFICATE,
    "a/x.key": "-----BEGIN PRIVATE KEY-----\n",
    "id_rsa": KEY,
    "id_rsa.pub": "ssh-rsa x\n",
    "notes.txt": KEY,
    "node_modules/x/.env": "A=1",
    ".venv/pyvenv.cfg": "",
    ".venv/lib/x.pem": KEY,
    "py/pyvenv.cfg": "",
    "py/.env": "",
    ".git/HEAD": "",
    ".git/x.pem": KEY,
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with files of every kind."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def masked(project: Path, wishes: Wishes) -> list[str]:
    """What is masked, from the project on."""
    with Tree(str(project)) as tree:
        shield = look(tree, "/project", wishes, None)
    return sorted(mask.target.removeprefix("/project/") for mask in shield.masks if mask.shown)


def test_by_default_it_is_what_holds_secrets_by_its_name_and_first_line(project: Path) -> None:
    """Three levels deep, without examples, certificates, public keys, and what others have put there."""
    assert masked(project, Wishes()) == [
        ".env", ".env.local", "a/.env", "a/b/.env", "a/server.pem", "a/x.key", "id_rsa",
    ]  # fmt: skip


def test_neither_a_crowd_of_names_nor_its_size_shows_a_key(tmp_path: Path) -> None:
    for number in range(350):
        (tmp_path / f"{number:03}.key").touch()
    (tmp_path / "server.key").write_text(KEY)
    (tmp_path / "with-chain.pem").write_text(KEY + "x" * 1_000_000)

    assert masked(tmp_path, Wishes()) == ["server.key", "with-chain.pem"]


def test_others_are_masked_where_they_are_named(project: Path) -> None:
    """By name, by a path with patterns, or by a whole path however deep; a directory as a whole."""
    wishes = Wishes(masks=("notes.*", "a/*/c", "a/b/c/.env", "*/ca.pem", "nothing"), default_masks=False)

    assert masked(project, wishes) == ["a/b/c", "a/b/c/.env", "a/ca.pem", "notes.txt"]


def test_the_directories_around_a_mask_are_mount_points_unless_a_cover_has_them(project: Path) -> None:
    """And none below a read-only one: over itself it would be writable again."""
    (project / ".pi/sub").mkdir(parents=True)
    (project / ".pi/sub/.env").write_text("A=1")
    with Tree(str(project)) as tree:
        shield = look(tree, "/project", Wishes(), None)

    around = [mask.target for mask in shield.masks if not mask.shown]
    assert around == ["/project/a", "/project/a/b"]
    assert "/project/.pi/sub/.env" in [mask.target for mask in shield.masks]
    assert not {mask.target for mask in shield.masks} & {cover.target for cover in shield.covers}


def test_what_no_mount_takes_the_name_of_is_said(tmp_path: Path) -> None:
    (tmp_path / "a\nb").mkdir()
    (tmp_path / "a\nb/.env").write_text("A=1")

    with Tree(str(tmp_path)) as tree:
        shield = look(tree, "/project", Wishes(), None)

    assert (shield.masks, shield.bare) == ((), ("a\nb/.env",))
    assert shield_lines(shield.masks, None, (), shield.bare) == [
        r"warning: not masked, for a line break or bytes in the name: a\nb/.env"
    ]


def test_what_a_link_in_the_project_leads_to_is_masked(tmp_path: Path) -> None:
    """A name that is masked says so of its content, wherever that is; a directory is masked by a flag alone."""
    for name in ("deploy/prod", "keys/deploy", "private/a"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(KEY)
    for name, target in {
        ".env": "deploy/prod",
        "id_x": "keys/deploy",
        "a/.env": "../private",
        "vault": "private",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).symlink_to(target)

    assert masked(tmp_path, Wishes()) == ["deploy/prod", "keys/deploy"]
    assert masked(tmp_path, Wishes(masks=("vault",), default_masks=False)) == ["private"]
    assert masked(tmp_path, Wishes(masks=("a/.env",), default_masks=False)) == ["private"]


def test_a_link_is_not_masked_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "secret").write_text("A=1")
    (tmp_path / "p/.env").symlink_to("../secret")

    assert masked(tmp_path / "p", Wishes(masks=(".env",))) == []


def test_what_is_not_there_has_nothing_mounted_around_it(project: Path) -> None:
    """podman could not."""
    with Tree(str(project)) as tree:
        shield = look(tree, "/project", Wishes(masks=("none/at/all", "a/none"), default_masks=False), None)

    assert shield.masks == ()


def test_what_is_protected_and_masked_is_masked(project: Path) -> None:
    with Tree(str(project)) as tree:
        shield = look(tree, "/project", Wishes(masks=(".envrc",), default_masks=False), None)

    assert [mask.target for mask in shield.masks] == ["/project/.envrc"]
    assert "/project/.envrc" not in [cover.target for cover in shield.covers]


@pytest.mark.parametrize("text", ["", "/etc/x", "../x", "a/../b", "a//b", "a/", "a\nb", "."])
def test_what_can_match_nothing_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"--mask {text!r} is not a pattern")):
        parse_mask(text, "--mask")


def test_a_star_stays_within_a_part_of_the_path() -> None:
    assert is_masked("a/b.txt", ["a/*.txt"])
    assert is_masked("x/y/b.txt", ["b.*"])
    assert not is_masked("a/c/b.txt", ["a/*.txt", "*/b.txt", "a"])


def test_what_was_masked_once_is_masked_again_however_it_is_hidden(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent makes a directory look like a virtual environment, or has more files than are looked at."""
    (project / "z").mkdir()
    (project / "z/.env").write_text("A=1")
    (project / "z/.git").mkdir()
    (project / "z/.git/config").write_text("")

    def of_a_run() -> tuple[list[str], list[str]]:
        claim = Claim(str(tmp_path.parent / f"{tmp_path.name}-state"), str(project))
        claim.take()
        with Tree(str(project)) as tree:
            shield = look(tree, "/project", Wishes(), claim)
        claim.release()
        masks = [mask.target for mask in shield.masks if mask.shown]
        return masks, [cover.target for cover in shield.covers if "z/.git" in cover.target]

    first = of_a_run()
    (project / "z/pyvenv.cfg").write_text("")
    assert sorted(of_a_run()[0]) == sorted(first[0])
    (project / "z/pyvenv.cfg").unlink()
    (project / "crowd").mkdir()
    monkeypatch.setattr(survey, "MOST_ENTRIES", 40)
    for number in range(survey.MOST_ENTRIES):
        (project / f"crowd/{number}").touch()

    again = of_a_run()

    assert "/project/z/.env" in again[0]
    assert again[1] == first[1] != []


LOOK = """
import sys
from aisb.effects.placeholders import Claim
from aisb.effects.shield import Wishes, look
from aisb.effects.tree import Tree
from aisb.errors import Unprotected
state, project = sys.argv[1:]
claim = Claim(state, project)
claim.take()
try:
    with Tree(project) as tree:
        look(tree, "/project", Wishes(), claim)
except Unprotected as error:
    print(error.message)
claim.release()
"""


def test_what_is_behind_a_directory_that_was_closed_is_not_forgotten(project: Path, tmp_path: Path) -> None:
    """Its agent opens it again, in the next run; nor does a crowd of other files push it out of what is remembered."""
    words = [*WITHOUT_PRIVILEGE, sys.executable, "-c", LOOK, f"{tmp_path}-state", str(project)]
    said = []

    (project / "z").mkdir()
    (project / "z/.env").write_text("A=1")
    for mode, crowd in ((0o755, 0), (0o000, 310), (0o755, 0)):
        (project / "z").chmod(mode)
        for number in range(crowd):
            (project / f".env.{number}").touch()
        said.append(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
        (project / "z").chmod(0o755)

    assert said == [
        "",
        f"{project}/z is closed to you (its mode is 0000), so that nothing protects what is in it\n",
        "",
    ]


def test_a_key_is_one_however_its_name_is_written(tmp_path: Path) -> None:
    for name in ("SERVER.PEM", "Id_rsa", "a\nb.key"):
        (tmp_path / name).write_text(KEY)
    with Tree(str(tmp_path)) as tree:
        shield = look(tree, "/project", Wishes(), None)

    assert sorted(mask.target for mask in shield.masks) == ["/project/Id_rsa", "/project/SERVER.PEM"]
    assert shield.bare == ("a\nb.key",)
