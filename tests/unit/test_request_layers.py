"""A request from all its layers: what is strongest counts, lists add up, and a project only narrows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from aisb.cli.request import read_login, read_request
from aisb.cli.splitter import split
from aisb.domain.config_file import parse_config
from aisb.domain.layers import PROJECT, USER, Layer, Setting
from aisb.domain.policy import parse_allow
from aisb.effects.situation import found_around
from aisb.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from aisb.cli.request import Request

VERBS = frozenset({"run"})
OURS = "~/.config/ai-sandbox/config.yaml"
THEIRS = ".ai-sandbox/config.yaml"


def user(**lists_and_scalars: str | list[str]) -> Layer:
    return _layer(USER, f"{OURS}:1", lists_and_scalars)


def project(**lists_and_scalars: str | list[str]) -> Layer:
    return _layer(PROJECT, f"{THEIRS}:1", lists_and_scalars)


def _layer(kind: str, origin: str, said: dict[str, str | list[str]]) -> Layer:
    named = {key.replace("_", "-"): value for key, value in said.items()}
    scalars = {key: Setting(value, origin) for key, value in named.items() if isinstance(value, str)}
    lists = {
        key: tuple(Setting(text, origin) for text in value)
        for key, value in named.items()
        if not isinstance(value, str)
    }
    return Layer(kind, scalars, lists)


def request(*words: str, layers: tuple[Layer, ...] = (), environ: dict[str, str] | None = None) -> Request:
    return read_request(split(list(words), VERBS), environ or {}, layers)


def test_lists_add_up_and_each_item_knows_where_it_was_written() -> None:
    layers = (user(allow=["a.test"], env=["A", "B"], install=["jq"]), project(allow=["b.test"], install=["zsh"]))

    asked = request("--allow", "c.test", "--env", "B", "--env", "C", "--install", "jq,tmux", layers=layers)

    assert asked.wanted.allow == (
        Setting("a.test", f"{OURS}:1"),
        Setting("b.test", f"{THEIRS}:1"),
        Setting("c.test", "--allow"),
    )
    assert asked.wanted.environment == (Setting("A", f"{OURS}:1"), Setting("B", "--env"), Setting("C", "--env"))
    assert asked.wanted.packages() == ("jq", "zsh", "jq", "tmux")


@pytest.mark.parametrize(
    ("words", "environ", "layers", "net", "origin"),
    [
        pytest.param([], {}, (), "allow", "built in", id="nobody says anything"),
        pytest.param([], {}, (user(net="none"),), "none", f"{OURS}:1", id="the user"),
        pytest.param([], {}, (project(net="none"),), "none", f"{THEIRS}:1", id="a project narrows"),
        pytest.param([], {}, (user(net="allow"), project(net="none")), "none", f"{THEIRS}:1", id="narrows the user's"),
        pytest.param(
            [], {}, (user(net="none"), project(net="allow")), "none", f"{OURS}:1", id="a project cannot widen"
        ),
        pytest.param([], {"AISB_NET": "allow"}, (project(net="none"),), "allow", "AISB_NET", id="a variable"),
        pytest.param(["--net", "allow"], {"AISB_NET": "none"}, (user(net="none"),), "allow", "--net", id="a flag"),
        pytest.param(["--net", "full"], {}, (project(net="none"),), "full", "--net", id="the flag opens"),
    ],
)
def test_the_strongest_mode_counts_and_a_project_only_narrows(
    words: list[str], environ: dict[str, str], layers: tuple[Layer, ...], net: str, origin: str
) -> None:
    asked = request(*words, environ=environ, layers=layers)

    assert (asked.wanted.net, dict(asked.wanted.origins)["net"]) == (net, origin)


def test_a_cut_is_said() -> None:
    asked = request(layers=(user(net="none"), project(net="allow")))

    assert asked.notes == (f"{THEIRS}:1: net: allow is cut down to none ({OURS}:1)",)
    assert request(layers=(user(net="allow"), project(net="none"))).notes == ()


def test_a_flag_without_meaning_under_the_mode_is_an_error_and_a_file_is_not() -> None:
    """What a file says for every run is not meant for one without a network."""
    layers = (user(allow=["a.test"]), project(net="none"))

    assert parse_allow("none", request(layers=layers).wanted.allow) == ()
    for flag in ("--allow", "--policy"):
        with pytest.raises(UsageError) as caught:
            request(flag, "x", layers=layers)
        assert caught.value.message == f"{flag} has no meaning under net: none ({THEIRS}:1)"


def test_a_wrong_entry_of_a_file_is_an_error_under_every_mode() -> None:
    with pytest.raises(UsageError, match=rf"^{OURS}:1: '\*': this is every host$".replace("~", "~")):
        parse_allow("none", request("--net", "none", layers=(user(allow=["*"]),)).wanted.allow)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"env": ["HOME"]}, "env HOME: the sandbox has a HOME of its own"),
        ({"env": ["A=1"]}, "env A=...: a file of settings holds no values"),
        ({"net": "nome"}, "net 'nome' is not a mode"),
        ({"gate-idle": "soon"}, "gate-idle 'soon' is not a number of seconds"),
        ({"gate-network": "host"}, "gate-network 'host' is not the name of a network"),
        ({"quiet": "maybe"}, "quiet 'maybe' is neither on nor off"),
        ({"base-image": "x"}, "base-image 'x' is not a base image"),
        ({"node-source": "nvm"}, "node-source 'nvm' is no source of Node"),
        ({"ca-bundle": "ca.pem"}, "ca-bundle 'ca.pem' is a path from nowhere"),
    ],
)
def test_what_a_file_says_wrongly_is_named_by_line_and_key(said: dict[str, str | list[str]], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        request(layers=(user(**said),))
    assert caught.value.message == f"{OURS}:1: {message}"


def test_a_variable_turns_off_what_a_file_turned_on() -> None:
    layers = (user(quiet="yes", timings="1"),)

    assert request(layers=layers).settings == {"quiet", "timings"}
    assert request("--trace", layers=layers, environ={"AISB_QUIET": "0"}).settings == {"timings", "trace"}


def test_a_path_in_a_file_begins_at_the_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/u")

    assert request(layers=(user(**{"ca-bundle": "~/ca.pem"}),)).wanted.ca_bundle == "/home/u/ca.pem"
    assert request("--ca-bundle", "~/ca.pem").wanted.ca_bundle == "~/ca.pem"


def test_what_lies_above_a_project_is_mentioned(tmp_path: Path) -> None:
    """(C11) It neither counts nor is mounted."""
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / ".ai-sandbox").mkdir()
    (tmp_path / "repo" / "a" / "b").mkdir(parents=True)

    assert found_around(str(tmp_path / "repo" / "a" / "b")) == [
        f"{tmp_path}/repo/.ai-sandbox is not read: it counts only in the project itself",
        f"the repository {tmp_path}/repo around the project is not mounted",
    ]
    (tmp_path / "repo" / "a" / "b" / ".git").touch()
    assert len(found_around(str(tmp_path / "repo" / "a" / "b"))) == 1
    assert found_around("") == []


def test_a_proxy_is_the_users_to_name() -> None:
    """A flag, a variable, the user's file; under another mode what a file says for every run is not meant."""
    ours = user(proxy="https://Proxy.test:3128/", proxy_auth="LOGIN")

    asked = request("--allow", "a.test", layers=(ours,))
    stronger = request(environ={"AISB_PROXY": "http://10.0.0.5:80"}, layers=(ours,))
    closed = request("--net", "none", layers=(ours,))

    assert (asked.wanted.proxy, asked.wanted.proxy_auth) == ("https://proxy.test:3128", "LOGIN")
    assert ("proxy", f"{OURS}:1") in asked.wanted.origins
    assert (stronger.wanted.proxy, stronger.origin("proxy")) == ("http://10.0.0.5:80", "AISB_PROXY")
    assert (closed.wanted.proxy, closed.wanted.proxy_auth) == ("", "")


@pytest.mark.parametrize("key", ["proxy", "proxy-auth"])
def test_a_project_names_no_proxy(key: str) -> None:
    """It would see every name, and what is said in plain text."""
    with pytest.raises(UsageError, match=f"'{key}' is not for a project to set"):
        parse_config(f"{key}: http://p.test:1\n".encode(), THEIRS, PROJECT)


def test_what_a_gate_tells_its_proxy_is_in_a_variable() -> None:
    asked = request("--proxy", "http://p.test:1", "--proxy-auth", "LOGIN")

    assert read_login(asked, {b"LOGIN": b"u:p w"}) == "u%3Ap%20w"
    assert read_login(request("--proxy", "http://p.test:1"), {}) == ""
    with pytest.raises(UsageError, match="--proxy-auth LOGIN: this variable is not set"):
        read_login(asked, {})


def test_what_a_gate_tells_its_proxy_is_not_passed_in() -> None:
    """By a flag, or by what a file says for every run: the password is the gate's alone."""
    flags = ("--proxy", "http://p.test:1", "--proxy-auth", "LOGIN")
    ours = parse_config(b"env: [LOGIN]\n", OURS, USER)

    for asked in (request(*flags, "--env", "LOGIN"), request(*flags, layers=(ours,))):
        with pytest.raises(
            UsageError, match=r" LOGIN holds what the gate alone tells its proxy \(--proxy-auth LOGIN\)"
        ):
            read_login(asked, {b"LOGIN": b"u:p"})
    assert read_login(request(*flags, "--env", "OTHER"), {b"LOGIN": b"u:p"}) == "u%3Ap"
