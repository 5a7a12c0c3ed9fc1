"""What a command reads and writes: byte for byte, to its end, and no word of aisb's or podman's in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

STREAMS = r"""
every() { python3 -c 'import sys; sys.stdout.buffer.write(bytes(range(256)) * 41)'; }
run="aisb -q --net none --"
echo x | $run cat
$run cat </dev/null; echo "devnull $?"
$run cat <&-; echo "closed stdin $?"
$run printf 'a\nb\n' | od -An -c
$run sh -c 'echo out; echo err >&2' 2>err | sed 's/^/stdout: /'; sed 's/^/stderr: /' err
$run cat <<END
here-document
END
every | $run cat | cmp - <(every) && echo "all bytes"
$run sh -c 'echo lost; echo kept >/project/kept' >&-; echo "closed stdout $?"; cat kept
$run sh -c 'echo lost >&2; echo kept' 2>&-; echo "closed stderr $?"
setsid $run tty </dev/null >said 2>&1; echo "no terminal $?: $(cat said)"
head -c 100 /dev/zero | $run head -c 1 | od -An -c; echo "a command that leaves: ${PIPESTATUS[1]}"
"""
SAID = """\
x
devnull 0
closed stdin 0
   a  \\n   b  \\n
stdout: out
stderr: err
here-document
all bytes
closed stdout 0
kept
kept
closed stderr 0
no terminal 1: not a tty
  \\0
a command that leaves: 0
"""


def test_streams_pass_byte_for_byte_and_end(lab: Lab) -> None:
    """C60: pipes, here-documents, nothing, closed streams; no CR is added, the end arrives, nothing hangs."""
    result = lab.run('exec bash -c "$STREAMS"', env={"STREAMS": STREAMS})

    assert result.text == SAID
    assert result.errors == ""


READERS = r"""
run="aisb -q --net none --"
$run yes | head -n 1; echo "stdout: ${PIPESTATUS[0]}"
$run yes 2>&1 | head -n 1; echo "both in one: ${PIPESTATUS[0]}"
$run sh -c 'yes >&2' 2>&1 >/dev/null | head -n 1; echo "stderr: ${PIPESTATUS[0]}"
$run sh -c "trap 'exit 5' TERM; while :; do echo y; done" | head -n 1; echo "its own code: ${PIPESTATUS[0]}"
$run sh -c 'echo y; exit 3' | { read -r line; echo "$line"; }; echo "ended before: ${PIPESTATUS[0]}"
podman ps -aq --filter name=aisb-run | wc -l
"""
LEFT = """\
y
stdout: 141
y
both in one: 141
y
stderr: 141
y
its own code: 5
y
ended before: 3
0
"""


def test_a_reader_that_leaves_ends_the_command_without_a_word(lab: Lab) -> None:
    """C60: with 141, as a shell says SIGPIPE, or with the command's own code."""
    result = lab.run('exec bash -c "$READERS"', env={"READERS": READERS})

    assert result.text == LEFT
    assert result.errors == ""


def test_a_hundred_megabytes_pass_unchanged(lab: Lab) -> None:
    """C60: through stdin to stdout, by pipes and by files."""
    command = """
    head -c 104857600 /dev/urandom >big
    cat big | aisb -q --net none -- cat | sha256sum; sha256sum <big
    aisb -q --net none -- sh -c 'cat >copy' <big; cmp big copy
    """

    result = lab.run(command, timeout=300)

    (through, given) = result.text.splitlines()
    assert (through, result.code, result.errors) == (given, 0, "")


SLOW = """
import sys, time
while data := sys.stdin.buffer.raw.read(16384):
    time.sleep(0.002)
    sys.stdout.buffer.write(data)
"""
SLOWLY = r"""
run="aisb -q --net none --"
$run sh -c 'head -c 3000000 /dev/urandom | tee copy' | python3 -c "$SLOW" >got; echo "slow: ${PIPESTATUS[*]}"
cmp got copy; rm copy
$run sh -c 'head -c 30000 /dev/urandom | tee copy' | {
    until [ -e copy ] && [ -z "$(podman ps -q --filter name=aisb-run)" ]; do sleep 0.05; done; cmp - copy
}; echo "late: ${PIPESTATUS[*]}"
"""


def test_a_slow_reader_loses_nothing(lab: Lab) -> None:
    """C60: what is written waits until it is read, also when the command has ended by then."""
    result = lab.run('exec bash -c "$SLOWLY"', env={"SLOWLY": SLOWLY, "SLOW": SLOW})

    assert (result.text, result.errors) == ("slow: 0 0\nlate: 0 0\n", "")


WORDS = """
aisb --net none --timings -- sh -c 'echo out' >out 2>err; cat out; grep -v '^aisb: ' err
sed -n 's/^aisb: \\([a-z-]*\\)  *[0-9]*[.][0-9] ms$/\\1/p' err | paste -s -d ' '
aisb -q --net none --trace -- true 2>err; grep -c '^aisb: + .*podman run ' err
aisb --allow allowed.test -- curl -sS http://evil.test/ >out 2>err; head -n 1 out; grep -v '^aisb: ' err; tail -n 1 err | cut -d: -f-3
"""


def test_aisbs_own_words_are_on_stderr_only(lab: Lab) -> None:
    """C60: each with its prefix; stdout is the command's."""
    result = lab.run(WORDS)

    assert result.text.splitlines() == [
        "out",
        # Each phase of a start, and each command, podman's own among them, where they are asked for.
        "python host plan gate begun checked rules launcher proved exec command clean-up",
        "1",
        "403 Access denied by egress policy",
        "aisb: denied evil.test:80",
    ]


FULL = r"""
run="aisb -q --net none --"
$run echo hi >/dev/full; echo "a word: $?"
$run yes >/dev/full; echo "without end: $?"
$run sh -c 'trap "" TERM; echo hi; exit 3' >/dev/full; echo "its own code: $?"
$run sh -c 'echo hi >&2' 2>/dev/full; echo "stderr: $?"
"""


def test_an_output_that_cannot_be_written_is_an_error_with_a_sentence(lab: Lab) -> None:
    """C60: as with any program on a full disk: the command's own code or 1, one sentence, and no word of podman's."""
    result = lab.run(FULL)

    assert result.text.splitlines() == ["a word: 1", "without end: 1", "its own code: 3", "stderr: 1"]
    assert result.errors.splitlines() == ["aisb: stdout: No space left on device"] * 3
