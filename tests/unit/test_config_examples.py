"""The files in config/examples, read by the commands that their README gives and by aisb's own parsers."""

from __future__ import annotations

import os
import re
import subprocess

from aisb.cli.main import VERBS
from aisb.cli.request import read_request
from aisb.cli.splitter import Split, split
from aisb.domain.allow_file import parse_allow_file
from aisb.domain.config_file import parse_config
from aisb.domain.egress import EgressPolicy, policy_json
from aisb.domain.env_file import parse_env_file
from aisb.domain.gather import gather
from aisb.domain.http_request import honest_request
from aisb.domain.layers import USER, Setting
from aisb.domain.options import OPTIONS
from aisb.domain.policy import parse_allow
from aisb.domain.policy_file import parse_policy_file
from aisb.domain.reduce import reduce_names
from aisb.domain.rules import Engine, NameEntry
from aisb.domain.variables import values_of

CHECKOUT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXAMPLES = os.path.join(CHECKOUT, "config", "examples")
BASE_ENVIRONMENT = {"HOME": "/home/user", "PATH": os.defpath}


def read(name: str) -> str:
    """An example's text."""
    with open(os.path.join(EXAMPLES, name), encoding="utf-8") as file:
        return file.read()


def shell(text: str) -> str:
    """What a shell at the top of the checkout prints."""
    done = subprocess.run(
        ("sh", "-euc", text), cwd=CHECKOUT, env=BASE_ENVIRONMENT, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout


def environment_after(text: str) -> dict[str, str]:
    """The variables of a shell that has run the text."""
    pairs = (entry.partition("=") for entry in shell(f"{text}\nenv -0").split("\0") if entry)
    return {name: value for name, _, value in pairs if name not in {"PWD", "OLDPWD", "_", "SHLVL"}}


def blocks() -> list[str]:
    """The README's commands, a block each."""
    return [
        "\n".join(line.removeprefix("    ") for line in block.splitlines())
        for block in re.findall(r"^(?: {4}.*\n)+", read("README.md"), re.MULTILINE)
    ]


def split_by_shell(line: str) -> Split:
    """One command line of aisb, taken apart by a shell and then by aisb."""
    assert line.startswith("aisb ")
    words = shell(f"printf '%s\\0' {line.removeprefix('aisb ')}").split("\0")[:-1]
    return split(words, VERBS)


def test_the_allow_list_is_what_its_comments_say() -> None:
    """Read by the README's own command, and as the gate would read it."""
    (line,) = [
        line
        for block in blocks()
        for line in block.splitlines()
        if "config/examples/allow" in line and "aisb" in line[:5]
    ]
    request = read_request(split_by_shell(line), {})

    items = parse_allow(request.wanted.net, request.wanted.allow)

    names = reduce_names(item.entry for item in items if isinstance(item.entry, NameEntry))
    assert request.has("dry-run")
    assert policy_json(EgressPolicy(names)) == (
        '{"addresses":[],"host_ports":[],"injections":[],"learn":false,"names":['
        '{"host":"cdn.example.net","match":"below","ports":[80,443]},'
        '{"host":"db-dev.example.com","match":"exact","ports":[5432]},'
        '{"host":"git.example.com","match":"exact","ports":[22,80,443]},'
        '{"host":"llm.example.com","match":"exact","ports":[80,443]},'
        '{"host":"packages.example.com","match":"tree","ports":[80,443]}'
        '],"rules":[],"version":4}\n'
    )


def test_the_env_file_is_one_that_the_command_takes() -> None:
    """Placeholders, and nothing else."""
    (block,) = [block for block in blocks() if "--env-file" in block]
    given = parse_env_file(read("env").encode(), "env")
    request = read_request(split_by_shell(block.splitlines()[-1]), {}, (), given)

    assert request.env_paths == ("config/examples/env",)
    assert values_of(request.given, {}) == {b"AI_API_TOKEN": b"put-your-token-here", b"LOG_LEVEL": b"info"}
    assert parse_allow(request.wanted.net, request.wanted.allow)


def test_the_settings_are_variables_that_aisb_reads() -> None:
    """Also those that are commented out; and every option that has a variable is there."""
    known = {f"AISB_{option.name.upper().replace('-', '_')}" for option in OPTIONS if "env" in option.layers}
    # What concerns the images of a machine, and no single run.
    known |= {"AISB_BASE_AUTO_UPDATE", "AISB_BASE_TTL_DAYS", "AISB_NODE_MIRROR", "AISB_REGISTRY_MIRROR"}

    assert sorted(re.findall(r"^#?([A-Z_]+)=", read("aisb.env"), re.MULTILINE)) == sorted(known)


def test_the_settings_can_be_meant() -> None:
    """As they stand, and with the commented forms too."""
    (block,) = [block for block in blocks() if "aisb.env;" in block]
    source, command = block.splitlines()
    environment = environment_after(source)
    everything = environment_after("set -a\n" + re.sub(r"^#(?=AISB_)", "", read("aisb.env"), flags=re.MULTILINE))

    request = read_request(split_by_shell(command), environment)
    full = read_request(split(["--no-cwd"], VERBS), everything)

    assert (request.wanted.net, request.wanted.idle_seconds, request.settings) == ("none", 1800, frozenset({"shell"}))
    assert (full.wanted.net, full.wanted.base_image, full.wanted.ca_bundle, full.gate_network) == (
        "allow",
        "bootstrap:trixie",
        "/etc/ssl/certs/company.pem",
        "isolated",
    )


def test_the_configuration_is_what_its_comments_say() -> None:
    """As it stands, and with the commented key too."""
    layer = parse_config(read("config.yaml").encode(), "config.yaml", USER)
    everything = re.sub(r"^#(?=ca-bundle)", "", read("config.yaml"), flags=re.MULTILINE)
    request = read_request(split([], VERBS), {}, [parse_config(everything.encode(), "config.yaml", USER)])

    assert read_request(split([], VERBS), {}, [layer]).wanted.ca_bundle == ""
    assert (request.wanted.allow, request.wanted.environment, request.wanted.idle_seconds) == (
        (Setting("exact:llm.example.com", "config.yaml:3"),),
        (Setting("AI_API_TOKEN", "config.yaml:4"),),
        1800,
    )
    assert request.wanted.ca_bundle == "/etc/ssl/certs/company.pem"


def test_the_allow_list_is_a_projects_file_too() -> None:
    """The same entries as by the command."""
    entries = parse_allow_file(read("allow").encode(), ".ai-sandbox/allow")

    assert len(parse_allow("allow", entries)) == 6
    assert entries[0] == ("exact:llm.example.com", ".ai-sandbox/allow:5")


GITHUB = {
    "GET https://github.com/octo/repo": True,
    "GET https://github.com/octo/repo.git/info/refs?service=git-upload-pack": True,
    "POST https://github.com/octo/repo.git/git-upload-pack": True,
    "POST https://github.com/octo/repo/git-upload-pack": True,
    "POST http://github.com/octo/repo/git-upload-pack": True,
    "POST https://github.com/octo/repo.git/git-receive-pack": False,
    "POST https://github.com/octo/repo/issues": False,
    "PUT https://github.com/octo/repo/git-upload-pack": False,
    "POST https://github.com/git-upload-pack": False,
    "GET https://github.com/settings/tokens": False,
    "GET https://github.com/Login": False,
    "GET https://github.com/loginname/repo": True,
    "GET https://api.github.com/repos/octo/repo/issues": True,
    "HEAD https://api.github.com/repos/octo/repo": True,
    "POST https://api.github.com/repos/octo/repo/issues": False,
    "PATCH https://api.github.com/repos/octo/repo": False,
    "DELETE https://api.github.com/repos/octo/repo": False,
    "POST https://api.github.com/graphql": False,
    "GET https://raw.githubusercontent.com/octo/repo/main/README.md": True,
    "GET https://codeload.github.com/octo/repo/tar.gz/main": True,
    "GET https://uploads.github.com/x": False,
    "GET https://gist.github.com/x": False,
}


def test_the_rules_for_github_read_and_do_not_write() -> None:
    policy = parse_policy_file(read("github-read-only.yaml").encode(), "github-read-only.yaml")
    engine = Engine(*gather([], policy.hosts).policy)

    def is_allowed(request: str) -> bool:
        method, url = request.split(" ")
        scheme, _, rest = url.partition("://")
        host, _, path = rest.partition("/")
        port = 443 if scheme == "https" else 80
        return engine.judge_request(honest_request(method, scheme, host, port, f"/{path}")).allowed

    assert {request: is_allowed(request) for request in GITHUB} == GITHUB
    assert policy.allow == ()


def test_a_flag_is_stronger_than_a_setting() -> None:
    """As the README says."""
    (line,) = re.findall(r"`AISB_NET=none (aisb [^`]*)`", read("README.md"))

    assert read_request(split_by_shell(line), {"AISB_NET": "none"}).wanted.net == "allow"


def test_every_example_is_in_the_table() -> None:
    """And nothing else is."""
    named = re.findall(r"^\| `([^`]*)` \|", read("README.md"), re.MULTILINE)

    assert sorted([*named, "README.md"]) == sorted(os.listdir(EXAMPLES))
