"""The user's own part of the Containerfile: what may be in it, and where it may lie."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from aisb.domain.fragment import parse_fragment
from aisb.effects.situation import read_fragment
from aisb.errors import Untrusted, UsageError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        pytest.param("", "", id="nothing"),
        pytest.param("# only a comment\n\n", "", id="comments"),
        pytest.param("RUN true", "RUN true\n", id="no line end"),
        pytest.param("run true\r\nUSER 1\r\n\n\n", "run true\nUSER 1\n", id="line ends"),
        pytest.param("RUN a && \\\n# between\n\n    b\n", "RUN a && \\\n# between\n\n    b\n", id="continued"),
        pytest.param("ARG X=1\nLABEL our.tool=x\nWORKDIR /x\n", "ARG X=1\nLABEL our.tool=x\nWORKDIR /x\n", id="others"),
        pytest.param("RUN echo '\u00e4\u3042'\n", "RUN echo '\u00e4\u3042'\n", id="letters"),
        pytest.param("RUN from aisb.\n", "RUN from aisb.\n", id="words of a command"),
        pytest.param('LABEL a.b="x y" c=$X\n', 'LABEL a.b="x y" c=$X\n', id="labels"),
        pytest.param("RUN grep x <<<$Y\n", "RUN grep x <<<$Y\n", id="a string in place"),
        pytest.param("RUN x=$((1<<2)) y=$(( 1 << 2 ))\n", "RUN x=$((1<<2)) y=$(( 1 << 2 ))\n", id="a shift"),
    ],
)
def test_instructions_are_taken_as_they_are(text: str, parsed: str) -> None:
    """But for their line ends; where there is none, nothing is added."""
    assert parse_fragment(text.encode(), "f") == parsed


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"FROM debian:trixie\n", "f:1: 'FROM' is not allowed in it"),
        (b"RUN true\n\n  from x\n", "f:3: 'from' is not allowed in it"),
        (b"ENV A=1\n", "f:1: 'ENV' is not allowed in it"),
        (b"COPY a b\n", "f:1: 'COPY' is not allowed in it"),
        (b"ADD https://x.test/a /a\n", "f:1: 'ADD' is not allowed in it"),
        (b"ENTRYPOINT sh\n", "f:1: 'ENTRYPOINT' is not allowed in it"),
        (b'SHELL ["/bin/x"]\n', "f:1: 'SHELL' is not allowed in it"),
        (b"ONBUILD RUN x\n", "f:1: 'ONBUILD' is not allowed in it"),
        (b"VOLUME /x\n", "f:1: 'VOLUME' is not allowed in it"),
        (b"RUN <<E\nrm -r /\nE\n", "f:1: a document in place"),
        (b"RUN cat 3<<-'RUN' >x\nRUN\n", "f:1: a document in place"),
        (b"RUN cat <<.E\n", "f:1: a document in place"),
        (b"RUN cat <<$X\n", "f:1: a document in place"),
        (b"RUN cat ''<<E $(( <<E ))\n", "f:1: a document in place"),
        (b'RUN cat <<"    --x"\n', "f:1: a document in place"),
        (b"RUN --network=host true\n", "f:1: '--network=host': flags of RUN"),
        (b"RUN \\\n  --mount=type=secret,id=x true\n", "f:1: '--mount=type=secret,id=x': flags of RUN"),
        (b'LABEL aisb"."role=gate\n', "f:1: a label is not in its plain form"),
        (b"LABEL ai\\sb.x=1\n", "f:1: a label is not in its plain form"),
        (b"LABEL ${X}aisb.run=1\n", "f:1: a label is not in its plain form"),
        (b"LABEL a=b c\n", "f:1: a label is not in its plain form"),
        ("RUN true \\\u00a0\nENV LD_PRELOAD=/x\n".encode(), r"f is not plain text: it holds '\\xa0'"),
        (b"RUN true\\\n", "f:1: the last line ends in a backslash"),
        (b"RUN true \\ \n# and a comment\n", "f:1: the last line ends in a backslash"),
        (b"LABEL x=1 aisb.role=gate\n", "f:1: labels that begin with aisb. are aisb's own"),
        (b'label "aisb.role"=gate\n', "f:1: a label is not in its plain form"),
        (b'LABEL a=1\\\n  aisb.role="gate"\n', "f:1: labels that begin with aisb. are aisb's own"),
        (b"RUN a\0b\n", r"f is not plain text: it holds '\\x00'"),
        (b"RUN a\rFROM x\n", r"f is not plain text: it holds '\\r'"),
        ("RUN a\u2028FROM x\n".encode(), r"f is not plain text: it holds '\\u2028'"),
        (b"\xff", "f is not UTF-8 text"),
        (b"#" * 70000, "f is larger than 64 KiB"),
    ],
)
def test_what_runs_rely_on_is_left_alone(data: bytes, message: str) -> None:
    """Which base it is, what the environment holds, how the next step is run; each named with its line."""
    with pytest.raises(UsageError, match=message):
        parse_fragment(data, "f")


def test_it_lies_beside_the_configuration_or_is_named(tmp_path: Path) -> None:
    """Without either there is none; the one that is named is the only one."""
    default, named = tmp_path / "Containerfile", tmp_path / "named"
    without = read_fragment("", str(default), "")
    default.write_text("RUN default\n")
    named.write_text("RUN named\n")

    found = [read_fragment(path, str(default), "") for path in ("", str(named))]

    assert (without, found) == ("", ["RUN default\n", "RUN named\n"])


@pytest.mark.parametrize("link", [False, True], ids=["there", "by a link"])
def test_none_comes_from_the_project(tmp_path: Path, *, link: bool) -> None:
    """Where the agent could change it before the next build."""
    project, config = tmp_path / "project", tmp_path / "config"
    for folder in (project, config):
        folder.mkdir()
    (project / "Containerfile").write_text("RUN true\n")
    path = config / "Containerfile" if link else project / "Containerfile"
    if link:
        path.symlink_to(project / "Containerfile")

    for named, default in ((str(path), "/none"), ("", str(path))):
        with pytest.raises(Untrusted, match="lies in the project"):
            read_fragment(named, default, str(project))


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    """A flag that names nothing, a directory, and a pipe that nobody writes to."""
    os.mkfifo(tmp_path / "pipe")

    for name, message in (("none", "No such file"), (".", "Is a directory|not a regular"), ("pipe", "not a regular")):
        with pytest.raises(UsageError, match=message):
            read_fragment(str(tmp_path / name), "", "")
