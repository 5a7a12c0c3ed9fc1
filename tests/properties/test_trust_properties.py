"""What holds for every content of a project's files."""

from __future__ import annotations

import tempfile

from hypothesis import given
from hypothesis import strategies as st

from aisb.domain.source_files import SourceFile, source_file
from aisb.domain.trust import PROJECT_FILES, Change, changes, content_hash
from aisb.effects.trust import read_record, write_record
from aisb.render.difference import difference

names = st.sampled_from([*PROJECT_FILES, "rules.yaml"])
# Of few parts, so that equal contents come up.
contents = st.one_of(st.binary(max_size=40), st.sampled_from([b"", b"a.test\n", b"a.test", b"\xed\xa0\x80", b"\xff"]))
projects = st.dictionaries(names, contents, max_size=4).map(
    lambda files: tuple(source_file(name, data) for name, data in files.items())
)


@given(st.binary())
def test_the_bytes_that_were_read_come_back(data: bytes) -> None:
    assert source_file("x", data).data() == data


@given(projects, projects)
def test_two_projects_have_one_hash_only_if_they_are_the_same(
    left: tuple[SourceFile, ...], right: tuple[SourceFile, ...]
) -> None:
    assert (content_hash(left) == content_hash(right)) == (set(left) == set(right))
    assert content_hash(left) == content_hash(tuple(reversed(left)))


@given(projects, projects)
def test_nothing_changed_only_if_every_byte_is_the_same(
    trusted: tuple[SourceFile, ...], now: tuple[SourceFile, ...]
) -> None:
    """A record that went over the disk knows each file again; each other file, and each of ours that is gone, is named."""
    with tempfile.TemporaryDirectory() as state:
        write_record(state, "/p", trusted)
        found = changes(read_record(state, "/p"), now)

    different = {file.name for file in set(now) - set(trusted)}
    gone = {file.name for file in trusted if file.name in PROJECT_FILES} - {file.name for file in now}
    assert {change.name for change in found} == different | gone


@given(st.one_of(st.none(), st.text()), st.text())
def test_what_is_shown_of_a_change_is_printable_and_complete(old: str | None, new: str) -> None:
    """Each line of the new text stands there, spelled out, however it was ended and whatever is in it."""
    shown = difference([Change("x", old, new)], colour=False)

    assert all(line.isprintable() for line in shown.split("\n"))
    if old is None:
        lines = new.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        assert sum(line.startswith("+") for line in shown.split("\n")) == len(lines) - (lines[-1] == "")
