"""Where podman is missing, old, something else or silent, or the login is not one: the reason, and nothing runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.e2e.sandbox import Case, run_cases

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.e2e.lab import Lab

VENV = "/home/aisb-lab/venv/bin"
SYSTEM = "/usr/bin:/bin:/usr/sbin:/sbin"
FIRST = 'PATH="$HOME/first:$PATH" exec aisb "$@"'
TOUCH = ("-q", "--net=none", "--", "touch", "/project/ran", "ran")


def shim(text: str, *, variables: Mapping[str, str | None] | None = None, before: str = "") -> Case:
    """aisb with a podman that answers with a text, and does whatever else it is asked to on the host."""
    script = f'#!/bin/sh\ncase $1 in --version) {text} ;; *) touch ~/project/asked; exec /usr/bin/podman "$@" ;; esac\n'
    return Case(("sh", "-c", before + FIRST, "sh", *TOUCH), {"first/podman": script}, variables or {})


def say(version: str) -> str:
    """A shell command."""
    return f"echo '{version}'"


TOO_OLD = "install podman 4.3 or newer"
REFUSALS = {
    "podman version 3.4.4": ["podman 3.4 is too old", TOO_OLD],
    "podman version 4.2.1": ["podman 4.2 is too old", TOO_OLD],
    "Docker version 24.0.7, build afdd53b": [
        "HOME/first/podman is not podman: it says 'Docker version 24.0.7, build afdd53b'",
        "install podman itself, 4.3 or newer",
    ],
    "": ["HOME/first/podman is not podman: it says ''", "install podman itself, 4.3 or newer"],
    "podman version five": [
        "HOME/first/podman is not podman: it says 'podman version five'",
        "install podman itself, 4.3 or newer",
    ],
}


def test_what_is_not_a_podman_of_today_is_named_and_nothing_runs(lab: Lab) -> None:
    """C32: too old, docker in podman's clothes, or nothing that can be read: 69 before it is asked anything else."""
    ended = run_cases(lab, [*(shim(say(version)) for version in REFUSALS), Case(("sh", "-c", "echo $HOME"))])

    home = ended.pop().stdout.strip()
    found = [(item.code, item.stdout, item.stderr.replace(home, "HOME"), item.new) for item in ended]
    assert dict(zip(REFUSALS, found, strict=True)) == {
        version: (69, "", f"aisb: {why}\naisb:   {hint}\n", []) for version, (why, hint) in REFUSALS.items()
    }


def test_without_podman_there_is_one_line_and_how_to_get_it(lab: Lab) -> None:
    """C32: also where a file of that name cannot be run, or is a directory."""
    argv = ("sh", "-c", 'PATH="$HOME/first" exec "$0" "$@"', f"{VENV}/aisb", *TOUCH)
    missing = Case(argv)
    no_program = Case(
        ("sh", "-c", 'mkdir -p ~/first/podman; PATH="$HOME/first" exec "$0" "$@"', f"{VENV}/aisb", *TOUCH)
    )

    ended = run_cases(lab, [missing, no_program])

    text = (
        "aisb: podman was not found\naisb:   install it: apt-get install podman uidmap (or your distribution's way)\n"
    )
    assert ended == [(69, "", text, []), (69, "", text, [])]


def test_a_podman_that_others_may_have_put_there_is_not_run(lab: Lab) -> None:
    """One that lies in the project, or in a directory that others can write, could be the agent's."""
    files = {
        "project/bin/podman": "#!/bin/sh\ntouch ~/project/asked\n",
        "first/podman": "#!/bin/sh\ntouch ~/project/asked\n",
    }
    in_project = Case(("sh", "-c", 'PATH="$PWD/bin:$PATH" exec aisb "$@"', "sh", *TOUCH), files)
    writable = Case(("sh", "-c", f"chmod 777 ~/first; {FIRST}", "sh", *TOUCH), files)

    first, second = run_cases(lab, [in_project, writable])

    assert (first.code, "lies in the project, where the agent can write it" in first.stderr, first.new) == (
        69,
        True,
        [],
    )
    assert (second.code, "can be written by others, so" in second.stderr, second.new) == (69, True, [])


AS_CLIENT = """
podman system service --time 60 "unix://$HOME/service" & service=$!
until [ -S ~/service ]; do sleep 0.02; done
cat >~/.config/containers/containers.conf <<END
[engine]
remote = true
active_service = "x"
[engine.service_destinations.x]
uri = "unix://$HOME/service"
END
aisb "$@"; code=$?
rm ~/.config/containers/containers.conf
kill $service
exit $code
"""


def test_what_makes_podman_a_client_of_another_machine_is_not_passed_on(lab: Lab) -> None:
    """C32: CONTAINER_HOST and its like mean nothing here; a podman that is remote by its settings is refused."""
    remote = {
        "CONTAINER_HOST": "ssh://nobody@203.0.113.11/run/podman.sock",
        "CONTAINER_CONNECTION": "elsewhere",
        "CONTAINER_SSHKEY": "/nowhere",
        "CONTAINERS_CONF": "/nowhere",
        "CONTAINERS_STORAGE_CONF": "/nowhere",
        "DOCKER_HOST": "tcp://203.0.113.11:2375",
        "PODMAN_USERNS": "host",
        "BUILDAH_ISOLATION": "chroot",
    }

    by_variable, by_settings = run_cases(
        lab, [Case(("aisb", *TOUCH[:-1]), variables=remote), Case(("sh", "-c", AS_CLIENT, "sh", *TOUCH))]
    )

    assert by_variable == (0, "", "", ["ran"])
    assert (by_settings.code, by_settings.stdout, by_settings.new) == (69, "", [])
    assert by_settings.stderr == (
        "aisb: podman here is a client of another machine\naisb:   unset CONTAINER_HOST; aisb needs podman itself\n"
    )


def test_what_podman_says_on_stderr_does_not_disturb(lab: Lab) -> None:
    """C32: warnings are podman's, the version is on stdout."""
    noisy = "#!/bin/sh\necho 'WARN[0000] The cgroupv2 manager is set to systemd' >&2\nexec /usr/bin/podman \"$@\"\n"

    (ended,) = run_cases(lab, [Case(("sh", "-c", FIRST, "sh", *TOUCH[:-1]), {"first/podman": noisy})])

    assert (ended.code, ended.stdout, ended.new) == (0, "", ["ran"])
    assert set(ended.stderr.splitlines()) == {"WARN[0000] The cgroupv2 manager is set to systemd"}


# What Ubuntu's podman says where AppArmor keeps an ordinary user from user namespaces.
RESTRICTED = """#!/bin/sh
[ "$1" != --version ] || exec /usr/bin/podman "$@"
touch ~/project/asked-$1
echo 'ERRO[0000] running `/usr/bin/newuidmap 4711 0 1000 1`: newuidmap: write to uid_map failed: Operation not permitted' >&2
echo 'Error: cannot set up namespace using "/usr/bin/newuidmap": exit status 1' >&2
exit 125
"""


def test_a_machine_that_gives_nobody_a_user_namespace_runs_nothing(lab: Lab) -> None:
    """C34: under each mode of the network: podman's own words and what to look at, and it is asked for nothing else."""
    modes = (("--net=none",), ("--net=full",), ("--allow=a.test",))
    cases = [
        Case(("sh", "-c", FIRST, "sh", "-q", *flags, "--", "touch", "/project/ran"), {"first/podman": RESTRICTED})
        for flags in modes
    ]

    ended = run_cases(lab, cases)

    words = 'aisb: podman does not work here: Error: cannot set up namespace using "/usr/bin/newuidmap": exit status 1'
    assert [(item.code, item.stdout, item.stderr.splitlines()[0], item.new) for item in ended] == [
        (69, "", words, ["asked-info"])
    ] * len(modes)
    assert all(item.stderr.splitlines()[1].startswith("aisb:   s") for item in ended)


HURRIED = """
import sys
from aisb.cli import main
from aisb.effects import host
host._PROBE_SECONDS = 0.5
sys.exit(main.main(sys.argv[1:]))
"""
HANGS = "#!/bin/sh\necho $$ >>~/asked\nexec sleep 1000\n"


def test_a_podman_that_hangs_is_waited_for_no_longer_than_told(lab: Lab) -> None:
    """C32: every question has an end, and what was asked is ended with it; half a minute is made half a second here."""
    script = f"""
    {FIRST.replace("exec aisb", "python3 ~/hurried.py")}; code=$?
    for process in $(cat ~/asked); do ! kill -0 $process || echo "$process is still there"; done
    exit $code
    """

    (ended,) = run_cases(
        lab, [Case(("sh", "-c", script, "sh", *TOUCH), {"hurried.py": HURRIED, "first/podman": HANGS})]
    )

    assert (ended.code, ended.stdout, ended.new) == (69, "", [])
    assert "first/podman --version took longer than 0.5 s\n" in ended.stderr


LOG_IN = "aisb:   log in through a session of your own, or: export XDG_RUNTIME_DIR=/run/user/$(id -u)\n"
LONG = "HOME/" + 90 * "r"
NO_LOGIN = {
    None: "XDG_RUNTIME_DIR is not set: there is no private directory for sockets",
    "": "XDG_RUNTIME_DIR is not set: there is no private directory for sockets",
    "relative": "XDG_RUNTIME_DIR is not set: there is no private directory for sockets",
    "/nowhere": "XDG_RUNTIME_DIR /nowhere: No such file or directory",
    "/usr": "XDG_RUNTIME_DIR /usr is not a directory that is yours alone (0700)",
    "/tmp": "XDG_RUNTIME_DIR /tmp is not a directory that is yours alone (0700)",
    "HOME/711": "XDG_RUNTIME_DIR HOME/711 is not a directory that is yours alone (0700)",
    LONG: f"XDG_RUNTIME_DIR {LONG} is too long for a socket's path",
}
IN_HOME = """
case $XDG_RUNTIME_DIR in */711) mode=711 ;; *) mode=700 ;; esac
case $XDG_RUNTIME_DIR in HOME/*) XDG_RUNTIME_DIR=$HOME${XDG_RUNTIME_DIR#HOME}; mkdir -m $mode "$XDG_RUNTIME_DIR" ;; esac
exec aisb "$@"
"""


def test_without_a_private_runtime_directory_nothing_runs(lab: Lab) -> None:
    """Sockets that lead to a gate may lie in no place that others reach."""
    *ended, home = run_cases(
        lab,
        [
            *(Case(("sh", "-c", IN_HOME, "sh", *TOUCH), variables={"XDG_RUNTIME_DIR": path}) for path in NO_LOGIN),
            Case(("sh", "-c", "echo $HOME")),
        ],
    )

    found = [(item.code, item.stderr.replace(home.stdout.strip(), "HOME"), item.new) for item in ended]
    assert dict(zip(NO_LOGIN, found, strict=True)) == {
        path: (69, f"aisb: {why}\n{LOG_IN}", []) for path, why in NO_LOGIN.items()
    }
