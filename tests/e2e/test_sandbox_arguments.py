"""The command line: what arrives inside, what is only shown, and what is refused before anything is started."""

from __future__ import annotations

import hashlib
import json
import shlex
from typing import TYPE_CHECKING

from tests.e2e.sandbox import Case, run_cases

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

TELL = ("python3", "-c", "import json, sys; print(json.dumps(sys.argv[1:]))")
STRANGE = (
    "a b", "  ", "", "it's", 'say "hi"', "two\nlines\n", "return\r", "tab\t", "$HOME", "$(id)", "`id`", "*", "~", "\\", "\\n",
    "-x", "--", "--allow", "evil.test", "--net=full", "a=b", ";", "#", "{}", "{{ 7*7 }}", "&|<>", "%s", "\x01\x1b[31m",
    "проект", "e\N{COMBINING ACUTE ACCENT}", "\N{RIGHT-TO-LEFT OVERRIDE}", "\N{LINE SEPARATOR}", "\N{SNOWMAN}",
    "\N{REPLACEMENT CHARACTER}",
)  # fmt: skip


def test_each_argument_arrives_as_it_was_given(lab: Lab) -> None:
    """C12: blanks, quotes, line breaks, the empty one, globs, our own flags, whatever stands in them."""
    by_dashes, as_harness = run_cases(
        lab,
        [
            Case(("aisb", "-q", "--net=none", "--", *TELL, *STRANGE)),
            # Without -- it is pi that gets them: they are told by something that stands in pi's place.
            Case(
                ("sh", "-c", 'printf "#!/bin/sh\\nexec %s \\"\\$@\\"" "$1" >pi; chmod +x pi; shift; exec "$@"', "sh",
                 shlex.join(TELL), "aisb", "-q", "--net=none", "--env=PATH", "-p", *STRANGE),
                variables={"PATH": "/home/aisb-lab/venv/bin:/usr/bin:/bin:/project"},
            ),
        ],
    )  # fmt: skip

    assert (by_dashes.code, json.loads(by_dashes.stdout)) == (0, list(STRANGE))
    assert (as_harness.code, json.loads(as_harness.stdout)) == (0, ["-p", *STRANGE])


FILL = """
import os
words = [f"{number}:".ljust(100_000, "x") for number in range(19)]
tell = "import hashlib, sys; print(hashlib.sha256('\\\\0'.join(sys.argv[1:]).encode()).hexdigest())"
os.execvp("aisb", ["aisb", "-q", "--net", "none", "--", "python3", "-c", tell, *words])
"""


def test_as_much_arrives_as_the_kernel_lets_one_say(lab: Lab) -> None:
    """C12: two megabytes of arguments, less what the kernel keeps of them for the environment."""
    words = [f"{number}:".ljust(100_000, "x") for number in range(19)]

    (ended,) = run_cases(lab, [Case(("python3", "-c", FILL))])

    assert ended == (0, hashlib.sha256("\0".join(words).encode()).hexdigest() + "\n", "", [])


def test_an_argument_that_podman_would_change_is_refused(lab: Lab) -> None:
    """C12: podman puts another character in the place of bytes that are not UTF-8."""
    (ended,) = run_cases(lab, [Case(("aisb", "-q", "--net=none", "--", "touch", "/project/latin-\udce9"))])

    assert ended == (
        2,
        "",
        "aisb: argument 1 of the command is not UTF-8, and podman would change it\n"
        "aisb:   name it by a pattern: caf*\n",
        [],
    )


# Nothing can be started: there is no process left to have. No network, no podman, no runtime directory either.
INERT = """
cd "$1" && shift
exec unshare --map-current-user --net prlimit --nproc=0 \
    env -i HOME="$HOME" PATH=/home/aisb-lab/venv/bin AI_TOKEN=hunter2-hunter2 AISB_BASE_IMAGE=bootstrap:trixie "$@"
"""
PREVIEWS = ("policy", "entrypoint", "containerfile", "nft", "squid", "gate-nft", "gate-containerfile", "seccomp")


FILES = Case(("sh", "-c", "cd; find . -type f | sort"))


def inert(*argv: str, directory: str = ".") -> Case:
    """aisb where it can start nothing."""
    return Case(("sh", "-c", INERT, "sh", directory, "aisb", *argv))


def test_what_is_only_shown_starts_and_writes_nothing(lab: Lab) -> None:
    """C13: no process, no network, no podman, no file; no secret; and a bad entry is 2 all the same."""
    flags = ("--allow=allowed.test", "--env=AI_TOKEN")
    bad = ("--allow=https://x.test/", "--env=AI_TOKEN")
    shows = [*((*flags, f"--print-{what}") for what in PREVIEWS), (*flags, "--dry-run", "--", "true")]
    # Where the proxy is would be a question to a name server.
    proxied = (*flags, "-q", "--proxy=http://proxy.test:3128")
    shows += [(*proxied, f"--{what}") for what in ("print-squid", "print-gate-nft", "dry-run")]
    refusals = [
        *((*bad, f"--print-{what}") for what in PREVIEWS),
        (*bad, "--dry-run", "--", "true"),
        ("--net=allow", "--dry-run", "--", "true"),
    ]

    *ended, left = run_cases(lab, [*(inert(*show) for show in shows), *(inert(*bad) for bad in refusals), FILES])

    shown, refused = ended[: len(shows)], ended[len(shows) :]
    assert [(item.code, bool(item.stdout), item.stderr, item.new) for item in shown] == len(shows) * [(0, True, "", [])]
    assert [(item.code, item.stdout, item.new) for item in refused] == len(refusals) * [(2, "", [])]
    assert not any("hunter2" in item.stdout + item.stderr for item in ended)
    assert left.stdout.splitlines() == [
        "./.config/containers/registries.conf.d/laboratory.conf",
        "./.config/containers/storage.conf",
    ]


PASTE = """
cd "$1" && shift
aisb --net none --dry-run -- "$@" >../line
cat >../podman <<'END'
#!/usr/bin/python3
import json, sys
if sys.argv[1] == "run":
    print(json.dumps(sys.argv[1:]))
END
chmod 755 ../podman
PATH=$(dirname "$PWD"):$PATH sh ../line
sed -n '/; exec .usr.bin.setpriv/,$p' ../line | sed '1s/.*; exec //; $d' >&2
"""


def test_the_printed_command_means_the_same_when_it_is_pasted(lab: Lab) -> None:
    """C13: each argument is one argument, whatever stands in it and in the project's path."""
    directory = 'it\'s "here" $(touch made) `id` *'

    (ended,) = run_cases(lab, [Case(("sh", "-c", f'mkdir "$1"; {PASTE}', "sh", directory, *STRANGE))])

    assert ended.code == 0, ended
    pasted = json.loads(ended.stdout)
    assert pasted == shlex.split(ended.stderr)[5:-2]
    assert pasted[-len(STRANGE) :] == list(STRANGE)
    assert any(word.endswith(f'/{directory}",dst=/project'.replace('"here"', '""here""')) for word in pasted)
    assert ended.new == ["line", "podman"]


# What is printed starts a gate and a sandbox by itself; the value of a variable is that of the shell.
SCRIPT = """
mkdir p && cd p && echo mine >file
export SECRET=hunter2-hunter2
aisb --net none --env SECRET --env OTHER=@SECRET --dry-run -- \\
    sh -c 'id -u; pwd; cat file; echo "$SECRET $OTHER"; touch .pi/x 2>/dev/null || echo closed; exit 3' >../none
grep -c hunter2 ../none
pasted() { sh ../$1; echo "$1 $?"; }
pasted none; bash ../none | tail -n 1
fetch='fetch() { curl -sS -o /dev/null -w "%{http_code}\\n" http://$1.test/; }; fetch allowed; sleep 9; fetch evil'
aisb --allow allowed.test --gate-idle 8 --dry-run -- sh -c "$fetch" >../gated
pasted gated; . ../gated; echo "sourced $?"
aisb --allow allowed.test --inject SECRET@allowed.test --dry-run -- sh -c \\
    'echo $SECRET; curl -sS -H "Authorization: Bearer $SECRET" https://allowed.test/headers | grep -o "Bearer .*[a-z0-9]"' \\
    >../injected
pasted injected
ls -A
find $XDG_RUNTIME_DIR/aisb -name 00000001 -o -name secrets
podman ps --all --format '{{.Names}}' | grep 00000001
"""


def test_what_is_printed_runs_when_it_is_pasted(lab: Lab) -> None:
    """
    C13: a whole run, without aisb: what lies there before it, its gate, and its sandbox; and again afterwards. The gate
    is there for as long as the sandbox, the exit code is the command's, and nothing is left.
    """
    result = lab.run(SCRIPT, stdin=b"")

    own = ["1000", "/project", "mine", "hunter2-hunter2 hunter2-hunter2", "closed", "none 3", "closed"]
    gated = ["200", "403", "gated 0", "200", "403", "sourced 0"]
    injected = ["placeholder-of-SECRET", "Bearer hunter2-hunter2", "injected 0"]
    assert result.text.splitlines() == ["0", *own, *gated, *injected, "file"], result.errors


# A paste that goes on is a run as others are; one that was killed in the middle of it is none.
OWNED = """
mkdir p && cd p
aisb --net none --no-cwd --dry-run -- sleep 600 >../d
begins() { until grep -q exec $XDG_RUNTIME_DIR/aisb/r/00000001/phases 2>/dev/null; do sleep 0.1; done; }
sh ../d & begins
aisb ps --quiet
aisb exec 00000001 -- true 2>&1
aisb stop 00000001 2>&1; wait $!; echo "stopped $?"
aisb ps; aisb stop 00000001 2>&1
aisb clean 2>&1; find $XDG_RUNTIME_DIR/aisb -name 00000001
sh ../d & begins
pkill -KILL -f -x 'sh ../d'; podman kill aisb-run-00000001 >/dev/null 2>&1
while aisb ps --quiet | grep -q .; do sleep 0.1; done
aisb clean | sed 's/ (.*//; s/freed .*/freed/; s,/.*/aisb/,.../,'
find $XDG_RUNTIME_DIR/aisb -name 00000001
"""


def test_a_paste_is_a_run_while_it_lasts(lab: Lab) -> None:
    """It can be stopped, and ends with its own clean-up; of one that was killed nothing stays but for `aisb clean`."""
    result = lab.run(OWNED, stdin=b"")

    ended = "aisb: no run whose id begins with 00000001 goes on"
    hint = "aisb:   see what ran, and how it ended: aisb ps --all"
    exec_said = [
        "aisb: run 00000001 came from pasted lines (--dry-run): no command can be added to it",
        "aisb:   end it, and start it by aisb, without --dry-run",
    ]
    first = ["00000001", *exec_said, "aisb: run 00000001 has ended", "stopped 143", ended, hint, "nothing to remove"]
    assert result.text.splitlines() == [*first, "removed directory .../r/00000001", "freed"], result.errors
