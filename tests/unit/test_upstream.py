"""The proxy that everything goes through: its URL, where it is, and what it is told to let a gate in."""

from __future__ import annotations

import re
import socket
from typing import Any

import pytest

from aisb.domain.upstream import LONGEST_LOGIN, Upstream, encoded_login, need_way_to, parse_upstream
from aisb.effects.upstream import find_upstream
from aisb.errors import Unavailable, UsageError

PROXY = Upstream("http", "proxy.test", 3128)


@pytest.mark.parametrize(
    ("text", "upstream", "url"),
    [
        ("http://proxy.test:3128", PROXY, "http://proxy.test:3128"),
        ("https://PROXY.Test.:443/", Upstream("https", "proxy.test", 443), "https://proxy.test:443"),
        ("http://proxy:80", Upstream("http", "proxy", 80), "http://proxy:80"),
        ("http://10.0.0.5:3128", Upstream("http", "10.0.0.5", 3128), "http://10.0.0.5:3128"),
        ("https://[2001:DB8:0::5]:8443", Upstream("https", "2001:db8::5", 8443), "https://[2001:db8::5]:8443"),
    ],
)
def test_a_url_in_its_one_form(text: str, upstream: Upstream, url: str) -> None:
    assert (parse_upstream(text, "--proxy"), upstream.url) == (upstream, url)
    assert parse_upstream(url, "--proxy") == upstream


@pytest.mark.parametrize(
    "text",
    [
        "", "proxy.test:3128", "proxy.test", "http://proxy.test", "http://proxy.test:", "http://proxy.test:0",
        "http://proxy.test:65536", "http://proxy.test:03128", "socks5://proxy.test:1080", "ftp://proxy.test:21",
        "HTTP://proxy.test:3128", "http://:3128", "http://proxy.test:3128/path", "http://proxy.test:3128?x",
        "http://proxy.test:3128#x", "http://proxy..test:3128", "http://pröxy.test:3128", "http://127.1:3128",
        "http://0x7f000001:3128", "http://[10.0.0.5]:3128", "http://2001:db8::5:3128", "http://[::1%eth0]:3128",
        "http://proxy.test:3128\n", "http://proxy test:3128", "http://proxy.test:3128 name=x",
    ],
)  # fmt: skip
def test_what_is_no_url_of_a_proxy(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_upstream(text, "config.yaml:3: proxy")
    assert caught.value.message.startswith("config.yaml:3: proxy ")
    assert caught.value.hint == "write: https://HOST:PORT or http://HOST:PORT"


@pytest.mark.parametrize(
    ("text", "better"),
    [
        ("https://user:s3cret@proxy.test:3128", "https://proxy.test:3128"),
        ("http://user:s3cret@proxy.test:3128/", "http://proxy.test:3128"),
        ("http://s3cret@[2001:db8::5]:3128", "http://[2001:db8::5]:3128"),
        ("user:s3cret@proxy.test:3128", "https://proxy.test:3128"),
        ("http://user:s3@cret@proxy.test:3128", "http://proxy.test:3128"),
        ("http://user:s3cret@", "https://HOST:PORT"),
        ("http://user:s3cret@proxy.test/x", "https://HOST:PORT"),
    ],
)
def test_a_password_in_a_url_is_refused_and_not_repeated(text: str, better: str) -> None:
    """The hint is the URL without it, and the variable to put it in."""
    with pytest.raises(UsageError) as caught:
        parse_upstream(text, "--proxy")
    said = f"{caught.value.message}\n{caught.value.hint}"
    assert caught.value.hint == f"write: --proxy {better} --proxy-auth VAR, where VAR holds user:password"
    assert re.findall("s3|cret|user:s", said) == []


def test_addresses_in_one_order() -> None:
    found = ("2001:db8::9", "203.0.113.12", "10.0.0.5", "203.0.113.12", "2001:db8::5")

    assert need_way_to(PROXY, found, "--proxy") == ("10.0.0.5", "203.0.113.12", "2001:db8::5", "2001:db8::9")
    assert need_way_to(PROXY, ("::ffff:203.0.113.12",), "--proxy") == ("203.0.113.12",)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.0.1.1",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.1.1",
        "0.0.0.0",
        "::",
        "169.254.1.1",
        "fe80::1",
        "ff02::1",
    ],
)
def test_an_address_that_is_another_place_to_the_gate(address: str) -> None:
    """This host's loopback is not the gate's, and some addresses are nobody's."""
    shown = address.removeprefix("::ffff:")
    with pytest.raises(UsageError, match=re.escape(f"--proxy http://proxy.test:3128 is {shown}")):
        need_way_to(PROXY, ("203.0.113.12", address), "--proxy")


def test_a_proxy_whose_name_leads_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said before anything starts: without its proxy no request would leave."""

    def fail(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(Unavailable, match=r"proxy\.test does not resolve: Name or service not known"):
        find_upstream("http://proxy.test:3128", "--proxy")


def test_an_address_needs_no_name_server() -> None:
    assert find_upstream("http://203.0.113.12:3128", "--proxy") == ("203.0.113.12",)


def test_a_proxy_on_this_host_is_out_of_reach_of_a_gate_that_has_its_addresses() -> None:
    own = ("192.0.2.7", "203.0.113.2")
    with pytest.raises(Unavailable, match="is this host itself, whose addresses a gate on pasta has too"):
        find_upstream("http://203.0.113.2:3128", "--proxy", "pasta", own)

    for network in ("slirp4netns", "proxied"):
        assert find_upstream("http://203.0.113.2:3128", "--proxy", network, own) == ("203.0.113.2",)
    assert find_upstream("http://203.0.113.12:3128", "--proxy", "pasta", own) == ("203.0.113.12",)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (b"user:pw", "user%3Apw"),
        (b"user:", "user%3A"),
        (b"a:b:c", "a%3Ab%3Ac"),
        (b"a:\" '#%\\$()`{}=", "a%3A%22%20%27%23%25%5C%24%28%29%60%7B%7D%3D"),
        (b"a:\xc3\xa9\xff", "a%3A%C3%A9%FF"),
        (b"u:" + b"x" * (LONGEST_LOGIN - 2), "u%3A" + "x" * (LONGEST_LOGIN - 2)),
    ],
)
def test_what_a_proxy_is_told(value: bytes, encoded: str) -> None:
    assert encoded_login(value, "") == encoded


@pytest.mark.parametrize(
    "value",
    [
        b"", b"s3cret", b":s3cret", b"s3cret\n:x", b"user:s3cret\n", b"user:s3\x00cret", b"user:s3cret\x7f", b"*:s3cret",
        b"NEGOTIATE:s3cret", b"NEGOTIATEs3cret:x", b"u:" + b"s3cret" * 30,
    ],
)  # fmt: skip
def test_what_no_proxy_is_told(value: bytes) -> None:
    """squid would take some of it for words of its own, and write what is too long beyond its buffer."""
    with pytest.raises(UsageError, match=r"^--proxy-auth VAR: ") as caught:
        encoded_login(value, "--proxy-auth VAR")
    assert "s3cret" not in f"{caught.value.message}{caught.value.hint}"
