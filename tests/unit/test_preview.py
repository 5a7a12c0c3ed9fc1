"""What is shown before a run: by which files and settings it would be, and nobody is asked for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import pytest

from aisb.cli.main import VERBS
from aisb.cli.preview import settings_in_force
from aisb.cli.request import read_request
from aisb.cli.splitter import split
from aisb.domain.base_image import parse_base_image
from aisb.domain.images import GATE, SANDBOX
from aisb.domain.injection import Secret, unpack_secrets
from aisb.domain.layers import PROJECT, USER, Layer, Setting
from aisb.domain.options import PREVIEWS
from aisb.domain.wanted import Wanted
from aisb.effects import make_plan
from aisb.effects.image_inputs import known_inputs
from aisb.effects.make_plan import preview_of
from aisb.effects.pins import write_base_pin, write_node_pin
from aisb.effects.plan import Question, fingerprint, note_images
from aisb.effects.situation import spec_of
from aisb.render.describe import _ASK, _TAKEN, Prepared, Shown, ShownGate, ShownSecret, dry_run_lines
from aisb.render.explain import Files
from aisb.render.images import containerfile, image_names
from tests.image_values import BOOTSTRAPPED, NODE_FROM_NPM
from tests.image_world import make_shop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisb.domain.images import ImageInputs
    from aisb.effects.workshop import Workshop

ROOT = Path(__file__).parents[2]
CONFIG = "memory: 16g\nallow: [a.test]\nproxy: http://proxy.invalid:3128\n"


@pytest.fixture
def home() -> Iterator[Path]:
    """A user with a configuration, and a project."""
    with tempfile.TemporaryDirectory(prefix="home-") as made:
        home = Path(made)
        (home / ".config/ai-sandbox").mkdir(parents=True)
        (home / ".config/ai-sandbox/config.yaml").write_text(CONFIG)
        (home / "v.env").write_text("A=1\n")
        (home / "v.env").chmod(0o600)
        (home / "p").mkdir()
        yield home


def aisb(home: Path, *words: str, **environ: str) -> tuple[int, list[str], str]:
    """Exit code, lines and stderr, in the project."""
    done = subprocess.run(
        [sys.executable, "-m", "aisb", *words],
        cwd=home / "p",
        env={"HOME": str(home), "PATH": os.defpath, "XDG_RUNTIME_DIR": str(home), "PYTHONPATH": str(ROOT), **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout.splitlines(), done.stderr


BY_NAME = "aisb: note: a run looks up where the proxy proxy.invalid is; here its name stands for its addresses\n"


def test_a_dry_run_says_by_which_files_and_settings(home: Path) -> None:
    """What one counts of, with where it was written; what adds up is in the printed policy."""
    words = ("--pids-limit=100", "--read-only", "--env-file", "../v.env", "--dry-run", "--", "true")

    code, lines, said = aisb(home, *words, AISB_TIMEOUT="2h")

    assert (code, said) == (0, BY_NAME)
    assert lines[:9] == [
        "# read: ~/.config/ai-sandbox/config.yaml",
        "# read: ../v.env",
        "# in force: memory 16g (~/.config/ai-sandbox/config.yaml:1)",
        "# in force: pids-limit 100 (--pids-limit)",
        "# in force: proxy http://proxy.invalid:3128 (~/.config/ai-sandbox/config.yaml:3)",
        "# in force: read-only on (--read-only)",
        "# in force: timeout 2h (AISB_TIMEOUT)",
        "# ... and what adds up (entries, variables, mounts), each with where it was written: --print-policy",
        "# --timeout is aisb's own doing: these lines wait for the command's end, not 7200 s",
    ]


def test_no_value_that_was_given_is_printed(home: Path) -> None:
    """Neither one of the command line nor one of a file, also under a name that the sandbox has a value of its own for."""
    words = ("--env", "LANG=hunter2", "--env", "B=@C", "--env-file", "../v.env", "-q", "--dry-run", "--", "true")
    (home / "v.env").write_text("A=hunter2\nPATH=/hunter2\n")

    code, lines, _ = aisb(home, *words, C="hunter2")

    (given,) = (line for line in lines if "/given)" in line)
    assert (code, "hunter2" in "".join(lines)) == (0, False)
    assert [
        word in given for word in ('"A=${A}"', '"B=${C}"', '"LANG=${LANG}"', '"PATH=${PATH}"', "HOME=/home/sandbox")
    ] == 5 * [True]


MODEL = {"id": "m"}
PROVIDER = {"baseUrl": "https://a.test/v1", "api": "openai-completions", "apiKey": "$AI_API_TOKEN", "models": [MODEL]}


def test_no_token_of_the_hosts_pi_is_printed(home: Path) -> None:
    """It goes in, and by its name in the shell that the lines are pasted in."""
    (home / ".pi/agent").mkdir(parents=True)
    (home / ".pi/agent/models.json").write_text(json.dumps({"providers": {"own": PROVIDER}}))
    (home / ".config/ai-sandbox/config.yaml").write_text("allow: [a.test]\n")

    code, lines, _ = aisb(home, "--dry-run", AI_API_TOKEN="hunter2-hunter2")

    (given,) = (line for line in lines if line.startswith("(umask 077;"))
    assert (code, "hunter2" in "".join(lines), '"AI_API_TOKEN=${AI_API_TOKEN}"' in given) == (0, False, True)
    assert "# values of yours are left out, and taken from this shell: AI_API_TOKEN" in lines


# What podman said of a machine on which nobody hands down a controller, remembered as a run remembers it.
REMEMBER = """
import json, os, sys
from aisb.effects.host import need_host
from aisb.effects.state import directories
from tests.fakes import FakeRunner, said
info = {"host": {"security": {"rootless": True}, "cgroupManager": sys.argv[2]}, "store": {"graphDriverName": "overlay"}}
runner = FakeRunner(said("podman version 5.4.2"), said(json.dumps(info)))
need_host(directories(os.environ).cache, runner, sys.argv[1], "", lambda: None)
"""


def test_a_cap_that_this_machine_cannot_keep_is_not_asked_of_podman(home: Path) -> None:
    """What is printed is what a run would say to it; where nothing is known of the machine yet, all of them."""
    (home / "bin").mkdir(mode=0o755)
    (home / "bin/podman").write_text("#!/bin/sh\n")
    (home / "bin/podman").chmod(0o755)
    environ = {"HOME": str(home), "XDG_RUNTIME_DIR": str(home), "PYTHONPATH": str(ROOT), "PATH": f"{home}/bin"}
    words = ("--net", "none", "--pids-limit", "100", "--dry-run", "--", "true")

    unknown = aisb(home, *words, PATH=f"{home}/bin")
    subprocess.run([sys.executable, "-c", REMEMBER, f"{home}/bin", "cgroupfs"], env=environ, check=True)
    known = aisb(home, *words, PATH=f"{home}/bin")

    asked = [["--pids-limit" in line for line in lines if "podman run " in line] for _, lines, _ in (unknown, known)]
    assert (unknown[0], known[0], asked) == (0, 0, [[True], [False]])


def test_what_a_project_may_not_have_is_not_in_force() -> None:
    """It is cut down, and that is what is shown; what a line of a file holds stays in its line."""
    layers = [
        Layer(USER, {"memory": Setting("2g", "c:1"), "timeout": Setting("1h", "c:2")}, {}),
        Layer(PROJECT, {"memory": Setting("64g", "p:1"), "timeout": Setting("9h", "p:2")}, {}),
    ]

    found = list(settings_in_force(read_request(split(["--net", "none"], VERBS), {}, layers)))

    assert found == ["memory 2g (c:1)", "net none (--net)", "timeout 1h (c:2)"]
    lines = dry_run_lines(Shown((), sandbox=("true",), read=("a\nrm b",), settings=("x 1\nrm c (f:1)",)))
    assert lines[:2] == ["# read: a\\nrm b", "# in force: x 1\\nrm c (f:1)"]


def test_the_lines_of_a_run_are_ready_to_paste() -> None:
    """Each text is one word of a shell's, no private value is in any, and they take away what they made."""
    prepared = Prepared(
        (("/r/a b", 0o700), ("/r/s", 0o711), ("/r/s/run", 0o755)),
        (("/r/s/f", "it's $x\n"),),
        ("/r/s/s.json",),
        (("/p/.pi", "/project/.pi"),),
        "/r/s/c",
    )
    variables = (("A", "B", True), ("HOME", "/h", False))
    run = Shown(variables, "/r/s", prepared, ("podman", "run", "x y"), ("podman", "volume", "create", "v"))
    run = run._replace(unready=("no name",), undone=("no end",))

    assert dry_run_lines(run, ShownGate("/g", ("podman", "run", "gate"), "aisb-gate-0", "0000000a")) == [
        "# ... and what adds up (entries, variables, mounts), each with where it was written: --print-policy",
        "# no name",
        "# no end",
        "(",
        "set -e",
        """[ "${B+set}" ] || { echo 'aisb: B: this variable is not set in the shell that these lines are pasted in' """
        ">&2; exit 2; }",
        "trap : HUP INT TERM",
        "umask 022",
        """tidy() { set +e; ask_gate 0 '{"op": "close", "run": "0000000a"}' 2>/dev/null; rm -rf /r/s; rmdir /p/.pi; }""",
        OWN,
        f'ask_gate() {{ python3 -c {quote(_ASK)} /g/ctl.sock "$1" "$2"; }}',
        "mkdir -p -m 700 '/r/a b'",
        f"mkdir -m 711 /r/s || {{ echo {quote(_TAKEN)} >&2; exit 1; }}",
        "trap tidy EXIT",
        THIS,
        "mkdir -p -m 755 /r/s/run",
        """printf %s 'it'"'"'s $x\n' >/r/s/f""",
        "aisb --no-cwd --net none --print-seccomp >/r/s/s.json",
        "mkdir -p /p/.pi && printf '%s %s\\n' \"$(stat -c '%d %i' /p/.pi)\" /project/.pi >>/r/s/c",
        "podman volume exists v || podman volume create v >/dev/null",
        "# values of yours are left out, and taken from this shell: A",
        """(umask 077; printf '%s\\0' "A=${B}" HOME=/h >/r/s/given)""",
        f"{GONE} podman run gate >/dev/null 3>/g/ready; }}",
        """ask_gate 20 '{"op": "open", "run": "0000000a"}'""",
        "exec 9>>/g/lock",
        "flock -s 9",
        f"({THIS}; exec podman run 'x y' 3</r/s/given 4>/r/s/phases)",
        ")",
    ]


GONE = (
    """ask_gate 0 '{"op": "status"}' 2>/dev/null || """
    "{ podman rm --force --time 0 --ignore aisb-gate-0 >/dev/null; rm -f /g/ctl.sock;"
)
THIS = """own "$(exec sh -c 'echo "$PPID"')\""""
OWN = (
    "own() { printf '%s %s %s' \"$1\" \"$(sed 's/.*) //' \"/proc/$1/stat\" | cut -d' ' -f20)\" "
    '"$(cat /proc/sys/kernel/random/boot_id)" >/r/s/owner; }'
)


def test_what_a_gate_alone_is_told_comes_from_the_shell() -> None:
    """In the form in which it reads it; a shell that lacks a variable starts no gate."""
    secrets = (ShownSecret("a.test", "Authorization", "made-up", "TOKEN"), ShownSecret("b.test", "X-Key", "other", "B"))
    gate = ShownGate("/g", ("podman", "run", "gate"), "aisb-gate-0", "0000000a", True, "LOGIN", secrets)
    lines = dry_run_lines(Shown((), "/r/s", sandbox=("true",)), gate)
    login, told = (
        line.rpartition(" >/g/")[0].removeprefix("(umask 077; ")
        for line in lines
        if line.startswith("(umask 077;") and ">/g/" in line
    )

    def said(line: str, **variables: str) -> tuple[int, str]:
        ran = subprocess.run(
            ["sh", "-c", line], env={"PATH": os.defpath, **variables}, capture_output=True, check=False
        )
        return ran.returncode, ran.stdout.decode()

    assert said(login, LOGIN="me:p w%") == (0, "me%3Ap%20w%25\n")
    code, text = said(told, TOKEN='tok"1', B="two")
    assert (code, unpack_secrets(text.encode())) == (
        0,
        (Secret("a.test", "Authorization", "made-up", 'tok"1'), Secret("b.test", "X-Key", "other", "two")),
    )
    assert (said(told, TOKEN="one")[0], said(login)[0]) == (2, 2)
    assert [line for line in lines if "gate >/dev/null" in line or line.startswith("rm ")] == [
        f"{GONE} podman run gate >/dev/null 3>/g/ready 4</g/r/0000000a/login 5</g/r/0000000a/secrets; }}",
        "rm /g/r/0000000a/login /g/r/0000000a/secrets",
    ]
    assert "rm -rf /r/s; podman rm --force --time 0 --ignore aisb-gate-0 >/dev/null; rm -rf /g; }" in "\n".join(lines)


def test_a_shell_without_a_variable_starts_nothing(tmp_path: Path) -> None:
    """Neither without one that is passed in, nor without one that a gate is told; one may be empty, the other not."""
    secrets = (ShownSecret("a.test", "Authorization", "made-up", "TOKEN"),)
    gate = ShownGate("/g", ("touch", f"{tmp_path}/gate"), "aisb-gate-0", "0000000a", True, "LOGIN", secrets)
    session = f"{tmp_path}/s"
    prepared = Prepared(((session, 0o700),))
    lines = "\n".join(dry_run_lines(Shown((("A", "B", True),), session, prepared, ("true",)), gate))
    full = {"B": "", "LOGIN": "me:p", "TOKEN": "t"}

    def pasted(shell: str, **given: str) -> tuple[int, str, bool]:
        environ = {"PATH": os.defpath, **given}
        ran = subprocess.run([shell, "-c", lines], env=environ, capture_output=True, text=True, check=False)
        return ran.returncode, ran.stderr, any(tmp_path.iterdir())

    for shell in ("sh", "bash"):
        for name in full:
            said = f"aisb: {name}: this variable is not set in the shell that these lines are pasted in\n"
            assert pasted(shell, **{key: value for key, value in full.items() if key != name}) == (2, said, False)
        assert pasted(shell, **{**full, "TOKEN": ""})[0::2] == (2, False)


@pytest.mark.parametrize(
    ("words", "comments"),
    [
        (
            ("--net", "none", "--timeout", "2s"),
            ["# --timeout is aisb's own doing: these lines wait for the command's end, not 2 s"],
        ),
        (("--net", "none", "--detach"), ["# --detach is aisb's own doing: these lines wait for the command's end"]),
        (
            ("--no-gate", "--allow", "a.test"),
            ["# --no-gate: a run looks its names up when it starts; these lines reach no name, only addresses"],
        ),
        (("--no-gate", "--allow", "10.1.2.3:5432"), []),
    ],
)
def test_a_dry_run_says_what_a_shell_does_not_do(home: Path, words: tuple[str, ...], comments: list[str]) -> None:
    (home / ".config/ai-sandbox/config.yaml").unlink()

    code, lines, said = aisb(home, *words, "--dry-run", "--", "true")

    assert (code, said) == (0, "")
    assert [line for line in lines if "aisb's own doing" in line or "looks its names" in line] == comments
    assert [line for line in lines[: lines.index("(")] if line in comments] == comments


def test_what_is_injected_is_a_placeholder_inside(home: Path) -> None:
    """The sandbox has no value, and the gate has it from the variable that it was to come from."""
    (home / ".config/ai-sandbox/config.yaml").unlink()
    words = ("--allow", "a.test", "--env", "TOKEN=@MINE", "--inject", "TOKEN@a.test", "--dry-run", "--", "true")

    code, lines, _ = aisb(home, *words, MINE="hunter2-hunter2")

    (given,) = (line for line in lines if "/given)" in line)
    told = "\n".join(lines)
    assert (code, "hunter2" in told, "TOKEN=placeholder-of-TOKEN" in given, "${MINE}" in given) == (
        0,
        False,
        True,
        False,
    )
    assert 'MINE="${MINE:?}" python3' in told
    assert "a.test Authorization placeholder-of-TOKEN MINE >" in told
    assert "--preserve-fds 3" in told


@pytest.mark.parametrize("what", ["dry-run", *(f"print-{what}" for what in PREVIEWS if what != "seccomp")])
def test_no_name_server_is_asked_where_the_proxy_is(home: Path, what: str) -> None:
    """One that nobody could look up is shown by its name."""
    code, lines, said = aisb(home, f"--{what}", "--", "true")

    shows_it = what in ("dry-run", "print-squid", "print-gate-nft")
    assert (code, said) == (0, BY_NAME if shows_it else "")
    assert lines


def test_the_gates_own_texts_are_shown(home: Path) -> None:
    """By the list, and by the image; where there is no gate there are no rules of one."""
    here = ("--allow", "10.1.2.3:5432")
    (home / ".config/ai-sandbox/config.yaml").unlink()

    _, rules, _ = aisb(home, *here, "--print-gate-nft")
    _, built, _ = aisb(home, "--print-gate-containerfile")
    without = aisb(home, "--net", "none", "--print-gate-nft")

    assert "ip daddr 10.1.2.3 tcp dport 5432 accept" in "\n".join(rules)
    assert (
        built[0]
        == "# The gate's image, on the same base as the sandbox's: squid, nft, Python, and the programs that decide."
    )
    assert (without[0], without[2]) == (
        2,
        "aisb: --print-gate-nft: there is no gate under --net none\naisb:   leave one of the two out\n",
    )


WIDE = Wanted(
    "allow", (Setting("a.test", "--allow"), Setting("10.1.2.3:5432", "--allow"), Setting("POST b.test/x", "--allow")),
    (), (), "bootstrap:trixie", "", "", 600,
)  # fmt: skip
CLOSED = WIDE._replace(net="none", allow=())


def question(wanted: Wanted) -> Question:
    """With what is told of this machine in what is rendered: its addresses, certificates of its own, a proxy."""
    asked = Question(
        wanted, "-- a certificate --", "/p", "home", "user", "", "pasta", ("192.0.2.7",), "", fingerprint()
    )
    return asked._replace(proxy_addresses=("203.0.113.9",) if wanted.proxy else ())


@pytest.fixture
def shop(tmp_path: Path, profile: None) -> Workshop:
    """A machine on which both images are, and a profile of podman's."""
    shop = make_shop(tmp_path)
    write_base_pin(shop.directories.cache, parse_base_image(WIDE.base_image), BOOTSTRAPPED)
    write_node_pin(shop.directories.cache, "linux/amd64", NODE_FROM_NPM)
    note_images(shop.directories.cache, image_names(inputs_of(shop)))
    return shop


def inputs_of(shop: Workshop) -> ImageInputs:
    """What its images are built from."""
    known = known_inputs(shop.directories.cache, spec_of(question(WIDE)))
    assert known is not None
    return known


def texts_of(wanted: Wanted, shop: Workshop, *names: str) -> dict[str, str]:
    """What is printed of these."""
    found = preview_of(question(wanted), shop.directories.cache, lambda _policy: Files())
    return {name: found.texts[name]() for name in names}


@pytest.mark.parametrize(
    "wanted", [WIDE, WIDE._replace(proxy="http://203.0.113.9:3128"), CLOSED], ids=["gated", "proxied", "closed"]
)
def test_what_is_printed_is_what_a_run_is_made_of(wanted: Wanted, shop: Workshop) -> None:
    """Byte for byte; squid's own text has its lists behind it, which are files of their own in a gate."""
    plan = make_plan.make_plan(question(wanted), shop)
    used = {"policy": plan.policy_lines, "nft": plan.session_files["sandbox.nft"], "seccomp": plan.seccomp}
    if plan.gate_files:
        used |= {"gate-nft": plan.gate_files["gate.nft"]}
        lists = [(name, plan.gate_files.get(name, "")) for name in ("peers", "allowlist")]
        behind = "".join(f"# {name}: {line}\n" for name, text in lists for line in text.splitlines())
        used |= {"squid": plan.gate_files["squid.conf"] + behind}
        assert plan.gate_files["seccomp.json"] == plan.seccomp

    assert texts_of(wanted, shop, *used) == used
    assert preview_of(question(wanted), shop.directories.cache, lambda _policy: Files()).plan() == plan


def test_what_is_printed_of_an_image_is_what_it_is_built_from(shop: Workshop) -> None:
    """The first program of a sandbox goes into its image with the others."""
    inputs = inputs_of(shop)
    (entrypoint,) = (file.data.decode() for file in inputs.files(SANDBOX) if file.path == "programs/entrypoint")

    assert texts_of(WIDE, shop, "containerfile", "gate-containerfile", "entrypoint") == {
        "containerfile": containerfile(SANDBOX, inputs),
        "gate-containerfile": containerfile(GATE, inputs),
        "entrypoint": entrypoint,
    }


def test_a_policy_that_allows_nothing_yet_is_shown_as_what_it_is(home: Path) -> None:
    """It can be looked at; that a run by it is refused is said beside it, and nothing is made from it."""
    (home / ".config/ai-sandbox/config.yaml").unlink()

    shown = aisb(home, "--print-policy")
    made = [aisb(home, *words) for words in (("--print-squid",), ("--print-gate-nft",), ("--dry-run", "--", "true"))]

    assert (shown[0], [line for line in shown[1] if line.startswith(("net", "allow"))]) == (
        0,
        ["net=allow", "net.origin=built in"],
    )
    assert shown[2].startswith("aisb: a run would be refused: nothing is allowed yet")
    assert [(code, lines, "nothing is allowed yet" in said) for code, lines, said in made] == 3 * [(2, [], True)]
