"""Words of commands that a person may paste: each is one word, of what it says, whatever somebody called a file."""

from __future__ import annotations

import os
import subprocess

from hypothesis import example, given, settings
from hypothesis import strategies as st

from aisb.domain.printing import printable, shell_word

NAMES = st.binary(min_size=1, max_size=40).map(lambda name: os.fsdecode(name.replace(b"\0", b"/")))
SHELL = st.text(alphabet="\x01\x1b\n\u200b\udcff;&|$`'\"\\!{} ~*#x", min_size=1)


@settings(max_examples=40)
@given(st.lists(NAMES | SHELL, min_size=1, max_size=20))
@example(["\x01;touch${IFS}x;", "a\nb", "it's", "\udcff'; x", "\x1b[2J!!", "-rf", ""])
def test_a_shell_takes_each_name_as_it_is(names: list[str]) -> None:
    """And a terminal shows it."""
    words = [shell_word(name) for name in names]

    said = subprocess.run(["bash", "-c", f"printf '%s\\0' {' '.join(words)}"], capture_output=True, check=True).stdout

    assert said.split(b"\0")[:-1] == [os.fsencode(name) for name in names]
    assert [printable(word) for word in words] == words
