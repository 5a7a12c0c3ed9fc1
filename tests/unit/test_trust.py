"""What of a project's files counts: what its user has seen, to the byte, and nothing that came later."""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING

import pytest

from aisb.domain.source_files import SourceFile
from aisb.domain.trust import Change, changes, content_hash
from aisb.effects.trust import Asked, forget_record, need_trust, read_record, record_path, write_record
from aisb.errors import Unavailable, Untrusted
from aisb.render.difference import difference

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ALLOW = SourceFile(".ai-sandbox/allow", "a.test\n")
WIDER = SourceFile(".ai-sandbox/allow", "a.test\nevil.test\n")
POLICY = SourceFile(".ai-sandbox/policy.yaml", "version: 1\n")
NAMED = SourceFile("rules/x.yaml", "version: 1\n")


def says(answer: bool, seen: list[Asked]) -> Callable[[Asked], bool]:
    def agrees(asked: Asked) -> bool:
        seen.append(asked)
        return answer

    return agrees


def test_nothing_to_read_needs_no_trust_and_leaves_no_record(tmp_path: Path) -> None:
    need_trust("/p", str(tmp_path), (), "", None)

    assert list(tmp_path.iterdir()) == []


def test_without_a_person_what_is_new_is_refused_with_the_command(tmp_path: Path) -> None:
    with pytest.raises(Untrusted) as caught:
        need_trust("/home/u/my proj", str(tmp_path), (ALLOW, NAMED), "", None)
    assert caught.value.exit_code == 78
    assert caught.value.message == ".ai-sandbox/allow is new; rules/x.yaml is new: nobody has trusted this"
    assert caught.value.hint == (
        "look at it and say so: aisb trust --project '/home/u/my proj' rules/x.yaml\n"
        f"or, in a script that knows what is in it: --trust-once {content_hash((ALLOW, NAMED))}"
    )


def test_what_a_person_agreed_to_counts_until_it_changes(tmp_path: Path) -> None:
    """(A59) Asked once; another byte is asked about with what it differs by; no is no, and is not remembered."""
    seen: list[Asked] = []

    need_trust("/p", str(tmp_path), (ALLOW,), "", says(True, seen))
    need_trust("/p", str(tmp_path), (ALLOW,), "", None)
    for _ in range(2):
        with pytest.raises(Untrusted, match="has changed"):
            need_trust("/p", str(tmp_path), (WIDER,), "", says(False, seen))
    need_trust("/p", str(tmp_path), (ALLOW,), "", None)

    change = Change(ALLOW.name, ALLOW.text, WIDER.text)
    assert seen == [
        Asked("/p", (ALLOW,), (Change(ALLOW.name, None, ALLOW.text),)),
        Asked("/p", (WIDER,), (change,)),
        Asked("/p", (WIDER,), (change,)),
    ]


def test_another_project_with_the_same_content_is_not_trusted(tmp_path: Path) -> None:
    write_record(str(tmp_path), "/p", (ALLOW,))

    with pytest.raises(Untrusted):
        need_trust("/q", str(tmp_path), (ALLOW,), "", None)


def test_a_file_of_the_project_that_is_gone_is_a_change(tmp_path: Path) -> None:
    """With a policy file go its denials: all that is gone would leave the host as open as a flag says."""
    write_record(str(tmp_path), "/p", (ALLOW, POLICY))

    for left in ((ALLOW,), ()):
        with pytest.raises(Untrusted, match=r"\.ai-sandbox/policy\.yaml is gone"):
            need_trust("/p", str(tmp_path), left, "", None)


def test_a_file_that_only_a_flag_names_is_remembered_beside_the_others(tmp_path: Path) -> None:
    """A run without the flag is not asked about it, and one with it again is not either."""
    write_record(str(tmp_path), "/p", (ALLOW, NAMED))
    need_trust("/p", str(tmp_path), (ALLOW,), "", None)

    write_record(str(tmp_path), "/p", (WIDER,))

    need_trust("/p", str(tmp_path), (WIDER, NAMED), "", None)
    with pytest.raises(Untrusted, match=r"^rules/x\.yaml has changed"):
        need_trust("/p", str(tmp_path), (WIDER, NAMED._replace(text="else")), "", None)


def test_a_script_trusts_one_content_for_one_run(tmp_path: Path) -> None:
    once = content_hash((ALLOW,))

    need_trust("/p", str(tmp_path), (ALLOW,), once, None)

    assert list(tmp_path.iterdir()) == []
    write_record(str(tmp_path), "/p", (WIDER,))
    with pytest.raises(Untrusted, match="not those that were seen") as caught:
        need_trust("/p", str(tmp_path), (WIDER,), once, None)
    assert caught.value.hint == f"look at them; their hash now is {content_hash((WIDER,))}"


def test_the_record_is_private_and_forgotten_whole(tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    write_record(state, "/p", (ALLOW,))
    path = record_path(state, "/p")

    modes = [stat.S_IMODE(os.stat(place).st_mode) for place in (path, os.path.dirname(path), state)]
    assert modes == [0o600, 0o700, 0o700]
    assert (forget_record(state, "/p"), forget_record(state, "/p"), read_record(state, "/p")) == (True, False, {})


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{", id="cut off"),
        pytest.param(b"[]", id="something else"),
        pytest.param(b"\xff", id="no text"),
        pytest.param(json.dumps({"version": 2, "project": "/p", "files": {}}).encode(), id="another version"),
        pytest.param(json.dumps({"version": 1, "project": "/q", "files": {}}).encode(), id="another project"),
        pytest.param(json.dumps({"version": 1, "project": "/p", "files": {"a": 1}}).encode(), id="no texts"),
        pytest.param(json.dumps({"version": 1, "project": "/p"}).encode(), id="no files"),
    ],
)
def test_a_record_that_cannot_be_read_is_no_answer(tmp_path: Path, text: bytes) -> None:
    """69, not 78, and never "nothing was trusted": that would hide a file that is gone."""
    write_record(str(tmp_path), "/p", (ALLOW,))
    with open(record_path(str(tmp_path), "/p"), "wb") as file:
        file.write(text)

    with pytest.raises(Unavailable, match="the record of what was trusted, cannot be read") as caught:
        need_trust("/p", str(tmp_path), (ALLOW,), "", says(True, []))
    assert caught.value.hint == "forget it: aisb trust --revoke"
    assert forget_record(str(tmp_path), "/p")


def test_the_difference_hides_nothing() -> None:
    """A carriage return ends a line for the parsers, so it does here; what cannot be seen is spelled out."""
    old = "# mine\na.test\n"
    new = "# mine\revil.test\n\x1b[2Ja.test\n\udcff\u202ex"

    assert difference(
        [Change("a\x1b", old, new), Change("b", None, "x\n"), Change("c", "y\n", None)], colour=False
    ) == (
        "a\\x1b has changed\n"
        "@@ -1,2 +1,4 @@\n"
        " # mine\n"
        "-a.test\n"
        "+evil.test\n"
        "+\\x1b[2Ja.test\n"
        "+\\udcff\\u202ex\n"
        "b is new\n"
        "@@ -0,0 +1 @@\n"
        "+x\n"
        "c is gone\n"
        "@@ -1 +0,0 @@\n"
        "-y\n"
    )


def test_lines_that_look_alike_are_two() -> None:
    """Shown as they can be told apart, or at least both."""
    old, new = "# \\xad\na.test \n", "# \xad\na.test \u3164\n"

    assert difference([Change("a", old, new)], colour=False).splitlines()[2:] == [
        "-# \\xad",
        "-a.test ",
        "+# \\xad",
        "+a.test \\u3164",
    ]


def test_a_name_that_looks_like_another_is_spelled_out() -> None:
    """Each of the first four would be taken for a host that everybody knows: in one alphabet, where none is mixed."""
    new = (
        "\u0261ithub.com\ng\u0131thub.com:22\nGET \u0440\u0443\u0440\u0456.org/x\n- {host: \u0261ithub\u3002com, policies: []}\n"
        "a.test # f\u00fcr \u00e9.\nm\u00fcnchen.test\n"
    )

    shown = difference([Change("a", None, new)], colour=False).splitlines()

    assert [line for line in shown if line.startswith("?")] == [
        "? \u0261ithub.com is xn--ithub-qmc.com",
        "? g\u0131thub.com is xn--gthub-n4a.com",
        "? \u0440\u0443\u0440\u0456.org is xn--p1aai1f.org",
        "? \u0261ithub\u3002com is xn--ithub-qmc.com",
        "? m\u00fcnchen.test is xn--mnchen-3ya.test",
    ]


def test_the_difference_is_coloured_line_by_line() -> None:
    assert difference([Change("a", "x\ny\n", "x\nz\n")], colour=True) == (
        "a has changed\n\x1b[36m@@ -1,2 +1,2 @@\x1b[0m\n x\n\x1b[31m-y\x1b[0m\n\x1b[32m+z\x1b[0m\n"
    )


def test_a_file_that_became_empty_has_changed() -> None:
    assert changes({"x": "1"}, [SourceFile("x", "")]) == (Change("x", "1", ""),)
    assert changes({}, [SourceFile("x", "")]) == (Change("x", None, ""),)
