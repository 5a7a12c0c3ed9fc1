"""Who the command is inside, and the variables that it gets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from aisb.render.identity import command_environment, environment_block, group, hosts, parse_block, passwd, resolv_conf

if TYPE_CHECKING:
    from collections.abc import Callable

HOSTILE = {
    "LD_PRELOAD": "/project/x.so",
    "HTTP_PROXY": "http://127.0.0.1:9",
    "ALL_PROXY": "socks5://127.0.0.1:1080",
    "SSL_CERT_FILE": "/home/u/corp.pem",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "TERM": "xterm-256color",
    "TZ": "",
}


def test_identity_files(golden: Callable[[str, str], None]) -> None:
    for name, text in {
        "passwd": passwd("ada"),
        "group": group("ada"),
        "hosts": hosts(),
        "resolv": resolv_conf(),
    }.items():
        golden(f"identity/{name}", text)


def test_nothing_of_the_host_is_inherited_but_terminal_and_language() -> None:
    environment = command_environment(
        user="ada", net="none", inherited=HOSTILE, given={}, extra_certificates=False, agents={"PI_OFFLINE": "1"}
    )

    assert environment == {
        b"HOME": b"/home/sandbox",
        b"LANG": b"C.UTF-8",
        b"LOGNAME": b"ada",
        b"PATH": b"/home/sandbox/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        b"PI_OFFLINE": b"1",
        b"SHELL": b"/bin/bash",
        b"TERM": b"xterm-256color",
        b"USER": b"ada",
        b"XDG_RUNTIME_DIR": b"/run/user/1000",
        b"npm_config_fetch_retry_maxtimeout": b"3000",
        b"npm_config_fetch_retry_mintimeout": b"1000",
        b"npm_config_prefix": b"/home/sandbox/.local",
        b"npm_package_config_node_gyp_nodedir": b"/usr/local",
        b"pnpm_config_fetch_retry_maxtimeout": b"3000",
        b"pnpm_config_fetch_retry_mintimeout": b"1000",
    }


def test_npm_is_as_patient_as_ever_where_nothing_is_refused() -> None:
    """With a network of its own a failure may be passing; where a name is refused it is not, and npm gives up in seconds."""
    told = {
        net: b"npm_config_fetch_retry_maxtimeout"
        in command_environment(user="ada", net=net, inherited={}, given={}, extra_certificates=False, agents={})
        for net in ("none", "allow", "full")
    }

    assert told == {"none": True, "allow": True, "full": False}


def test_both_cases_of_the_proxy_variables_say_the_same() -> None:
    environment = command_environment(
        user="ada", net="allow", inherited=HOSTILE, given={}, extra_certificates=False, agents={}
    )

    assert {name: value for name, value in environment.items() if b"proxy" in name.lower()} == {
        b"HTTPS_PROXY": b"http://127.0.0.1:3128",
        b"HTTP_PROXY": b"http://127.0.0.1:3128",
        b"NO_PROXY": b"localhost,127.0.0.1,::1,0.0.0.0,host.aisb.internal,198.18.0.0/15",
        b"http_proxy": b"http://127.0.0.1:3128",
        b"https_proxy": b"http://127.0.0.1:3128",
        b"no_proxy": b"localhost,127.0.0.1,::1,0.0.0.0,host.aisb.internal,198.18.0.0/15",
    }


def test_every_program_is_told_of_extra_certificates() -> None:
    """One file for all of them; wget, which knows no variable for it, gets settings that name the file."""
    without = command_environment(
        user="ada", net="none", inherited=HOSTILE, given={}, extra_certificates=False, agents={}
    )
    environment = command_environment(
        user="ada", net="none", inherited=HOSTILE, given={}, extra_certificates=True, agents={}
    )

    assert {name: environment[name] for name in environment.keys() - without.keys()} == {
        **dict.fromkeys(
            (
                b"CARGO_HTTP_CAINFO",
                b"CURL_CA_BUNDLE",
                b"DENO_CERT",
                b"GIT_SSL_CAINFO",
                b"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
                b"NODE_EXTRA_CA_CERTS",
                b"PIP_CERT",
                b"REQUESTS_CA_BUNDLE",
                b"SSL_CERT_FILE",
            ),
            b"/run/user/1000/aisb/ca-bundle.pem",
        ),
        b"NODE_USE_SYSTEM_CA": b"1",
        b"SYSTEM_WGETRC": b"/run/user/1000/aisb/wgetrc",
    }


names = st.from_regex(rb"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
values = st.binary(max_size=30).map(lambda value: value.replace(b"\0", b""))


@given(st.dictionaries(names, values))
def test_every_value_survives_the_journey_and_none_adds_a_variable(variables: dict[bytes, bytes]) -> None:
    block = environment_block(variables)

    assert dict(entry.split(b"=", 1) for entry in block.split(b"\0")[:-1]) == variables
    assert parse_block(block) == variables
