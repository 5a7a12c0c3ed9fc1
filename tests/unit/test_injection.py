"""What becomes of a request's headers, whichever way a placeholder stands in it; and what may be injected at all."""

from __future__ import annotations

import json
import os
import random
from base64 import b64encode
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisb.cli.main import VERBS
from aisb.cli.request import read_request
from aisb.cli.run import need_secrets_outside
from aisb.cli.splitter import split
from aisb.domain.check import check, parse_target
from aisb.domain.http_request import HttpRequest, honest_request
from aisb.domain.inject_flag import (
    Injected,
    git_variables,
    need_reach,
    parse_injections,
    placeholder_for,
    refuse_elsewhere,
    secrets_of,
)
from aisb.domain.injection import Injection, Injector, Secret, Treatment, headers_read, read_secrets, secrets_json
from aisb.domain.layers import PROJECT, USER, Layer, Setting
from aisb.domain.policy import Policy, parse_allow
from aisb.effects.inject import prepare, refuse_in_mounts
from aisb.effects.shield import Shield
from aisb.errors import UsageError
from gate.judging import answer
from tests.unit.jobs import JOB

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HOST = "api.example.com"
VALUE, HELD = "sk-live-0123456789abcdef", "sk-live-PLACEHOLDERPLACE"
SECRET = Secret(HOST, "Authorization", HELD, VALUE)
INJECTOR = Injector([SECRET, Secret("key.example.com", "X-Api-Key", "held-key-12345678", "real-key-87654321")])
NOTHING = Treatment("", ("Authorization",))


def request(host: str = HOST, *, scheme: str = "https", method: str = "GET", path: str = "/") -> HttpRequest:
    return honest_request(method, scheme, host, 443 if scheme == "https" else 80, path)


def basic(text: str) -> str:
    return f"Basic {b64encode(text.encode()).decode()}"


@pytest.mark.parametrize(
    ("held", "given"),
    [
        (HELD, VALUE),
        (f"Bearer {HELD}", f"Bearer {VALUE}"),
        (basic(f"x-access-token:{HELD}"), basic(f"x-access-token:{VALUE}")),
        (basic(f"{HELD}:"), basic(f"{VALUE}:")),
        (basic(f"{HELD}:{HELD}"), basic(f"{VALUE}:{VALUE}")),
    ],
)
def test_the_placeholder_becomes_the_secret(held: str, given: str) -> None:
    """In the forms that a credential has; the header as it came is taken out."""
    treatment = INJECTOR.treat(request(), {"Authorization": held})

    assert treatment == Treatment("", ("Authorization",), (("Authorization", given),))


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer other"}, {"Authorization": basic("a:b")}])
def test_another_credential_is_taken_out_and_nothing_put_in(headers: dict[str, str]) -> None:
    assert INJECTOR.treat(request(), headers) == NOTHING


@pytest.mark.parametrize(
    ("asked", "headers"),
    [
        (request("other.example.com"), {"Authorization": HELD}),
        (request("sub.api.example.com"), {"Authorization": HELD}),
        (request(scheme="http"), {"Authorization": HELD}),
        (request(scheme="http")._replace(port=443, url_port=443), {"Authorization": HELD}),
        (request(method="TRACE"), {"Authorization": HELD}),
        (request()._replace(port=8443, url_port=8443), {"Authorization": HELD}),
        (request(), {"X-Api-Key": HELD}),
        (request(), {"Authorization": f"Bearer {HELD} "}),
        (request(), {"Authorization": f"Bearer {HELD}, Bearer x"}),
        (request(), {"Authorization": basic(f"{HELD}")}),
        (request(), {"Authorization": basic(f"a{HELD}:b")}),
        (request(), {"Authorization": "held-key-12345678"}),
        (request("other.example.com"), {"Authorization": basic(f"a:{HELD}")}),
        (request("other.example.com"), {"Cookie": f"a={HELD.replace('P', '%50')}"}),
        (request(path=f"/{HELD}"), {}),
        (request(path=f"/?a={HELD.replace('P', '%50')}"), {}),
    ],
)
def test_a_placeholder_where_no_secret_goes_is_refused_and_said(asked: HttpRequest, headers: dict[str, str]) -> None:
    treatment = INJECTOR.treat(asked, headers)

    assert (treatment.verdict().reason, treatment.taken, treatment.given) == ("secret-wrong-host", (), ())
    assert HELD not in treatment.fault


@given(st.text(alphabet="aA-: =%2\n" + HELD[:3], max_size=12), st.text(alphabet="aA-: =%2\n", max_size=12))
def test_whatever_stands_around_it_no_other_host_is_given_a_secret(before: str, after: str) -> None:
    treatment = INJECTOR.treat(request("other.example.com"), {"Authorization": f"{before}{HELD}{after}"})

    assert (treatment.given, bool(treatment.fault)) == ((), True)


def test_secrets_that_are_not_the_policys_are_refused_without_being_shown() -> None:
    data = secrets_json([SECRET])

    assert read_secrets(data, [Injection(HOST, "Authorization")]) == (SECRET,)
    for wrong in (b"[]", b"x", data[:-5], secrets_json([SECRET._replace(host="b.example.com")])):
        with pytest.raises(ValueError, match="the secrets are not") as caught:
            read_secrets(wrong, [Injection(HOST, "Authorization")])
        assert (VALUE in str(caught.value), caught.value.__cause__) == (False, None)


def test_the_helpers_line_has_a_field_for_each_header_that_is_looked_through() -> None:
    """What squid writes percent-encoded is read, and the answer names headers by their numbers."""
    injections = (Injection(HOST, "Authorization"),)
    injector = Injector([SECRET], injections)
    names = headers_read(injections)
    fields = dict.fromkeys(names, "-") | {"Authorization": f"Bearer%20{HELD}"}
    line = f"7 fd00::1 1 GET {HOST} 443 https {HOST} {HOST}:443 {HOST} - - - / {' '.join(fields.values())} bumped"

    class Everything:
        """An engine that allows it: what is judged here comes after."""

        def is_host(self, _host: str) -> bool:
            return False

        def is_bumped(self, _host: str) -> bool:
            return True

        def judge_request(self, _request: HttpRequest) -> object:
            return type("Yes", (), {"allowed": True})

    said = answer(lambda _run: Everything(), line.encode(), injector)  # type: ignore[arg-type,return-value]  # as it says
    assert said.startswith(b"7 OK ")
    assert said.endswith(b" taken_1_=yes given_1_=yes value_1_=Bearer%20sk%2Dlive%2D0123456789abcdef\n")


def parsed(*texts: str) -> tuple[Injected, ...]:
    return parse_injections(Setting(text, "--inject") for text in texts)


def test_where_a_secret_goes_may_be_written_in_two_ways() -> None:
    assert parsed("T@API.example.com", "T@key.example.com:x-api-KEY", "T@api.example.com:Authorization") == (
        Injected("T", HOST, "Authorization", "--inject"),
        Injected("T", "key.example.com", "X-Api-Key", "--inject"),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("T", "is not of the form VAR@HOST[:Header]"),
        ("1T@a.example.com", "is not of the form VAR@HOST[:Header]"),
        ("T@a.example.com:", "is not of the form VAR@HOST[:Header]"),
        ("T@a.example.com:X Y", "is not of the form VAR@HOST[:Header]"),
        ("T@a.example.com:X\nallow all", "is not of the form VAR@HOST[:Header]"),
        ("T@*.example.com", "'*.example.com' is not one exact name"),
        ("T@", "'' is not one exact name"),
        ("T@10.0.0.1", "'10.0.0.1' is not one exact name"),
        ("T@host.aisb.internal", "'host.aisb.internal' is not the name of a host outside"),
        ("T@a.example.com:Host", "no secret goes into Host"),
        ("T@a.example.com:transfer-encoding", "no secret goes into transfer-encoding"),
        ("T@a.example.com:Proxy-Authorization", "no secret goes into Proxy-Authorization"),
    ],
)
def test_what_names_no_place_for_a_secret_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parsed(text)
    assert message in caught.value.message


def test_one_header_of_a_host_takes_one_secret() -> None:
    with pytest.raises(UsageError, match="T goes into that header of that host already"):
        parsed("T@a.example.com", "U@a.example.com")


@pytest.mark.parametrize(
    ("layers", "words", "message"),
    [
        ((), ["--net", "none", "--inject", "T@a.test"], "has no meaning under --net none: there is no gate"),
        ((Layer(USER, {}, {"inject": (Setting("T@a.test", "c:1"),)}),), ["--net", "full"], "under --net full"),
        ((Layer(USER, {}, {"inject": (Setting("T@a.test", "c:1"),)}),), ["--no-gate"], "and --no-gate has none"),
    ],
)
def test_without_a_gate_nothing_is_injected(layers: tuple[Layer, ...], words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_request(split([*words, "--shell"], VERBS), {}, layers)


def make_policy(*allow: str, inject: str = f"T@{HOST}") -> Policy:
    return Policy(
        net="allow",
        allow=parse_allow("allow", [(entry, "--allow") for entry in allow]),
        environment=(),
        base_image="",
        install=(),
        project="",
        home_volume="",
        ca_bundle="",
        origins={},
        injections=parsed(inject),
    )


def test_an_injection_to_a_host_that_is_not_allowed_is_refused() -> None:
    """It allows nothing, so it would do nothing."""
    assert need_reach(make_policy("example.com"))
    for allow in ("other.example.com", f"{HOST}:8443"):
        with pytest.raises(UsageError) as caught:
            need_reach(make_policy(allow))
        assert caught.value.hint == f"add: --allow exact:{HOST}"


@pytest.mark.parametrize(
    ("target", "method", "injected"),
    [
        (f"https://{HOST}/x", "", True),
        (HOST, "", True),
        (f"http://{HOST}/x", "", False),
        (f"https://sub.{HOST}/x", "", False),
        (f"https://{HOST}/x", "TRACE", False),
        ("https://denied.test/", "", False),
    ],
)
def test_a_check_says_whether_a_secret_goes_in(target: str, method: str, injected: bool) -> None:
    assert check(make_policy("example.com"), parse_target(target, method)).injected == injected


def counting() -> Callable[[int], bytes]:
    """The same bytes each time."""
    return random.Random(1).randbytes


@pytest.mark.parametrize(
    ("value", "prefix"),
    [
        ("ghp_0123456789abcdefABCDEF0123456789abcd", "ghp_"),
        ("github_pat_11ABCDEFG0123456789_abcdefghijklmnop", "github_pat_"),
        ("sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789", "sk-ant-api03-"),
        ("0123456789abcdef0123456789abcdef", ""),
        ("eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl", ""),
        ("12345678", ""),
        ("my-own-secret-phrase", ""),
    ],
)
def test_a_placeholder_looks_like_its_secret_and_holds_nothing_of_it(value: str, prefix: str) -> None:
    """The words that it begins with, its length, its marks and its kind of letters; the rest is made anew each time."""
    source = counting()
    one, other = placeholder_for(value, source), placeholder_for(value, source)

    assert one != other
    for made in (one, other):
        assert made.startswith(prefix)
        assert [char if char in "-_." else "x" for char in made] == [char if char in "-_." else "x" for char in value]
        assert made != value
        assert not value.isdigit() or made.isdigit()
        assert sum(a == b for a, b in zip(made[len(prefix) :], value[len(prefix) :], strict=True)) < len(value) / 2


@pytest.mark.parametrize(
    "value", [b"", b"short", b"with\nbreak-in-it", b"caf\xe9-caf\xe9-caf\xe9", b" blank-at-the-end ", b"x" * 9000]
)
def test_what_is_no_token_is_not_injected(value: bytes) -> None:
    """A line break would begin another header. The message has nothing of it."""
    with pytest.raises(UsageError) as caught:
        secrets_of(parsed(f"T@{HOST}"), {"T": value}, counting())
    assert caught.value.message == "--inject: the value of T cannot be a token in a header"


def test_what_is_injected_is_not_passed_in() -> None:
    """From the environment or a file of variables; the placeholder is in its place, the same for each of its hosts."""
    injections = parsed(f"T@{HOST}", "T@key.example.com:X-Api-Key", f"U@{HOST}:X-Two")
    variables, secrets = prepare(injections, {b"T": VALUE.encode(), b"A": b"1"}, {b"U": b"of-the-environment"}, ("x",))

    held = [item[2] for item in json.loads(secrets)]
    assert [item[3] for item in json.loads(secrets)] == [VALUE, VALUE, "of-the-environment"]
    assert (variables[b"T"].decode(), variables[b"U"].decode(), variables[b"A"]) == (held[0], held[2], b"1")
    assert held[0] == held[1] != VALUE
    assert not any(secret.encode() in b"".join(variables.values()) for secret in (VALUE, "of-the-environment"))


@pytest.mark.parametrize(
    ("variables", "command", "where"),
    [
        ({b"URL": f"https://x:{VALUE}@h".encode()}, ("x",), "the variable URL"),
        ({}, ("curl", "-H", f"Authorization: {VALUE}"), "the command"),
    ],
)
def test_a_value_that_would_go_in_all_the_same_is_refused(
    variables: dict[bytes, bytes], command: tuple[str, ...], where: str
) -> None:
    with pytest.raises(UsageError) as caught:
        prepare(parsed(f"T@{HOST}"), variables, {b"T": VALUE.encode()}, command)
    assert caught.value.message == f"a value that is to be injected stands in {where} too, and would be in the sandbox"


@pytest.mark.parametrize("name", [".npmrc", ".git/config", "notes/one"])
def test_a_value_in_a_file_that_is_mounted_is_refused(tmp_path: Path, name: str) -> None:
    """One that is mounted itself, one in what is mounted, and the address of a remote. Not where it reads as empty."""
    _, secrets = prepare(parsed(f"T@{HOST}"), {}, {b"T": VALUE.encode()}, ("x",))
    file = tmp_path / "p" / name
    file.parent.mkdir(parents=True)
    file.write_text(f"//host/:_authToken={VALUE}\n")
    (tmp_path / "p" / "link").symlink_to(file)
    mounts = [str(file if name == "notes/one" else tmp_path / "p")]

    with pytest.raises(UsageError) as caught:
        refuse_in_mounts(secrets, mounts, ())
    refuse_in_mounts(secrets, mounts, {str(file)})
    refuse_in_mounts(b"", mounts, ())
    assert caught.value.message == f"a value that is to be injected stands in {file} too, and would be in the sandbox"
    assert caught.value.hint.startswith("take it out of there, or mask the file")


@pytest.mark.parametrize(
    ("variables", "seeds", "where"),
    [
        ({b"OTHER": VALUE.encode()}, {}, "the variable OTHER"),
        ({b"A": b"\xff" + VALUE.encode()}, {}, "the variable A"),
        ({}, {".pi/agent/models.json": f'{{"apiKey": "{VALUE}"}}'}, "~/.pi/agent/models.json"),
        ({b"T": HELD.encode()}, {".pi/agent/models.json": "\udcff"}, ""),
    ],
    ids=["of pi's", "among other bytes", "a file of pi's", "nowhere"],
)
def test_a_value_that_the_hosts_pi_has_under_another_name_is_refused(
    variables: dict[bytes, bytes], seeds: dict[str, str], where: str
) -> None:
    """Whatever puts it in, after the flags were looked at."""
    _, secrets = prepare(parsed(f"T@{HOST}"), {}, {b"T": VALUE.encode()}, ("x",))
    job = JOB._replace(command=("pi",), environment=variables, secrets=secrets, seeds=seeds)
    refused = ""

    try:
        need_secrets_outside(job, Shield())
    except UsageError as error:
        refused = error.message

    assert refused == (where and f"a value that is to be injected stands in {where} too, and would be in the sandbox")


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    _, secrets = prepare(parsed(f"T@{HOST}"), {}, {b"T": VALUE.encode()}, ("x",))
    os.mkfifo(tmp_path / "pipe")

    refuse_in_mounts(secrets, [str(tmp_path), str(tmp_path / "pipe"), str(tmp_path / "gone")], ())


def test_nothing_is_found_where_nothing_is() -> None:
    refuse_elsewhere([SECRET], {"the command": b"x"})


def test_git_is_answered_for_each_injected_host_and_for_no_other() -> None:
    """By the variable's name: neither secret nor placeholder stands in git's configuration."""
    found = git_variables(parsed(f"T@{HOST}", "T@key.example.com:X-Api-Key", "U@b.example.com"))

    assert {name: value for name, value in found.items() if b"VALUE" not in name} == {
        b"GIT_CONFIG_COUNT": b"2",
        b"GIT_CONFIG_KEY_0": f"credential.https://{HOST}.helper".encode(),
        b"GIT_CONFIG_KEY_1": b"credential.https://b.example.com.helper",
    }
    assert b'"$T"' in found[b"GIT_CONFIG_VALUE_0"]
    assert git_variables(parsed("T@key.example.com:X-Api-Key")) == {}


def test_a_project_cannot_ask_for_a_secret() -> None:
    from aisb.domain.layers import check_project

    with pytest.raises(UsageError, match="'inject' is not for a project to set"):
        check_project(Layer(PROJECT, {}, {"inject": (Setting("T@a.test", "c:1"),)}), ())
