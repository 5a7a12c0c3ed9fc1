"""Allow entries: the grammar, what is refused, and the nearest right form."""

from __future__ import annotations

import pytest

from aisb.domain.entries import parse_entry, split_entries
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
    ],
)
def test_an_entry_has_one_canonical_form(text: str, canonical: str) -> None:
    entry = parse_entry(text)

    assert entry.text() == canonical
    assert parse_entry(canonical) == entry


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("https://x.test/", "x.test"),
        ("https://user:secret@x.test:8443/path?query", "x.test:8443"),
        ("x.test/path", "x.test"),
        ("user@x.test", "x.test"),
        (".x.test", "x.test"),
        ("*.*", "api.example.com"),
        ("localhost", "host:PORT"),
        ("localhost:3000", "host:3000"),
        ("127.0.0.1:3000", "host:3000"),
        ("::1", "host:PORT"),
        ("::ffff:10.0.0.1", "10.0.0.1/32"),
        ("x.test:99999", "example.com:5432"),
        ("x.test:0443", "example.com:5432"),
        ("x.test:", "example.com:5432"),
    ],
)
def test_a_refusal_names_the_nearest_right_form(text: str, nearest: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_entry(text)
    assert caught.value.hint == f"write: {nearest}"


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
    assert "write: " in caught.value.hint


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
