"""Whose token goes where: one to one host, by its name or by the gate, and none to anybody else."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.e2e.conftest import NAMES
from tests.e2e.lab import HERE, LABORATORY
from tests.e2e.sandbox import Case, outside, run_cases
from tests.e2e.test_pi_config import (
    MODELS,
    PI,
    SEARCH,
    SETTINGS,
    config,
    pi,
    provider,
    sandboxed,
    tokens_at,
    warnings,
)

if TYPE_CHECKING:
    from tests.e2e.lab import Lab
    from tests.e2e.sandbox import Ended

PACKAGE = {"package.json": '{"scripts": {"test": "echo tested"}}'}


def refusals(ended: Ended) -> list[str]:
    """The error and its hint, without notes."""
    lines = [line.removeprefix("aisb: ") for line in ended.stderr.splitlines()]
    return [line for line in lines if not line.startswith("note: ")]


UNSET = "AI_API_TOKEN, the token of pi's provider gw, is not set, or empty"
SET_IT = "export AI_API_TOKEN=... first; name another: --pi-token-env NAME; or none: --no-pi-token-env"


def test_a_pi_that_could_not_reach_its_model_is_not_started(lab: Lab) -> None:
    """(C16) Without its token, or with its host unlisted: refused with the exact flag, and nothing has left."""
    files = config({"defaultProvider": "gw"}, gw=provider("llm.test"), vendor=provider("cdn.test:8443"))
    token: dict[str, str | None] = {"AI_API_TOKEN": "a-token-of-ours"}

    unset, empty, closed, other, offline, works = run_cases(
        lab,
        [
            pi("--allow llm.test", "x", files, {"AI_API_TOKEN": None}),
            pi("--allow llm.test", "x", files, {"AI_API_TOKEN": ""}),
            pi("--allow allowed.test", "x", files, token),
            pi("--allow llm.test --provider vendor", "x", files, token),
            pi("--net none", "x", files, token),
            pi("--allow llm.test", "`echo works`", files, token),
        ],
    )

    assert {ended.code for ended in (unset, empty, closed, other, offline)} == {2}
    assert refusals(unset) == refusals(empty) == [UNSET, f"  {SET_IT}"]
    assert refusals(closed) == ["pi's provider gw is at llm.test, which is not allowed", "  add: --allow llm.test"]
    assert refusals(other) == [
        "pi's provider vendor is at cdn.test:8443, which is not allowed",
        "  add: --allow cdn.test:8443",
    ]
    assert refusals(offline)[1] == "  add: --net allow --allow llm.test"
    assert works.stdout == "The tool said: works\n\n", works.stderr
    assert warnings(works) == [
        "warning: 1 more provider of pi's is configured and not allowed (--trace names what would allow it)"
    ]
    assert tokens_at(lab, "llm.test", "cdn.test") == [("llm.test", "Bearer a-token-of-ours")]


def test_another_command_is_not_refused_and_warned_in_one_line(lab: Lab) -> None:
    """The files are there, and the token where it is set; a trace has the entry for each provider."""
    files = config({"defaultProvider": "gw"}, gw=provider("llm.test"), vendor=provider("cdn.test"))
    variables: dict[str, str | None] = {"AI_API_TOKEN": None}
    look = f"ls {PI}; echo $AI_API_TOKEN"

    npm, shell, unset, given, traced = run_cases(
        lab,
        [
            Case(("sh", "-c", "cp ~/package.json . && aisb --allow @npm -- npm test"), files | PACKAGE, variables),
            Case(("aisb", "--net", "none", "--shell"), files, variables, stdin="ls ~/.pi/agent; exit 7\n"),
            sandboxed("--allow llm.test", look, files, variables),
            sandboxed("--allow llm.test --trace", look, files, {"AI_API_TOKEN": "a-token-of-ours"}),
            sandboxed("--allow llm.test --no-pi-token-env", look, files, {"AI_API_TOKEN": "a-token-of-ours"}),
        ],
    )

    closed = "pi's provider gw is at llm.test, which is not allowed (add: "
    start, more = "warning: pi would not work as it is: ", "1 more provider of pi's is configured and not allowed"
    trace = "--trace names what would allow it"
    assert (npm.code, npm.stdout.splitlines()[-1]) == (0, "tested"), npm.stderr
    assert warnings(npm) == [f"{start}{closed}--allow llm.test); {more} ({trace})"]
    assert (shell.code, shell.stdout) == (7, "models.json\nsettings.json\n"), shell.stderr
    assert warnings(shell) == [f"{start}{closed}--net allow --allow llm.test); {more} ({trace})"]
    assert unset.stdout == "models.json\nsettings.json\n\n"
    assert warnings(unset) == [f"{start}{UNSET} ({SET_IT}); {more} ({trace})"]
    assert given.stdout == "models.json\nsettings.json\na-token-of-ours\n"
    assert "aisb: pi's provider vendor is at cdn.test: --allow cdn.test\n" in given.stderr
    assert traced.stdout == "models.json\nsettings.json\n\n"


def test_a_provider_that_only_the_settings_name_is_asked_for_its_token(lab: Lab) -> None:
    """One that pi knows by itself: refused with the exact flag, and with it its model has the key, by either way. (C16)"""
    files = config({"defaultProvider": "anthropic"})
    key = f"sk-ant-api03-{secrets.token_urlsafe(30)}"
    variables: dict[str, str | None] = {"AI_API_TOKEN": None, "ANTHROPIC_API_KEY": key}

    unset, closed, named, kept, own = run_cases(
        lab,
        [
            pi("--allow @anthropic", "x", files, variables),
            pi("--allow llm.test", "x", files, variables),
            pi("--allow @anthropic --pi-token-env ANTHROPIC_API_KEY", "1", files, variables),
            pi("--allow @anthropic --pi-token-env ANTHROPIC_API_KEY --pi-inject", "12", files, variables),
            pi("--allow @anthropic --env ANTHROPIC_API_KEY", "123", files, variables),
        ],
    )

    assert refusals(unset) == [
        "AI_API_TOKEN, the token of pi's provider anthropic, is not set, or empty",
        "  export AI_API_TOKEN=... first; name another: --pi-token-env ANTHROPIC_API_KEY; or none: --no-pi-token-env",
    ]
    assert refusals(closed) == [
        "pi's provider anthropic is at api.anthropic.com, which is not allowed",
        "  add: --allow api.anthropic.com",
    ]
    said = [ended.stdout for ended in (named, kept, own)]
    assert said == ["letters:1\n", "letters:2\n", "letters:3\n"], named.stderr + kept.stderr + own.stderr
    told = {item["headers"].get("x-api-key") for item in lab.sinks("request", sink="api.anthropic.com")}
    assert told == {key}


BOTH = "--allow llm.test --allow cdn.test"


def test_a_token_does_not_travel_to_another_vendor(lab: Lab) -> None:
    """Of two providers on two hosts each has the token that was named for it, and none where nobody said."""
    account = {"X-Account": "me-$AI_API_TOKEN"}
    files = config({"defaultProvider": "gw"}, gw=provider("llm.test"), vendor=provider("cdn.test", headers=account))
    variables = {"AI_API_TOKEN": "the-gateways-own", "VENDOR": "the-vendors-own"}
    gateways = f"{BOTH} --pi-token-env gw=AI_API_TOKEN"
    ask = "--provider vendor --model vendor/stub"
    from_inside = f"pi {ask} -p x; cat {PI}/models.json; env | grep -c VENDOR"

    asked, one, other, inside, *each = run_cases(
        lab,
        [
            pi(BOTH, "x", files, variables),
            pi(gateways, "`echo gateway`", files, variables),
            pi(f"{gateways} {ask}", "x", files, variables),
            sandboxed(gateways, from_inside, files, variables),
            pi(f"{gateways} --pi-token-env vendor=VENDOR {ask}", "`echo vendor`", files, variables),
        ],
    )

    assert (asked.code, refusals(asked)) == (
        2,
        [
            "pi's providers gw and vendor are at different hosts, and one token goes to one host",
            "  say whose it is: --pi-token-env gw=AI_API_TOKEN",
        ],
    )
    assert one.stdout == "The tool said: gateway\n\n", one.stderr
    assert (other.code, refusals(other)) == (
        2,
        ["pi's provider vendor has no token", "  name one: --pi-token-env vendor=NAME"],
    )
    keys = [
        item.get("apiKey") for item in json.loads(inside.stdout[inside.stdout.index("{\n") : -2])["providers"].values()
    ]
    assert (keys, inside.stdout[-2:]) == (["$AI_API_TOKEN", None], "0\n")
    assert each[0].stdout == "The tool said: vendor\n\n", each[0].stderr
    assert tokens_at(lab, "llm.test", "cdn.test") == [
        ("cdn.test", "Bearer the-vendors-own"),
        ("llm.test", "Bearer the-gateways-own"),
    ]
    assert "the-gateways-own" not in json.dumps(lab.sinks("request", sink="cdn.test"))


def test_the_bridge_opens_no_host(lab: Lab) -> None:
    """What the host's pi is configured for is refused inside as ever, where nobody allowed it."""
    files = config({"defaultProvider": "gw"}, gw=provider("llm.test"), vendor=provider("cdn.test"))
    ask = "for host in llm.test cdn.test; do curl -sS -o /dev/null -w '%{http_code} ' https://$host/headers; done"
    control = Case(("sh", "-c", ask), {}, {"CURL_CA_BUNDLE": os.environ.get("LAB_CA")})

    on_host, inside = run_cases(
        lab,
        [
            control._replace(argv=("sh", "-c", f'export CURL_CA_BUNDLE="$LAB_CA"; {ask}'), variables={}),
            sandboxed("-q --allow llm.test", ask, files, {"AI_API_TOKEN": "a-token-of-ours"}),
        ],
    )

    assert (on_host.stdout, inside.stdout) == ("200 200 ", "200 000 "), inside.stderr
    reached = [item["sink"] for item in lab.sinks("request")]
    assert sorted(reached) == ["cdn.test", "llm.test", "llm.test"]


def test_with_pi_inject_pi_answers_and_its_sandbox_has_never_held_the_token(lab: Lab) -> None:
    """The server sees the token, pi and all that can be seen inside have a placeholder."""
    token = f"sk-{secrets.token_hex(16)}"
    files = config({"defaultProvider": "gw"}, gw=provider("llm.test", token))
    variables = {"AI_API_TOKEN": token, "REVERSED": token[::-1]}
    control = 'test "$AI_API_TOKEN" && test "$AI_API_TOKEN" != "$(rev /dev/stdin <<E\n$REVERSED\nE\n)" && echo other'

    answer, placeholder, searched, unset = run_cases(
        lab,
        [
            pi("--allow llm.test --pi-inject", "`echo hidden`", files, variables),
            sandboxed("-q --allow llm.test --pi-inject --env REVERSED", control, files, variables),
            sandboxed("-q --allow llm.test --pi-inject --env REVERSED", SEARCH, files, variables),
            pi("--allow llm.test --pi-inject", "x", files, {"AI_API_TOKEN": None}),
        ],
    )

    assert answer.stdout == "The tool said: hidden\n\n", answer.stderr
    assert "; AI_API_TOKEN for llm.test stays in the gate\n" in answer.stderr
    assert placeholder.stdout == "other\n", placeholder.stderr
    assert searched.stdout == "/tmp/control\n0\n", searched.stderr
    assert refusals(unset) == [UNSET, f"  {SET_IT}"]
    assert tokens_at(lab) == [("llm.test", f"Bearer {token}")]


def test_a_model_on_the_hosts_loopback_works_unchanged(lab: Lab) -> None:
    """Its port is named in the refusal, and with it pi reaches it by the host's own baseUrl."""
    port = 20_000 + secrets.randbelow(10_000)
    local = provider("x") | {"baseUrl": f"http://localhost:{port}/v1", "apiKey": "ollama"}
    files = config(None, local=local) | {"model.py": outside("model")}
    variables: dict[str, str | None] = {"LOCAL_KEY": "not-a-secret"}

    def beside(flags: str) -> Case:
        argv = ("sh", "-c", f"exec python3 ~/model.py {port} aisb {flags} --pi-token-env LOCAL_KEY -p x")
        return Case(argv, files, variables)

    refused, answered = run_cases(lab, [beside("--allow allowed.test"), beside(f"--allow host:{port}")])

    assert (refused.code, refusals(refused)) == (
        2,
        [f"pi's provider local is at localhost:{port}, which is not allowed", f"  add: --allow host:{port}"],
    )
    assert answered.stdout == "the local model was told: Bearer not-a-secret\n", answered.stderr


def test_what_an_agent_can_write_does_not_say_where_a_token_goes(lab: Lab) -> None:
    """A configuration in the project, or linked into it or into what is mounted writable, is refused."""
    text = json.dumps({"providers": {"gw": provider("llm.test")}})
    variables = {"AI_API_TOKEN": "a-token-of-ours"}
    start = 'mkdir -p ~/.pi/agent ~/other pi; printf %s "$TEXT" | tee ~/other/models.json >pi/models.json; '
    trial = "aisb -q --allow llm.test {} -- true; echo $?"

    result = lab.run(
        start
        + "PI_CODING_AGENT_DIR=pi "
        + trial.format("")
        + "; ln -s ~/other/models.json ~/.pi/agent/models.json; "
        + trial.format("--mount ~/other:/mnt/other:rw")
        + "; "
        + trial.format("--mount ~/other:/mnt/other"),
        env={"TEXT": text, **variables},
    )

    assert result.text == "78\n78\n0\n", result.errors
    assert result.errors.count("where an agent can change it, and it says where pi's token goes\n") == 2


OLD, NEW = "@mariozechner/pi-coding-agent", "@earendil-works/pi-coding-agent"
OLD_VERSION = "0.73.1"
# By the registry that this machine's npm is configured for; once for each host, for it is large.
INSTALL = f"""
place=$HOME/old-pi-{OLD_VERSION}
if ! [ -e "$place/done" ]; then
    rm -rf "$place" && mkdir -p "$place" && touch ~/.npmrc
    roots=/etc/ssl/certs/ca-certificates.crt
    image=$(podman images --format '{{{{.Repository}}}}:{{{{.Tag}}}}' | grep -m1 '^localhost/aisb-sandbox:')
    podman run --rm --pull=never --network host --volume "$place:/place" --volume ~/.npmrc:/npmrc:ro \\
        --volume $roots:$roots:ro --env NODE_EXTRA_CA_CERTS=$roots \\
        --workdir /place --entrypoint npm "$image" install --userconfig /npmrc --prefix /place --cache /tmp/cache \\
        --ignore-scripts --no-fund --no-audit --loglevel error {OLD}@{OLD_VERSION} >&2
    touch "$place/done"
fi
"""
# Its programs are mounted: an image for each host would be as large again.
MAKE_IMAGES = f"""
image=$(aisb --net none --no-pi-config --dry-run -- true | grep -o 'localhost/aisb-sandbox:[0-9a-f]*')
for package in {OLD} {NEW}; do
    case $package in {OLD}) repository=localhost/aisb-test-pi-old ;; *) repository=localhost/aisb-test-pi-new ;; esac
    name=$repository:${{image#*:}}
    if ! podman image exists $name; then
        old=$(podman images -q $repository)
        [ -z "$old" ] || podman rmi -f $old >/dev/null
        podman build -q --pull=never --network none -t $name --label aisb.pi-package=$package \\
            --label aisb.pi-version={OLD_VERSION} - >/dev/null <<END || exit
FROM $image
USER 0
RUN ln -sf /opt/old-pi/node_modules/.bin/pi /usr/local/bin/pi
END
    fi
    podman run --rm --network none --userns keep-id:uid=1000,gid=1000 --user 0 --entrypoint /bin/true $name || exit
    echo $name
done
"""
OLD_PI = """
cat >~/with_image.py
mkdir -p ~/.pi/agent
printf %s "$MODELS" >~/.pi/agent/models.json
printf %s "$SETTINGS" >~/.pi/agent/settings.json
for image in $IMAGES; do
    python3 ~/with_image.py $image -q --mount $PLACE:/opt/old-pi --allow llm.test -p 'x `pi --version`'
done
"""


# Nothing of this depends on the host's podman: one host will do.
@pytest.mark.parametrize("lab", NAMES[:1], indirect=True)
def test_the_older_pi_sends_the_token_and_not_the_variables_name(lab: Lab) -> None:
    """Which spelling it resolves is the image's label: under the newer one's it sends the reference as the key."""
    place = on_the_machine(lab, f"{INSTALL}echo $place").strip()
    made = lab.run(MAKE_IMAGES, timeout=300)
    assert made.code == 0, made.errors
    files = config({"defaultProvider": "gw", "defaultModel": "stub"}, gw=provider("llm.test"))
    variables = {
        "IMAGES": made.text,
        "PLACE": place,
        "AI_API_TOKEN": "a-token-of-ours",
        "MODELS": files[MODELS],
        "SETTINGS": files[SETTINGS],
    }

    result = lab.run(OLD_PI, stdin=outside("with_image").encode(), env=variables, timeout=200)

    sent = [item["headers"].get("authorization") for item in lab.sinks("request", sink="llm.test")]
    assert list(dict.fromkeys(sent)) == ["Bearer a-token-of-ours", "Bearer $AI_API_TOKEN"], result.errors
    assert result.text == f"The tool said: {OLD_VERSION}\n\n" * 2, result.errors


def on_the_machine(lab: Lab, script: str) -> str:
    """Run a script as the account, in the network that builds have."""
    lab_host = () if lab.name == HERE else (f"{LABORATORY}/host", lab.name, "--")
    environment = os.environ | {"LAB_HELD": "yes"}
    argv = (*lab_host, "sh", "-ec", script)
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
