"""What a refused client is told."""

from __future__ import annotations

import json
from shlex import quote

import pytest

from aisb.domain.rules import TREE, Engine, NameEntry, Reason
from gate.refusal import Refusal, refusal_of, response_of

ENGINE = Engine([NameEntry("allowed.test", TREE, (443,))])
EVIL = refusal_of("1a2b3c4d", "evil.test", 8443, "GET", "/x?token=1", ENGINE.judge("evil.test", 8443))


def test_text_says_who_what_why_and_what_to_do() -> None:
    head, _, body = response_of(EVIL, wants_json=False).decode().partition("\r\n\r\n")

    assert head.split("\r\n") == [
        "HTTP/1.1 403 Access denied by egress policy: not-listed evil.test:8443",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "Connection: close",
    ]
    assert body == (
        "403 Access denied by egress policy\n"
        "who: sandbox 1a2b3c4d\n"
        "host: evil.test\n"
        "port: 8443\n"
        "method: GET\n"
        "path: /x\n"
        "reason: not-listed (no entry of the policy covers this host)\n"
        "next: to allow it, the user starts the sandbox with: --allow evil.test:8443; or, for this one: aisb allow evil.test:8443\n"
        "Do not work around it: ask the user.\n"
    )


def test_json_says_the_same_under_fixed_names() -> None:
    head, _, body = response_of(EVIL, wants_json=True).decode().partition("\r\n\r\n")

    assert "Content-Type: application/json\r\n" in head
    assert json.loads(body) == {
        "error": "egress_denied",
        "detail": "no entry of the policy covers this host",
        "reason": "not-listed",
        "layer": "egress",
        "host": "evil.test",
        "port": 8443,
        "method": "GET",
        "path": "/x",
        "rule_missing": "evil.test:8443",
        "next_steps": [
            "to allow it, the user starts the sandbox with: --allow evil.test:8443; or, for this one: aisb allow evil.test:8443"
        ],
        "agent_guidance": "Do not work around it: ask the user.",
    }


def test_an_entry_with_a_blank_can_be_pasted_into_a_shell() -> None:
    refusal = Refusal("1a2b3c4d", "a.test", 80, "GET", "/it's", Reason.PATH, add="GET a.test/it's")

    assert b"""--allow 'GET a.test/it'"'"'s'\n""" in response_of(refusal, wants_json=False)
    assert (
        json.loads(response_of(refusal, wants_json=True).partition(b"\r\n\r\n")[2])["rule_missing"] == "GET a.test/it's"
    )


@pytest.mark.parametrize(
    ("host", "add"),
    [
        ("a.test", "GET a.test/x"),
        ("192.0.2.1", "192.0.2.1:443"),
        ("a.test", "@npm"),
        ("host.aisb.internal", "host:443"),
    ],
)
def test_what_a_run_has_from_its_start_is_offered_for_a_new_one_alone(host: str, add: str) -> None:
    refusal = Refusal("1a2b3c4d", host, 443, "GET", "/x", Reason.PATH, add=add)

    assert refusal.steps() == f"to allow it, the user starts the sandbox with: --allow {quote(add)}"


def test_what_no_entry_would_allow_is_said_to_be_so() -> None:
    refusal = Refusal("1a2b3c4d", "allowed.test", 443, "CONNECT", "", Reason.NAME_MISMATCH, add="")

    assert b"next: no entry is proposed for this\n" in response_of(refusal, wants_json=False)


def test_a_bad_request_is_400_and_says_what_is_wrong_with_it() -> None:
    refusal = Refusal("1a2b3c4d", "", 0, "", "", Reason.BAD_REQUEST, add="", detail="it is too long", status=400)
    response = response_of(refusal, wants_json=False)

    assert response.startswith(b"HTTP/1.1 400 Bad request: bad-request\r\n")
    assert b"reason: bad-request (it is too long)\n" in response


def test_nothing_that_a_client_sent_can_move_a_cursor_or_add_a_line() -> None:
    refusal = Refusal("1a2b3c4d", "a\r\nSet-Cookie: x", 1, "GET", "/\x1b[2J\x7f\xe9", Reason.NOT_LISTED, add="")

    text = response_of(refusal, wants_json=False)
    assert b"host: a??Set-Cookie: x\n" in text
    assert b"path: /?[2J??\n" in text
    assert text.split(b"\r\n")[0] == b"HTTP/1.1 403 Access denied by egress policy: not-listed [a??Set-Cookie: x]:1"
