"""Files of variables: whatever a value holds, it is one value of one variable, and it comes out as it went in."""

from __future__ import annotations

import contextlib
import re

from hypothesis import example, given
from hypothesis import strategies as st

from aisb.domain.env_file import parse_env_file
from aisb.domain.layers import Setting
from aisb.domain.variables import Given, parse_variable, strongest_of, values_of
from aisb.errors import UsageError
from aisb.render.identity import environment_block
from gate.launcher import parse_variables

NAMES = st.from_regex(r"X[A-Za-z0-9_]{0,5}", fullmatch=True)
# What has a meaning somewhere in the file comes often.
VALUES = st.lists(
    st.one_of(st.sampled_from([b"\n", b"=", b"#", b" ", b"'", b'"', b"\\", b"X=1\n", b"\r", b"*", b"$X"]), st.binary()),
    max_size=8,
).map(lambda parts: b"".join(parts).replace(b"\0", b""))


def double_quoted(value: bytes) -> bytes:
    """As the grammar has it: what a quote would end, and what would be read as something else, is escaped."""
    return b'"' + value.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\r", b"\\r") + b'"'


def forms(value: bytes) -> list[bytes]:
    """Each way in which the value may stand in a file."""
    plain = not re.search(rb"^['\"]|^[ \t]|[ \t\r]$|\n|[ \t]#", value)
    single = b"'" not in value
    return [double_quoted(value), *([b"'" + value + b"'"] if single else []), *([value] if plain else [])]


@given(st.dictionaries(NAMES, VALUES, max_size=4), st.data())
def test_a_file_gives_back_what_was_written_in_any_form(variables: dict[str, bytes], data: st.DataObject) -> None:
    text = b"".join(
        b"# X=0\n" + name.encode() + b"=" + data.draw(st.sampled_from(forms(value))) + b"\n"
        for name, value in variables.items()
    )

    assert {item.name: item.value for item in parse_env_file(text, "f")} == variables


@given(st.dictionaries(NAMES, VALUES, max_size=4), VALUES)
@example({"X": b"1"}, b"2\nX2=3")
@example({}, b"1\0LD_PRELOAD=/project/x.so")
def test_no_value_adds_a_variable_on_its_way_to_the_command(variables: dict[str, bytes], hostile: bytes) -> None:
    """From the flag and from the file, through the memory file, to what the launcher reads."""
    text = b"".join(name.encode() + b"=" + double_quoted(value) + b"\n" for name, value in variables.items())
    flag = parse_variable(Setting("Y=@HOST", "--env"))
    environ = {b"HOST": hostile.replace(b"\0", b""), b"OTHER": b"secret"}

    values = values_of(strongest_of([*parse_env_file(text, "f"), flag]), environ)

    assert parse_variables(environment_block(values)) == {
        **{name.encode(): value for name, value in variables.items()},
        b"Y": environ[b"HOST"],
    }


@given(st.binary(max_size=60))
def test_any_bytes_are_variables_or_an_error(text: bytes) -> None:
    found: tuple[Given, ...] = ()
    with contextlib.suppress(UsageError):
        found = parse_env_file(text, "f")
    assert len({item.name for item in found}) == len(found) <= text.count(b"=")
