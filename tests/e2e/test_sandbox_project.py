"""The project directory: whatever its name, the right one is mounted, or none; and some may not be one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.e2e.sandbox import Case, run_cases

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

DEEP = "/".join(20 * ["d" * 199])
NAMES = {
    "a colon": "a:b",
    "an option of a volume": "x:ro",
    "a time": "2026-01-01T10:00",
    "a comma": "a,b",
    "an option of a mount": "a,dst=/etc,ro",
    "a quote": 'say "hi"',
    "an apostrophe": "it's",
    "a blank": "my proj",
    "a blank at the end": "end ",
    "a tab": "a\tb",
    "an escape sequence": "\x1b[31mred",
    "a backslash": "back\\134slash",
    "a leading dash": "-rf",
    "a glob": "*",
    "a command": "$(id)",
    "a template": "{{ 7*7 }}",
    "other letters": "проект-ñ",
    "4,000 characters": DEEP,
}
WRITE_A_FILE = r"""
aisb --net none -- sh -c 'pwd; echo from inside >made' || exit
[ -O made ] && [ -G made ] && cat made
"""


def test_a_directory_with_a_strange_name_is_the_one_that_is_mounted(lab: Lab) -> None:
    """C20, C22: read-write, its files are the caller's, and aisb's lines stay lines."""
    ended = run_cases(lab, [Case(("sh", "-c", WRITE_A_FILE), cwd=name) for name in NAMES.values()])

    found = {
        what: (item.code, item.stdout, item.new, len(item.stderr.splitlines()), item.stderr.isascii() or what)
        for what, item in zip(NAMES, ended, strict=True)
    }
    # What is mounted, what can be reached, and which caps are missing.
    assert found == {
        what: (0, "/project\nfrom inside\n", [f"{name}/made"], 3, True if name.isascii() else what)
        for what, name in NAMES.items()
    }
    assert not any("\x1b" in item.stderr for item in ended)


UNFIT = "has a line break or is not UTF-8, which podman cannot mount"


def test_a_directory_that_podman_cannot_mount_is_refused_with_the_reason(lab: Lab) -> None:
    """C22: a line break, and bytes that are not UTF-8; nothing else is mounted in their place."""
    names = ("a\nb", "latin-\udce9", "return\r")

    ended = run_cases(
        lab, [Case(("aisb", "-q", "--net=none", "--", "touch", "/project/ran"), cwd=name) for name in names]
    )

    assert [(item.code, item.stdout, UNFIT in item.stderr, item.new) for item in ended] == 3 * [(2, "", True, [])]


SYSTEM = "is a system directory, not a project"
HOLDS_HOME = "holds your home directory: everything in it would be the agent's"
OWN = "decides what a sandbox may do"
NOT_A_PROJECT = {
    "/": SYSTEM,
    "/etc": SYSTEM,
    "/home": SYSTEM,
    "/proc/self": SYSTEM,
    "/run": SYSTEM,
    "/tmp": SYSTEM,
    "/usr/lib": SYSTEM,
    "/var": SYSTEM,
    "$HOME": HOLDS_HOME,
    "$HOME/..": HOLDS_HOME,
    "$HOME/../..": HOLDS_HOME,
    "$HOME/project/link-to-home": HOLDS_HOME,
    "$HOME/project/link-to-link": HOLDS_HOME,
    "$HOME/.ssh": "holds credentials, not a project",
    "$HOME/.gnupg/private-keys-v1.d": "holds credentials, not a project",
    "$HOME/.config": OWN,
    "$HOME/.config/ai-sandbox": OWN,
    "$HOME/.local": OWN,
    "$HOME/.local/state/ai-sandbox/runs": OWN,
    "$XDG_CACHE_HOME": OWN,
    "$XDG_CACHE_HOME/ai-sandbox/plans": OWN,
    "$HOME/project/link-to-cache": OWN,
    "$XDG_RUNTIME_DIR/aisb": SYSTEM,
}
PREPARE = """
mkdir -p ~/.ssh ~/.gnupg/private-keys-v1.d ~/.config/ai-sandbox ~/.local/state/ai-sandbox/runs
ln -sfn ~ link-to-home; ln -sfn link-to-home link-to-link; ln -sfn "$XDG_CACHE_HOME/ai-sandbox" link-to-cache
aisb -q --net none -- true
"""
GO_THERE = """
directory=$(eval "printf %s \\"$1\\"") && cd "$directory" && aisb -q --net none -- touch /project/ran
code=$?; [ ! -e ran ] || { echo ran; rm ran; }; exit $code
"""


def test_some_directories_are_no_project(lab: Lab) -> None:
    """C24: the system's, the home and what holds it, credentials, aisb's own; by links too, and without override."""
    prepared, *ended = run_cases(
        lab,
        [Case(("sh", "-c", PREPARE)), *(Case(("sh", "-c", GO_THERE, "sh", path)) for path in NOT_A_PROJECT)],
    )

    assert prepared.code == 0
    found = {
        path: (item.code, item.stdout, reason in item.stderr)
        for (path, reason), item in zip(NOT_A_PROJECT.items(), ended, strict=True)
    }
    assert found == dict.fromkeys(NOT_A_PROJECT, (2, "", True)), [item.stderr for item in ended]


GONE = "aisb: the current directory no longer exists\naisb:   change to one that does\n"
NO_WHOLE_PATH = (
    "aisb: --ca-bundle ca.pem: the current directory no longer exists\n"
    "aisb:   write the whole path, or change to a directory that exists\n"
)
IN_A_DELETED_DIRECTORY = 'mkdir gone && cd gone && rmdir ../gone && exec "$@"'


def test_in_a_deleted_directory_only_a_run_of_it_is_refused(lab: Lab) -> None:
    """C25: with the reason; help, version and a run elsewhere still work."""
    commands = {
        "aisb --net none -- true": (2, "", GONE),
        "aisb --net none --print-policy": (2, "", GONE),
        "aisb -q --net none --no-cwd -- pwd": (0, "/home/sandbox\n", ""),
        "aisb -q --net none --project /home/aisb-lab/login/elsewhere -- pwd": (0, "/project\n", ""),
        "aisb -q --net none --no-cwd --ca-bundle ca.pem -- true": (2, "", NO_WHOLE_PATH),
        "aisb build --ca-bundle ca.pem": (2, "", NO_WHOLE_PATH),
        "aisb --version": (0, None, ""),
        "aisb version": (0, None, ""),
        "aisb --help": (0, None, ""),
    }
    elsewhere = Case(("mkdir", "-p", "/home/aisb-lab/login/elsewhere"))

    _, *ended = run_cases(
        lab,
        [elsewhere, *(Case(("sh", "-c", IN_A_DELETED_DIRECTORY, "sh", *command.split())) for command in commands)],
    )

    assert {
        command: (item.code, None if expected[1] is None else item.stdout, item.stderr)
        for (command, expected), item in zip(commands.items(), ended, strict=True)
    } == commands


# Two runs are about to make the home before either goes on.
AT_ONCE = r"""#!/bin/sh
case " $* " in *" volume create "*) : >"$HOME/project/here.$$"
    until [ -e "$HOME/project/go" ]; do sleep 0.02; done ;;
esac
exec /usr/bin/podman "$@"
"""
TWO_FIRST_RUNS = """
mkdir -p ~/at-once; printf '%s' "$AT_ONCE" >~/at-once/podman; chmod +x ~/at-once/podman; PATH="$HOME/at-once:$PATH"
for number in 1 2; do
    { aisb -q --net none -- sh -c 'stat -c "%u %a" ~'; echo "code $?" >&2; } >$number.out 2>$number.err &
done
until set -- here.*; [ $# = 2 ]; do sleep 0.02; done
touch go; wait; cat 1.out 2.out 1.err 2.err
"""


def test_two_first_runs_of_a_project_share_the_home_that_one_of_them_makes(lab: Lab) -> None:
    """Both begin at the same instant, and neither is refused because of the other."""
    result = lab.run(TWO_FIRST_RUNS, env={"AT_ONCE": AT_ONCE})

    assert result.text.splitlines() == 2 * ["1000 700"] + 2 * ["code 0"], result.errors
