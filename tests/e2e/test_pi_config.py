"""The sandbox's pi is configured as the host's, and holds nothing of its credential."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING

import pytest

from tests.e2e.sandbox import Case, run_cases

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.e2e.lab import Lab
    from tests.e2e.sandbox import Ended

MODELS, SETTINGS = ".pi/agent/models.json", ".pi/agent/settings.json"
PI = "/home/sandbox/.pi/agent"
VERSION = "1.6.0"


def provider(host: str, key: str = "a literal key", **more: object) -> dict[str, object]:
    """A provider of a host that speaks OpenAI's format."""
    own = {"baseUrl": f"https://{host}/v1", "api": "openai-completions", "apiKey": key, "models": [{"id": "stub"}]}
    return own | more


def config(settings: Mapping[str, object] | None = None, **providers: Mapping[str, object]) -> dict[str, str]:
    """The files of the host's pi."""
    files = {MODELS: json.dumps({"providers": providers})} if providers else {}
    return files | ({SETTINGS: json.dumps(settings)} if settings is not None else {})


def sandboxed(
    flags: str, command: str, files: Mapping[str, str], variables: Mapping[str, str | None] | None = None
) -> Case:
    """aisb with these flags and a command of `sh`."""
    return Case(("aisb", *flags.split(), "--", "sh", "-c", command), files, variables or {})


def pi(flags: str, prompt: str, files: Mapping[str, str], variables: Mapping[str, str | None] | None = None) -> Case:
    """aisb with these flags, which is pi, with a prompt."""
    return Case(("aisb", *flags.split(), "-p", prompt), files, variables or {})


def warnings(ended: Ended) -> list[str]:
    """What was warned of, or refused with its hint: not what was left out, nor the caps that a host cannot keep."""
    lines = [line.removeprefix("aisb: ") for line in ended.stderr.splitlines() if line.startswith("aisb: ")]
    return [line for line in lines if line.startswith(("warning: ", "  "))]


def left_out(ended: Ended) -> list[str]:
    """The report's lines, one for each thing."""
    start = "aisb: note: pi: left out "
    return [line.removeprefix(start) for line in ended.stderr.splitlines() if line.startswith(start)]


def tokens_at(lab: Lab, *sinks: str) -> list[tuple[str, str | None]]:
    """Each server's requests for a model, with the token."""
    found = [(item["sink"], item["headers"].get("authorization")) for item in lab.sinks("request")]
    return sorted({item for item in found if item[0] in (sinks or ("llm.test",))})


# The needle comes from a file, and is in no command's arguments.
SEARCH = """
printf %s "$REVERSED" | rev >/tmp/control
grep -r -l -a -F -f /tmp/control / --exclude-dir=proc --exclude-dir=sys 2>/dev/null
cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | grep -a -c -F -f /tmp/control
"""


def test_pi_answers_and_the_hosts_key_is_nowhere_in_its_sandbox(lab: Lab) -> None:
    """A literal key, a command, a path and an unknown field: rewritten, and each thing that was left out is a line."""
    key, token = (f"sk-{secrets.token_hex(16)}" for _ in range(2))
    gateway = provider("llm.test", key, fromTheFuture={"a": [1]}, note=f"it is {key}", headers={"X-Tenant": "blue"})
    written = gateway | {"headers": {"X-Tenant": "blue", "X-From": "!touch ~/ran", "Authorization": f"Bearer {key}"}}
    written |= {"models": [{"id": "stub", "apiKey": key}], "compat": {"api_key": key[:11]}}
    settings = {"defaultProvider": "gw", "theme": "light", "sessionDir": "~/sessions", "shellPath": "~/bin/fish"}
    settings |= {"search": {"braveApiKey": "short"}, "remember": f"the key is {key}"}
    never = dict.fromkeys((".pi/agent/auth.json", ".pi/agent/trust.json", ".pi/agent/models-store.json"), f'"{key}"')
    files = config(settings, gw=written) | never
    variables = {"AI_API_TOKEN": token, "REVERSED": key[::-1]}
    show = f"cat {PI}/models.json; printf '\\0'; cat {PI}/settings.json; stat -c '%a %u' {PI}/*.json"

    answer, shown, searched = run_cases(
        lab,
        [
            pi("--allow llm.test", "Say: `echo $((6 * 7)) $AI_API_TOKEN | rev`", files, variables),
            sandboxed("--allow llm.test", show, files, variables),
            sandboxed("-q --allow llm.test --env REVERSED", SEARCH, files, variables),
        ],
    )

    assert (answer.code, answer.stdout) == (0, f"The tool said: {f'42 {token}'[::-1]}\n\n"), answer.stderr
    del gateway["note"]
    models, _, rest = shown.stdout.partition("\0")
    assert json.loads(models) == {"providers": {"gw": gateway | {"apiKey": "$AI_API_TOKEN", "compat": {}}}}
    assert rest == (
        f'{{\n  "defaultProvider": "gw",\n  "theme": "light",\n  "search": {{}},\n  "lastChangelogVersion": "{VERSION}"\n}}\n'
        + "600 1000\n" * 4
    )
    assert left_out(shown) == [
        "models.json: providers.gw.headers.X-From: a command: nothing of this host is run",
        "models.json: providers.gw.headers.Authorization: it looks like a credential",
        "models.json: providers.gw.models[0].apiKey: it looks like a credential",
        "models.json: providers.gw.note: it holds one of the keys of pi",
        "models.json: providers.gw.compat.api_key: it looks like a credential",
        "settings.json: sessionDir: a directory of this host",
        "settings.json: search.braveApiKey: it looks like a credential",
        "settings.json: remember: it holds one of the keys of pi",
        "settings.json: shellPath: it names a path of this host",
    ]
    assert (searched.stdout, searched.code) == ("/tmp/control\n0\n", 1), searched.stderr
    assert tokens_at(lab) == [("llm.test", f"Bearer {token}")]


# What a login in a company exports: the ways out of that network, and its certificates, which are not there inside.
OF_THE_HOST = {
    "ALL_PROXY": "socks5://127.0.0.1:1080",
    "all_proxy": "socks5h://127.0.0.1:1080",
    "HTTPS_PROXY": "http://me:hidden@127.0.0.1:9",
    "http_proxy": "http://me:hidden@127.0.0.1:9",
    "NO_PROXY": "*",
    "NODE_USE_ENV_PROXY": "0",
    **dict.fromkeys(
        ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
        "/srv/corp.pem",
    ),
    "NODE_OPTIONS": "--require=/srv/corp.js",
}
# What of it an agent's shell has, by the names; and whether each bundle that is named there is one.
LEAKED = (
    "env | grep -e /srv/corp -e socks5 -e hidden; echo NO_PROXY=$NO_PROXY | grep -F \\*; "
    "for name in SSL_CERT_FILE NODE_EXTRA_CA_CERTS GIT_SSL_CAINFO REQUESTS_CA_BUNDLE CURL_CA_BUNDLE; do "
    "test -s $(printenv $name) || echo no $name; done; echo looked"
)


def test_the_hosts_ways_out_and_certificates_are_not_pis(lab: Lab) -> None:
    """
    Neither by variables nor by its settings; the bundle that was given once is in each variable, and pi trusts it.
    (B24, C19)
    """
    files = config({"defaultProvider": "gw", "httpProxy": "http://127.0.0.1:9"}, gw=provider("llm.test"))
    variables = OF_THE_HOST | {"AI_API_TOKEN": "a-token-of-ours"}

    (answer,) = run_cases(lab, [pi("--allow llm.test", f"Look: `{LEAKED}`", files, variables)])

    assert answer.stdout == "The tool said: looked\n\n", answer.stderr
    assert tokens_at(lab) == [("llm.test", "Bearer a-token-of-ours")]


def test_another_pi_directory_is_read_in_the_place_of_the_first(lab: Lab) -> None:
    """PI_CODING_AGENT_DIR counts as it does for pi, and the file may have comments and a trailing comma."""
    text = '{ // the gateway\n "providers": {"gw": {"baseUrl": "https://llm.test/v1",},}, }'
    files = {"own/models.json": text} | config({"theme": "light"})
    command = f"cd {PI} && cat *.json"

    (found,) = run_cases(lab, [sandboxed("--net none", command, files, {"PI_CODING_AGENT_DIR": "~/own"})])

    assert found.stdout.splitlines() == [
        *('{\n  "providers": {\n    "gw": {\n      "baseUrl": "https://llm.test/v1"\n    }\n  }\n}'.splitlines()),
        *(f'{{\n  "lastChangelogVersion": "{VERSION}"\n}}'.splitlines()),
    ], found.stderr


def test_without_a_configuration_or_where_nobody_wants_it_there_is_none(lab: Lab) -> None:
    """What the host's pi keeps besides is no configuration."""
    look = "ls -A ~"

    none, unwanted = run_cases(
        lab,
        [
            sandboxed("--net none", look, {".pi/agent/auth.json": "{}"}),
            sandboxed("--net none --no-pi-config", look, config({"theme": "light"})),
        ],
    )

    assert [none.stdout, unwanted.stdout] == ["", ""]
    assert "pi: " not in none.stderr + unwanted.stderr


OPENED = """
mkdir -p ~/.pi/agent/sessions ~/.pi/agent/extensions ~/.pi/agent/skills
echo '{"theme": "light"}' >~/.pi/agent/settings.json
touch ~/.pi/agent/auth.json ~/.pi/agent/models-store.json ~/.pi/agent/trust.json ~/.pi/agent/extensions/x.ts
strace -f -qq -e trace=%file -o trace aisb --net none --no-cwd --dry-run >/dev/null
grep -o '/\\.pi[^"]*' trace | sort -u
"""


def test_of_the_hosts_pi_two_files_are_looked_at(lab: Lab) -> None:
    """Neither its credentials nor what it has besides, as the kernel saw it."""
    result = lab.run(OPENED)

    assert result.text.split() == [
        "/.pi",
        "/.pi/agent",
        "/.pi/agent/models.json",
        "/.pi/agent/settings.json",
    ], result.errors


@pytest.mark.parametrize(
    ("files", "place"),
    [
        ({MODELS: '{"providers": {},\n "x" 1}'}, "models.json:2:6: "),
        ({SETTINGS: "{ // none here\n}"}, "settings.json:1:3: "),
    ],
    ids=["models", "settings"],
)
def test_a_file_that_pi_could_not_read_is_an_error_with_its_place(
    lab: Lab, files: Mapping[str, str], place: str
) -> None:
    """And nothing of the other file goes in either."""
    both = config({"theme": "light"}, gw={}) | files

    refused, after = run_cases(
        lab, [sandboxed("--net none", "true", both), sandboxed("--net none --no-pi-config", "ls -A ~", {})]
    )

    assert refused.code == 2
    assert place in refused.stderr
    assert "aisb:   mend the file, or run without it: --no-pi-config\n" in refused.stderr
    assert ".pi" not in after.stdout.split()


STATES = """
mkdir -p ~/.pi/agent
host() { echo "{\\"theme\\": \\"$1\\"}" >~/.pi/agent/settings.json; }
run() {
    aisb --net none "$@" -- sh -c 'grep -o "theme.*[a-z]" ~/.pi/agent/settings.json; eval "$0"' "$inside" 2>words
    grep -o "note: /home/sandbox/.pi.*" words
    inside=
}
host one; run
run
host two; inside='sed -i s/two/mine/ ~/.pi/agent/settings.json'; run
run
host three; run
run
$(grep -o 'aisb --net none --no-pi-config.*' words) 2>/dev/null
inside='rm ~/.pi/agent/settings.json'; run
run
"""


def test_the_four_states_of_a_file_that_host_and_sandbox_share(lab: Lab) -> None:
    """A host's change arrives, an edit made inside stays, of both the edit stays, and a deletion takes the host's."""
    result = lab.run(STATES)

    edited = f"note: {PI}/settings.json was edited inside, and stays so"
    both = (
        f"note: {PI}/settings.json was edited inside and stays so, though this host has another version now; to take "
        f"that: aisb --net none --no-pi-config -- rm {PI}/settings.json"
    )
    assert result.text.splitlines() == [
        *('theme": "one', 'theme": "one', 'theme": "two'),
        *('theme": "mine', edited, 'theme": "mine', both, 'theme": "mine', both),
        *('theme": "three', 'theme": "three'),
    ], result.errors


PLANTED = {
    "the directory, a link to the project": "ln -s /project ~/.pi/agent",
    "the directory, a link to the system": "ln -s /etc ~/.pi/agent",
    "the directory above it": "rm -r ~/.pi; ln -s /project ~/.pi",
    "the directory, a file": "touch ~/.pi/agent",
    "the copies, a link": "mkdir ~/.pi/agent; ln -s /project ~/.pi/agent/.aisb",
    "a link to git's configuration": "mkdir ~/.pi/agent; ln -s /project/.git/config ~/.pi/agent/settings.json",
    "a pipe": "mkdir ~/.pi/agent; mkfifo ~/.pi/agent/settings.json",
    "a directory": "mkdir -p ~/.pi/agent/settings.json/x",
    "a second name": "mkdir ~/.pi/agent; echo mine >~/other; ln ~/other ~/.pi/agent/settings.json",
    "a file for all": "mkdir ~/.pi/agent; touch ~/.pi/agent/settings.json; chmod 666 ~/.pi/agent/settings.json",
}
PLANT = """
mkdir -p .git ~/.pi/agent; echo '[core]' >.git/config
echo '{"theme": "light"}' >~/.pi/agent/settings.json
printf '%s\\n' "$PLANTED" | while IFS= read -r plant; do
    aisb -q --net none --no-pi-config -- sh -c "rm -rf ~/.pi ~/other; mkdir ~/.pi; $plant" </dev/null
    timeout 60 aisb -q --net none -- sh -c 'stat -c "%F %a %h" ~/.pi/agent/settings.json; cat ~/other' \
        </dev/null >out 2>words
    echo "$? $(cat out words | grep -v "No such file" | tr '\\n' '|')"
done
rm out words
find . -type f; cat .git/config
"""
_REFUSED = "77 aisb: refused to run unprotected: "
_WAY_OUT = "|aisb:   go on without pi's configuration: --no-pi-config; or with a home that ends with the run: --ephemeral-home|"
_REPLACED = "1 regular file 600 1|"


def test_what_an_agent_planted_in_the_way_is_replaced_or_refused(lab: Lab) -> None:
    """(A52) No link is followed, no pipe is waited for, and nothing of the project is written."""
    result = lab.run(PLANT, env={"PLANTED": "\n".join(PLANTED.values())}, timeout=300)

    *ended, first, second = result.text.splitlines()
    assert dict(zip(PLANTED, ended, strict=True)) == {
        "the directory, a link to the project": f"{_REFUSED}.pi/agent in the home: agent is no directory{_WAY_OUT}",
        "the directory, a link to the system": f"{_REFUSED}.pi/agent in the home: agent is no directory{_WAY_OUT}",
        "the directory above it": f"{_REFUSED}.pi/agent in the home: .pi is no directory{_WAY_OUT}",
        "the directory, a file": f"{_REFUSED}.pi/agent in the home: agent is no directory{_WAY_OUT}",
        "the copies, a link": f"{_REFUSED}.pi/agent/.aisb in the home: .aisb is no directory{_WAY_OUT}",
        "a link to git's configuration": _REPLACED,
        "a pipe": _REPLACED,
        "a directory": f"{_REFUSED}.pi/agent/settings.json in the home: Is a directory{_WAY_OUT}",
        "a second name": "0 regular file 600 1|mine|",
        "a file for all": "1 regular empty file 600 1|",
    }, result.errors
    assert (first, second) == ("./.git/config", "[core]")
