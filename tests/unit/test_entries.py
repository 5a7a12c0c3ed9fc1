"""Allow entries: the grammar, what is refused, and the nearest right form."""

from __future__ import annotations

import re

import pytest

from aisb.domain.entries import parse_entries, parse_entry, split_entries
from aisb.domain.entry_kinds import ADDRESS_FORMS, HOST_PORT_FORM, PRESET_FORM, RULE_FORM
from aisb.domain.rules import NameEntry
from aisb.errors import UsageError


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("allowed.test", "allowed.test"),
        ("ALLOWED.Test.", "allowed.test"),
        ("exact:allowed.test", "exact:allowed.test"),
        ("=allowed.test", "exact:allowed.test"),
        ("below:allowed.test", "below:allowed.test"),
        ("*.allowed.test", "below:allowed.test"),
        ("allowed.test:5432", "allowed.test:5432"),
        ("_acme.x.test", "_acme.x.test"),
        ("exact:github.io", "exact:github.io"),
        ("exact:intranet:80", "exact:intranet:80"),
        ("münchen.test", "xn--mnchen-3ya.test"),
        ("faß.test", "xn--fa-hia.test"),
        ("xn--mnchen-3ya.test", "xn--mnchen-3ya.test"),
        ("10.20.0.5", "10.20.0.5"),
        ("10.20.0.5:5432", "10.20.0.5:5432"),
        ("10.20.0.0/16:5432", "10.20.0.0/16:5432"),
        ("10.0.0.5/24", "10.0.0.0/24"),
        ("[2001:db8::5]:443", "[2001:db8::5]:443"),
        ("2001:db8::5", "2001:db8::5"),
        ("2001:DB8::/32", "2001:db8::/32"),
        ("169.254.169.254:80", "169.254.169.254:80"),
        ("@npm", "@npm"),
        ("host:11434", "host:11434"),
        ("GET,HEAD api.example.com/repos/**", "GET,HEAD api.example.com/repos/**"),
        ("HEAD,GET,HEAD API.example.com./*/x", "GET,HEAD api.example.com/*/x"),
        ("GET münchen.test/", "GET xn--mnchen-3ya.test/"),
        ("2002:a00::1", "2002:a00::1"),
    ],
)
def test_an_entry_has_one_canonical_form(text: str, canonical: str) -> None:
    entry = parse_entry(text)

    assert entry.text() == canonical
    assert parse_entry(canonical) == entry


RULE = "a rule is METHOD,METHOD HOST/PATH"
NOT_A_NAME = "this is not a host name"
LOCALHOST = "the sandbox has a localhost of its own"
LOOPBACK = "the sandbox has a loopback of its own"


@pytest.mark.parametrize(
    ("text", "why", "hint"),
    [
        ("", "the entry is empty", "a comma too many, or an empty variable? write: example.com"),
        ("*", "this is every host", "name the hosts, or have no filter at all: --net full"),
        ("*.*", "this is every host", "name the hosts, or have no filter at all: --net full"),
        ("a.test b.test", "this is more than one entry", "write: a.test,b.test"),
        ("npm", "this is no host but the name of a preset", "write: @npm, or exact:npm for a host"),
        ("host", "this is the machine itself, of which one port is opened", HOST_PORT_FORM),
        ("exact:a.test, b.test:22", "this is more than one entry", "write: exact:a.test,b.test:22"),
        (
            "a.test,10.0.0.0/8",
            "this is more than one entry",
            "write each for itself: a.test and 10.0.0.0/8",
        ),
        ("fd00::/16:80", "IPv6 with a port stands in brackets", "write: [fd00::/16]:80"),
        (
            ".x.test",
            "a host name begins with no dot",
            "write: below:x.test (only what is below it), or x.test (the name too)",
        ),
        ("below:*.x.test", NOT_A_NAME, "write: below:x.test"),
        ("=*.x.test", NOT_A_NAME, "write: below:x.test"),
        ("==x.test", NOT_A_NAME, "write: exact:x.test"),
        ("https://x.test/", NOT_A_NAME, "write: x.test"),
        ("https://user:secret@x.test:8443/path?query", NOT_A_NAME, "write: x.test:8443"),
        ("exact:https://x.test/", NOT_A_NAME, "write: exact:x.test"),
        ("https://localhost:3000/", NOT_A_NAME, HOST_PORT_FORM),
        ("https://10.0.0.5/", NOT_A_NAME, "write: 10.0.0.5"),
        ("ssh://git@x.test/me/repo.git", NOT_A_NAME, "write: x.test:22"),
        ("git@x.test:me/repo.git", NOT_A_NAME, "write: x.test:22"),
        ("git@x.test", NOT_A_NAME, "write: x.test"),
        ("x.test/path", NOT_A_NAME, "write: x.test, or for that path alone 'GET,HEAD x.test/path'"),
        ("x.test/**", NOT_A_NAME, "write: x.test, or for that path alone 'GET,HEAD x.test/**'"),
        ("https://x.test/x?y", NOT_A_NAME, "write: x.test, or for that path alone 'GET,HEAD x.test/x'"),
        ("https://x.test:8443/x", NOT_A_NAME, "write: x.test:8443"),
        ("x.test#c", NOT_A_NAME, "write: x.test"),
        ('"@npm"', "quotes are no part of an entry", "leave them out: @npm"),
        ("'GET x.test/x'", "quotes are no part of an entry", "leave them out: GET x.test/x"),
        ("GET x.test", RULE, "write: 'GET x.test/**'"),
        ("get,head x.test", RULE, "write: 'GET,HEAD x.test/**'"),
        ("GET x.test:8080", RULE, RULE_FORM),
        ("GET http://", RULE, RULE_FORM),
        ("GET", "this is a method without its host (in a list of YAML a rule stands in quotes)", RULE_FORM),
        ("10.0.0.1:x", "'x' is not a port (1 to 65535)", ADDRESS_FORMS),
        ("[2001:db8::5]:x", "'x' is not a port (1 to 65535)", ADDRESS_FORMS),
        ("get x.test/path", RULE, "write: 'GET x.test/path'"),
        ("GET, head x.test/path/**", RULE, "write: 'GET,HEAD x.test/path/**'"),
        ("* x.test/", RULE, "write: 'DELETE,GET,HEAD,OPTIONS,PATCH,POST,PUT x.test/'"),
        ("GET https://x.test/a", RULE, "write: 'GET x.test/a'"),
        ("x.test;", NOT_A_NAME, "write: x.test"),
        ("$(id)", NOT_A_NAME, "write: example.com"),
        ("alowed:x.test", "'alowed:' begins no entry", "write: x.test, exact:x.test or below:x.test"),
        ("exat:x.test", "'exat:' begins no entry", "write: exact:x.test"),
        ("EXACT:x.test:22", "'EXACT:' begins no entry", "write: exact:x.test:22"),
        ("preset:npm", "'preset:' begins no entry", PRESET_FORM),
        ("@NPM", "a preset is @ and a lower-case name", PRESET_FORM),
        ("foo:bar", "'foo:' begins no entry", "write: example.com, exact:example.com or below:example.com"),
        ("localhost", LOCALHOST, HOST_PORT_FORM),
        ("localhost:3000", LOCALHOST, HOST_PORT_FORM),
        ("127.0.0.1:3000", LOOPBACK, HOST_PORT_FORM),
        ("::1", LOOPBACK, HOST_PORT_FORM),
        ("host:x", "'x' is not a port (1 to 65535)", HOST_PORT_FORM),
        ("::ffff:10.0.0.1", "this is an IPv4 address in IPv6 clothes", ADDRESS_FORMS),
        ("10.0.0.256", "10.0.0.256 is not an address or a network", ADDRESS_FORMS),
        ("10.0.0.1:0", "'0' is not a port (1 to 65535)", ADDRESS_FORMS),
        ("0.0.0.0/0", "a network this large (/0) is no allowlist", ADDRESS_FORMS),
        ("169.254.0.0/16", "link-local networks hold the cloud's metadata service", ADDRESS_FORMS),
        ("192.0.2.1:443", "by refusing this address each start proves that it is closed", ADDRESS_FORMS),
        ("2001:db8:ffff::1", "by refusing this address each start proves that it is closed", ADDRESS_FORMS),
        ("224.0.0.1", "224.0.0.1 is no address to connect to", ADDRESS_FORMS),
        ("GET a_/x", "'a_' is not a host name", RULE_FORM),
        ("GET a.test:8080/x", "a rule names no port: it holds on 80 and 443", RULE_FORM),
        ("GET localhost/x", LOCALHOST, HOST_PORT_FORM),
        ("GET x.aisb.internal/x", "names below aisb.internal are aisb's own", "leave it out"),
        ("FOO a.test/x", "FOO is none of DELETE GET HEAD OPTIONS PATCH POST PUT", RULE_FORM),
        ("GET a.test/x?y", "the query is no part of a path", RULE_FORM),
        ("GET a.test/../x", "a segment is made of nothing but dots and blanks", RULE_FORM),
        ("GET a.test/**/x", "** stands for any rest, as the last segment of a path", RULE_FORM),
        ("64:ff9b::/96", "these are IPv4 addresses in IPv6 clothes", ADDRESS_FORMS),
        ("2002:a00::/24", "these are IPv4 addresses in IPv6 clothes", ADDRESS_FORMS),
        ("x.test:99999", "'99999' is not a port (1 to 65535)", "write: x.test (ports 80 and 443), or x.test:8443"),
        ("below:x.test:0443", "'0443' is not a port (1 to 65535)", "write: below:x.test:443"),
        ("x.test:", "'' is not a port (1 to 65535)", "write: x.test (ports 80 and 443), or x.test:8443"),
        (
            "*.com",
            "everything below 'com' belongs to many owners",
            "write: example.com, or exact:com if you mean that one name",
        ),
        ("x.aisb.internal", "names below aisb.internal are aisb's own", "leave it out"),
        ("a.test\nx", "an entry is one line of printable text", "write: example.com"),
    ],
)
def test_a_refusal_says_why_and_names_the_nearest_form(text: str, why: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_entry(text)
    assert (caught.value.message, caught.value.hint) == (f"--allow {text!r}: {why}", hint)
    for advised in re.findall(r"[a-z0-9.:]+\.(?:test|com)[a-z0-9.:]*", hint.partition("write: ")[2]):
        assert isinstance(parse_entry(advised), NameEntry), advised


@pytest.mark.parametrize(
    ("argument", "refused", "hint"),
    [
        ("x.test:22,80", "80", "write: x.test:22,x.test:80"),
        ("a.test,exact:x.test,8443", "8443", "write: exact:x.test,exact:x.test:8443"),
        ("x.test,443", "443", "write: x.test"),
        ("10.0.0.1,80", "80", "write: 10.0.0.1:80"),
        ("10.0.0.1:22,80", "80", "write: 10.0.0.1:22,10.0.0.1:80"),
        ("80", "80", "write: example.com:8443"),
    ],
)
def test_a_port_alone_is_refused_with_the_host_before_it(argument: str, refused: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_entries(argument)
    assert (caught.value.message, caught.value.hint) == (f"--allow {refused!r}: a port stands behind its host", hint)


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "*", ".", "com", "co.uk", "*.com", "github.io", "0.0.0.0/0", "::/0", "0.0.0.0/1", "128.0.0.0/1",
        "127.0.0.1", "169.254.0.0/16", "10.0.0.0/33", "10.0.0.256", "010.0.0.1", "2001:db8::1:443:", "fe80::1%eth0",
        "::ffff:10.0.0.1/120", "0x7f.1", "2130706433", "127.1", "224.0.0.1", "0.0.0.0",
        "a.test\nhttp_access allow all", "a.test #", "a.test b.test", "a.test;", '"a.test', "`id`", "{{7*7}}",
        "{% raw %}", "10.0.0.1 accept", "/etc/passwd", "-n", "--", "-x.test", "x-.test", "a..test", "a.test..",
        "a" * 64 + ".test", ("a" * 62 + ".") * 4 + "test.ab", "x.aisb.internal", "aisb.internal",
        "pаypal.test", "а\u0301llowed\u200d.test", "@", "@NPM", "host:", "host:0", "get a.test/x", "GET a b/x",
    ],
)  # fmt: skip
def test_what_is_outside_the_grammar_or_means_too_much_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_entry(text)
    assert caught.value.exit_code == 2
    assert caught.value.hint


@pytest.mark.parametrize(
    ("argument", "entries"),
    [
        ("a.test,b.test", ["a.test", "b.test"]),
        ("GET,HEAD a.test/x", ["GET,HEAD a.test/x"]),
        ("10.0.0.0/8,a.test", ["10.0.0.0/8,a.test"]),
    ],
)
def test_commas_separate_only_where_there_is_neither_blank_nor_slash(argument: str, entries: list[str]) -> None:
    assert split_entries(argument) == entries


@pytest.mark.parametrize("argument", ["a,,b", "a.test,", ",a.test", ","])
def test_an_empty_entry_is_named_before_all_else(argument: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_entries(argument)
    assert (caught.value.message, caught.value.hint) == (
        f"--allow '{argument}': one of the entries is empty",
        "a comma too many, or an empty variable? write: example.com",
    )
