"""squid's questions and the helper's answers."""

from __future__ import annotations

import pytest

from aisb.domain.rules import EXACT, TREE, WEB_PORTS, Engine, NameEntry
from gate.judging import answer

ENGINE = Engine([
    NameEntry("allowed.test", TREE, WEB_PORTS),
    NameEntry("cdn.test", EXACT, WEB_PORTS),
    NameEntry("db.test", EXACT, (22, 8080)),
])  # fmt: skip
RUN = "fd00::1a2b:3c4d"


def verdict(line: str) -> str:
    """Channel, yes or no, and the reason."""
    said = answer(ENGINE, f"7 {RUN} {line}".encode()).decode()
    assert said.endswith("\n")
    assert said.count("\n") == 1
    channel, result, reason, *_ = said.split()
    assert channel == "7"
    return f"{result} {reason.removeprefix('log=')}"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("GET allowed.test 80 http allowed.test - - explicit", "OK ok"),
        ("GET sub.allowed.test 80 http SUB.allowed.test.:80 - - explicit", "OK ok"),
        ("GET db.test 8080 http db.test:8080 - - explicit", "OK ok"),
        ("CONNECT db.test 22 - db.test:22 - - explicit", "OK ok"),
        ("CONNECT db.test 22 - - - - explicit", "OK ok"),
        ("GET allowed.test 80 http allowed.test allowed.test:80 - plain", "OK ok"),
        ("CONNECT allowed.test 443 - allowed.test:443 - - tls", "OK ok"),
        ("CONNECT allowed.test 443 - allowed.test:443 - allowed.test hello", "OK ok"),
        ("CONNECT allowed.test 443 - allowed.test:443 - ALLOWED.TEST hello", "OK ok"),
    ],
)
def test_what_squid_may_do(line: str, expected: str) -> None:
    assert verdict(line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("GET evil.test 80 http evil.test - - explicit", "ERR not-listed"),
        ("GET allowed.test 80 http evil.test - - explicit", "ERR name-mismatch"),
        ("GET allowed.test 80 http - - - explicit", "ERR name-mismatch"),
        ("GET allowed.test 443 https allowed.test - - explicit", "ERR name-mismatch"),
        ("GET allowed.test 443 http allowed.test:443 - - explicit", "ERR not-tls"),
        ("GET allowed.test 80 ftp allowed.test - - explicit", "ERR name-mismatch"),
        ("GET db.test 22 http db.test - - explicit", "ERR name-mismatch"),
        ("GET 203.0.113.11 80 http 203.0.113.11 - - explicit", "ERR direct-address"),
        ("CONNECT allowed.test 22 - allowed.test:22 - - explicit", "ERR port"),
        ("CONNECT allowed.test 443 - allowed.test:443 - - explicit", "ERR bad-request"),
        ("CONNECT allowed.test 80 - allowed.test:80 - - explicit", "ERR bad-request"),
        ("GET cdn.test 80 http cdn.test allowed.test:80 - plain", "ERR name-mismatch"),
        ("GET allowed.test 80 http cdn.test allowed.test:80 - plain", "ERR name-mismatch"),
        ("GET cdn.test 80 http allowed.test allowed.test:80 - plain", "ERR name-mismatch"),
        ("GET allowed.test 5432 http allowed.test:5432 allowed.test:80 - plain", "ERR name-mismatch"),
        ("GET allowed.test 443 https allowed.test allowed.test:80 - plain", "ERR name-mismatch"),
        ("GET evil.test 80 http evil.test evil.test:80 - plain", "ERR not-listed"),
        ("GET allowed.test 80 http allowed.test - - plain", "ERR bad-request"),
        ("CONNECT allowed.test 80 - allowed.test:80 allowed.test:80 - plain", "ERR bad-request"),
        ("CONNECT evil.test 443 - evil.test:443 - - tls", "ERR not-listed"),
        ("CONNECT db.test 22 - db.test:22 - - tls", "ERR bad-request"),
        ("GET allowed.test 443 https allowed.test - - tls", "ERR bad-request"),
        ("CONNECT allowed.test 443 - allowed.test:443 - evil.test hello", "ERR name-mismatch"),
        ("CONNECT allowed.test 443 - allowed.test:443 - *.test hello", "ERR name-mismatch"),
        ("CONNECT allowed.test 443 - allowed.test:443 - - hello", "ERR not-tls"),
        ("CONNECT allowed.test 443 - allowed.test:443 - sub.allowed.test hello", "ERR name-mismatch"),
        ("CONNECT allowed.test 443 - allowed.test:443 - 203.0.113.11 hello", "ERR name-mismatch"),
        ("GET allowed.test 80 http allowed.test - - elsewhere", "ERR bad-request"),
        ("GET allowed.test 080 http allowed.test - - explicit", "ERR bad-request"),
        ("GET allowed.test - http allowed.test - - explicit", "ERR bad-request"),
        ("GET allowed.test 80 http allowed.test - explicit", "ERR bad-request"),
        ("GET allowed.test 80 http allowed.test - - explicit more", "ERR bad-request"),
        ("GET allowed%2etest 80 http allowed.test - - explicit", "ERR bad-request"),
        ("GET allowed.test 80 http allowed.test,%20evil.test - - explicit", "ERR bad-request"),
        ("", "ERR bad-request"),
    ],
)
def test_what_squid_may_not_do(line: str, expected: str) -> None:
    assert verdict(line) == expected


def test_a_line_from_nobody_is_answered_no() -> None:
    line = b"0 203.0.113.9 GET allowed.test 80 http allowed.test - - explicit"

    assert answer(ENGINE, line) == b"0 ERR log=bad-request\n"


@pytest.mark.parametrize("line", [b"", b"x", b"-1 fd00::1 GET", b"12345678901 fd00::1", b"\xff"])
def test_a_line_without_a_channel_has_no_answer(line: bytes) -> None:
    assert answer(ENGINE, line) == b""


def test_an_agreement_names_the_run_for_whatever_page_comes_of_it() -> None:
    said = answer(ENGINE, f"3 {RUN} GET allowed.test 80 http allowed.test - - explicit".encode()).decode()

    assert said.split()[:4] == ["3", "OK", "log=ok", "run_=1a2b3c4d"]


def test_a_refusal_carries_the_words_for_the_client_as_one_token() -> None:
    said = answer(ENGINE, f"3 {RUN} GET evil.test 80 http evil.test - - explicit".encode()).decode()

    from urllib.parse import unquote

    _, _, _, message = said.split()
    assert unquote(message.removeprefix("message=")) == (
        "who: sandbox 1a2b3c4d\n"
        "host: evil.test\n"
        "port: 80\n"
        "method: GET\n"
        "reason: not-listed (no entry of the policy covers this host)\n"
        "next: to allow it, the user starts the sandbox with: --allow evil.test\n"
        "Do not work around it: ask the user.\n"
    )
