"""What `--env` and files of variables ask for, and what they refuse; no value is ever shown."""

from __future__ import annotations

import os

import pytest

from aisb.cli.main import VERBS
from aisb.cli.request import read_request
from aisb.cli.splitter import split
from aisb.domain.env_file import digest_lines, parse_env_file
from aisb.domain.layers import USER, Layer, Setting
from aisb.domain.variables import Given, parse_variable, values_in_sight, values_of
from aisb.errors import UsageError

FILE = "~/env"


def flag(text: str) -> Given:
    return parse_variable(Setting(text, "--env"))


def values(*texts: str, environ: dict[bytes, bytes] | None = None) -> dict[bytes, bytes]:
    return values_of([flag(text) for text in texts], environ or {})


def test_a_variable_goes_in_by_name_under_another_or_with_a_value() -> None:
    """(C14, C16) Byte for byte; one that is set and empty is empty."""
    environ = {b"A": b"\xff\n* = 'x' \"y\" $Z", b"EMPTY": b""}

    assert values("A", "B=@A", "EMPTY", "D= a=b ", "E=", os.fsdecode(b"F=\xc3\xa4\xe4"), environ=environ) == {
        b"A": environ[b"A"],
        b"B": environ[b"A"],
        b"EMPTY": b"",
        b"D": b" a=b ",
        b"E": b"",
        b"F": b"\xc3\xa4\xe4",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("NOPE", "--env NOPE: this variable is not set"),
        ("A=@NOPE", "--env A=@NOPE: NOPE is not set"),
        ("1A=x", "--env '1A=...' is not the name of a variable"),
        ("A-B=x", "--env 'A-B=...' is not the name of a variable"),
        ("A B=x", "--env 'A B=...' is not the name of a variable"),
        (" =x", "--env ' =...' is not the name of a variable"),
        ("", "--env '' is not the name of a variable"),
        ("*", "--env '*' is not the name of a variable"),
        ("AWS_*", "--env 'AWS_*' is not the name of a variable"),
        ("HTTPS_PROXY=x", "--env HTTPS_PROXY: the sandbox has a HTTPS_PROXY of its own"),
        ("HOME=@A", "--env HOME: the sandbox has a HOME of its own"),
        ("A=@", "--env A=@...: after @ stands the name of a variable of yours"),
        ("A=@b c", "--env A=@...: after @ stands the name of a variable of yours"),
    ],
)
def test_what_is_no_variable_is_refused_and_so_is_one_that_is_not_set(text: str, message: str) -> None:
    """(C16) Nothing of a value is in the message."""
    with pytest.raises(UsageError) as caught:
        values(text)
    assert caught.value.message == message


def test_a_value_in_sight_is_said_and_not_shown() -> None:
    assert values_in_sight([flag("A=secret"), flag("B"), flag("C=@B")]) == (
        "--env A=...: everybody on this machine can read that in the process list (ps); a file is private: --env-file",
    )
    assert [flag(text).shown() for text in ("A=secret", "B", "C=@B")] == ["A=...", "B", "C=@B"]


def test_the_command_line_is_stronger_than_a_file_and_that_than_the_settings() -> None:
    """The printed policy says of each which one counts."""
    settings = Layer(USER, {}, {"env": tuple(Setting(name, "config:1") for name in ("A", "B", "C"))})
    filed = parse_env_file(b"B=2\nC=2\n", FILE)

    asked = read_request(split(["--env", "C=3", "--net", "none", "--shell"], VERBS), {}, [settings], filed)

    assert asked.wanted.environment == (
        Setting("A", "config:1"),
        Setting("B=...", f"{FILE}:1"),
        Setting("C=...", "--env"),
    )
    assert values_of(asked.given, {b"A": b"1"}) == {b"A": b"1", b"B": b"2", b"C": b"3"}


def test_what_a_file_of_variables_may_hold() -> None:
    text = (
        b"# a comment\n\n  # another\n\t\n"
        b'PLAIN=it\'s a "test" = $X `y` \\n #no comment\xe4\n'
        b"EMPTY=\n"
        b"SINGLE=' a $X \\n \"b\"\nand # on '\n"
        b'DOUBLE=" a\\n\\"b\\"\\t\\\\\nand on"\n'
        b"QUOTED=''\n"
        b"LAST=end"
    ).replace(b" #no", b"#no")

    assert {item.name: (item.value, item.origin) for item in parse_env_file(text, FILE)} == {
        "PLAIN": (b'it\'s a "test" = $X `y` \\n#no comment\xe4', f"{FILE}:5"),
        "EMPTY": (b"", f"{FILE}:6"),
        "SINGLE": (b' a $X \\n "b"\nand # on ', f"{FILE}:7"),
        "DOUBLE": (b' a\n"b"\t\\\nand on', f"{FILE}:9"),
        "QUOTED": (b"", f"{FILE}:11"),
        "LAST": (b"end", f"{FILE}:12"),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"\nA\n", "2: a variable without a value; the host's own goes in by --env NAME"),
        (b"*\n", "1: a variable without a value; the host's own goes in by --env NAME"),
        (b"export A=secret\n", "1: 'export' is a shell's word"),
        (b"A = secret\n", "1: what stands before = is not the name of a variable, or a blank stands beside it"),
        (b"=secret\n", "1: what stands before = is not the name of a variable, or a blank stands beside it"),
        (b" A=secret\n", "1: what stands before = is not the name of a variable, or a blank stands beside it"),
        (b"A=secret \n", "1: there is a blank at an end of the value"),
        (b"A= secret\n", "1: there is a blank at an end of the value"),
        (b"A=secret # why\n", "1: a # after a blank is part of the value here, and elsewhere not"),
        (b"A=secret\r\n", "1: the line ends with a carriage return"),
        (b"\xef\xbb\xbfA=secret\n", "1: the file begins with a byte order mark"),
        (b"A='secret\nB=1\n", "1: the quote ' that begins here does not end"),
        (b'A="secret\\"\nB=1\n', '1: the quote " that begins here does not end'),
        (b"A='x\ny' # z\n", "2: something follows the closing quote"),
        (b"A='x''y'\n", "1: something follows the closing quote"),
        (b'A="\nsecret\\q"\n', "2: '\\\\q' means nothing here"),
        (b"A=1\nB=2\nA=3\n", "3: A stands there twice"),
        (b"A=se\0cret\n", "1: the value of A holds a NUL byte, which no variable can"),
        (b"HOME=/root\n", "1: HOME: the sandbox has a HOME of its own"),
        (b"A='x\ny'\nHOME=/root\n", "3: HOME: the sandbox has a HOME of its own"),
    ],
)
def test_every_other_line_is_an_error_with_its_number(text: bytes, message: str) -> None:
    """(C15) A later line is never swallowed, and nothing of a value is in the message."""
    with pytest.raises(UsageError) as caught:
        parse_env_file(text, FILE)
    assert caught.value.message == f"{FILE}:{message}"
    assert "secret" not in f"{caught.value.message} {caught.value.hint}"


def test_what_is_shown_of_a_file_changes_with_each_value_and_holds_none() -> None:
    shown = {digest_lines(parse_env_file(text, FILE)) for text in (b"A=secret\n", b"A=secreT\n", b"A=secret\nB=\n")}

    assert len(shown) == 3
    assert not any("secre" in text for text in shown)
