"""
A gate that puts secrets into requests: what arrives at the servers, and that a secret is nowhere else.

The client here has the placeholder, as a sandbox has.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from base64 import b64encode
from typing import TYPE_CHECKING, Any

import pytest

from aisb.domain.injection import Injection, Secret, secrets_json
from tests.tools.gate_box import ZONE, GateBox, World, allowing, wait_for
from tests.tools.gate_client import connect, listen, say, through_tunnel
from tests.tools.test_gate_rules import inside, opened, record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.tools.gate_client import Heard

HOST = "api.allowed.test"
KEYED = "key.allowed.test"
RULED = "ruled.allowed.test"
OTHER = "sub.allowed.test"
TOKEN = "ghp_realrealrealrealreal1234"
KEY = "sk-other-secret-of-another-host'\"%41 {x}"
HELD = "ghp_placeholderplaceholder12"
HELD_KEY = "sk-other-placeholder-for-that-host"
SECRETS = (
    Secret(HOST, "Authorization", HELD, TOKEN),
    Secret(RULED, "Authorization", HELD, TOKEN),
    Secret(KEYED, "X-Api-Key", HELD_KEY, KEY),
)
POLICY = allowing(HOST, KEYED, f"GET,POST {RULED}/ok/**", f"GET {OTHER}/**")._replace(
    injections=tuple(sorted(Injection(secret.host, secret.header) for secret in SECRETS))
)
NAMES = {
    HOST: ["203.0.113.10"],
    KEYED: ["203.0.113.11"],
    RULED: ["203.0.113.12"],
    OTHER: ["203.0.113.12"],
}


@pytest.fixture(scope="module")
def world(system: str) -> Iterator[World]:
    """A network with a server for each name."""
    with World() as world:
        world.answer(ZONE | NAMES)
        yield world


@pytest.fixture(scope="module")
def gate(world: World, system: str) -> Iterator[GateBox]:
    """A gate in that network, with secrets."""
    with GateBox(world, POLICY, system=system, secrets=secrets_json(SECRETS)) as gate:
        assert gate.ready == "ready", gate.log()
        yield gate


@pytest.fixture
def path(gate: GateBox, world: World) -> Iterator[str]:
    """The socket of a run of its own."""
    run = f"{time.monotonic_ns() & 0xFFFFFFFF:08x}"
    opened = gate.open(run)
    world.forget()
    yield opened
    gate.ask({"op": "close", "run": run})


def request(host: str, *headers: str, method: str = "GET", target: str = "/ok/x") -> bytes:
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", *headers, "Connection: close", "", ""]
    return "\r\n".join(lines).encode("latin-1")


def said(path: str, host: str, *headers: str, method: str = "GET", target: str = "/ok/x") -> Heard:
    return inside(path, request(host, *headers, method=method, target=target), name=host)


def arrived(world: World, header: str) -> list[Any]:
    """What the servers got in that header, None where it was not there."""
    return [line["headers"].get(header) for line in world.seen() if line["kind"] == "request"]


def basic(user: str, password: str) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


def test_the_secret_arrives_in_the_forms_that_credentials_have(path: str, world: World) -> None:
    """Bare, after a scheme, and in either half of Basic, where base64 hides it."""
    forms = (HELD, f"Bearer {HELD}", f"token {HELD}", basic("x", HELD), basic(HELD, "x-oauth-basic"))

    for form in forms:
        assert said(path, HOST, f"Authorization: {form}").status == 200

    assert arrived(world, "authorization") == [
        TOKEN, f"Bearer {TOKEN}", f"token {TOKEN}", basic("x", TOKEN), basic(TOKEN, "x-oauth-basic"),
    ]  # fmt: skip


def test_a_secret_goes_byte_for_byte_into_the_header_that_was_named(path: str, world: World) -> None:
    """Quotes and percent signs too; on a host with rules as on one without."""
    assert said(path, KEYED, f"x-api-key: {HELD_KEY}").status == 200
    assert said(path, RULED, f"Authorization: Bearer {HELD}", method="POST").status == 200

    assert arrived(world, "x-api-key") == [KEY, None]
    assert arrived(world, "authorization") == [None, f"Bearer {TOKEN}"]


def test_no_other_credential_leaves_in_that_header(path: str, world: World) -> None:
    """One of the sandbox's own would send what it has read to somebody else's account at that very host."""
    assert said(path, HOST, "Authorization: Bearer of-somebody-else").status == 200
    assert said(path, HOST, "Authorization: -").status == 200
    assert said(path, HOST).status == 200

    assert arrived(world, "authorization") == [None, None, None]


@pytest.mark.parametrize(
    "headers",
    [
        (f"Authorization: Bearer {HELD}, Basic b3RoZXI6b3RoZXI=",),
        (f"Authorization: Bearer  {HELD}",),
        (f"Authorization: Bearer {HELD}x",),
        (f"X-Api-Key: {HELD}",),
        (f"X-Token: {HELD}",),
        (f"Cookie: a={HELD}",),
        (f"User-Agent: {HELD}",),
        (f"Referer: https://x.test/?{HELD.replace('p', '%70')}",),
        (f"Authorization: {HELD_KEY}",),
    ],
)
def test_a_placeholder_anywhere_else_is_refused(
    path: str, world: World, gate: GateBox, headers: tuple[str, ...]
) -> None:
    """In another form, another header, or for another secret: nothing arrives, and the record says why."""
    heard = said(path, HOST, *headers)

    assert (heard.status, arrived(world, "host")) == (403, [])
    assert record(gate, path, "host", "reason") == [(HOST, "secret-wrong-host")]
    assert "secret-wrong-host" in heard.data.decode()


@pytest.mark.parametrize("swap", [1, -1])
def test_of_two_such_headers_nothing_but_the_secret_arrives(path: str, world: World, swap: int) -> None:
    lines = (f"Authorization: Bearer {HELD}", "Authorization: Bearer of-somebody-else")

    said(path, HOST, *lines[::swap])

    assert arrived(world, "authorization") in ([], [None], [f"Bearer {TOKEN}"])
    assert "of-somebody-else" not in repr(world.seen())


@pytest.mark.parametrize("target", [f"/ok/{HELD}", f"/ok/x?key={HELD}", f"/ok/x?key={HELD.replace('g', '%67')}"])
def test_a_placeholder_in_the_path_is_refused(path: str, world: World, target: str) -> None:
    assert said(path, HOST, target=target).status == 403
    assert arrived(world, "host") == []


def test_another_bumped_host_receives_neither_secret_nor_placeholder(path: str, world: World, gate: GateBox) -> None:
    """With its own name it is refused; with the injected host's name inside its tunnel, all names have to be one."""
    assert said(path, OTHER, f"Authorization: Bearer {HELD}").status == 403
    assert inside(path, request(HOST, f"Authorization: Bearer {HELD}"), name=OTHER).status == 403
    assert inside(path, request(OTHER, f"Authorization: Bearer {HELD}"), name=HOST).status == 403
    url = (
        f"GET https://{HOST}/ok/x HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {HELD}\r\nConnection: close\r\n\r\n"
    )
    assert inside(path, url.encode(), name=OTHER).status == 403

    assert arrived(world, "host") == []
    reasons = {reason for (reason,) in record(gate, path, "reason", lines=4)}
    assert reasons == {"secret-wrong-host", "name-mismatch"}


def test_only_tls_carries_a_secret_and_trace_never_does(path: str, world: World) -> None:
    """Over plain HTTP the placeholder is refused; what sends the request back gets none."""
    plain = through_tunnel(path, f"{HOST}:80", request(HOST, f"Authorization: Bearer {HELD}"), seconds=4)

    assert plain.status == 403
    assert said(path, HOST, f"Authorization: Bearer {HELD}", method="TRACE").status == 403
    assert arrived(world, "host") == []


def test_each_request_of_a_kept_connection_is_treated_for_itself(path: str, world: World) -> None:
    with opened(path, HOST) as secure:
        for headers in ((f"Authorization: Bearer {HELD}",), (), ("Authorization: x",), (f"Authorization: {HELD}",)):
            secure.sendall(request(HOST, *headers).replace(b"Connection: close\r\n", b""))
            assert listen(secure, until=b"hello from 203.0.113.10\n").status == 200

    assert arrived(world, "authorization") == [f"Bearer {TOKEN}", None, None, TOKEN]


def test_an_injection_gives_no_reach(system: str) -> None:
    """The gate opens TLS to the host, and lets nothing through that no entry allows."""
    policy = allowing("cdn.test")._replace(injections=POLICY.injections)
    with World() as world, GateBox(world, policy, system=system, secrets=secrets_json(SECRETS)) as gate:
        assert gate.ready == "ready", gate.ready
        world.answer(ZONE | NAMES)
        answer = say(gate.open(), connect(f"{HOST}:443"))
        assert (answer.status, arrived(world, "host")) == (403, [])


def test_a_secret_is_in_no_file_argument_log_or_environment(path: str, gate: GateBox, world: World) -> None:
    """After it was used, and after squid has started the helper again; whole, and as squid would write it."""
    run = path.split("/")[-3]
    assert said(path, HOST, f"Authorization: Bearer {HELD}").status == 200
    gate.ask({"op": "say", "run": run, "entry": {}})
    needles = [text.encode() for text in (TOKEN, KEY, KEY.replace("%", "%25"), "sk-other-secret")]
    needles += [b64encode(f"x:{TOKEN}".encode())[4:-4]]
    found = []
    for process in gate.processes().values():
        for name in ("environ", "cmdline", "mountinfo"):
            with open(f"/proc/{process}/{name}", "rb") as file:
                found += [(process, name) for data in [file.read()] for needle in needles if needle in data]
    for folder in (gate.scratch, f"/proc/{gate.processes()['bridge']}/root/run"):
        listed = subprocess.run(
            ["grep", "-rlaF", "-e", TOKEN, "-e", "sk-other-secret", folder], capture_output=True, check=False
        )
        found += [("file", line) for line in listed.stdout.decode().splitlines()]
    assert found == []
    assert os.path.exists(f"{gate.directory}/r/{run}/audit.jsonl")


def test_the_helper_asks_again_when_squid_starts_it_anew(path: str, gate: GateBox, world: World) -> None:
    """squid does so each time that it reads its configuration, and when the helper dies."""
    before = gate.processes()["helper"]
    os.kill(before, 9)

    def is_treated() -> bool:
        # What was put to the one that died gets no answer, or a wrong one.
        with contextlib.suppress(OSError):
            return said(path, HOST, f"Authorization: Bearer {HELD}").status == 200
        return False

    wait_for(is_treated, "the new helper has the secrets", seconds=20)
    assert gate.processes()["helper"] != before
    assert arrived(world, "authorization")[-1] == f"Bearer {TOKEN}"


@pytest.mark.parametrize("secrets", [b"", b"[]", secrets_json(SECRETS[:2]), b"nonsense"])
def test_a_gate_without_its_secrets_does_not_begin(system: str, secrets: bytes) -> None:
    with World() as world, GateBox(world, POLICY, system=system, secrets=secrets) as gate:
        why = "the secrets are not" if secrets else "[Errno "
        assert gate.ready.startswith(f"failed {why}"), gate.ready
        assert TOKEN not in gate.log() + gate.ready


def test_only_squids_user_is_given_the_secrets(gate: GateBox) -> None:
    """Another one gets nothing: the socket answers by who asks."""
    target = str(gate.processes()["squid"])
    program = (
        "import socket; s = socket.socket(socket.AF_UNIX); s.connect('/run/squid/secrets'); print(len(s.recv(65536)))"
    )
    enter = ["nsenter", "--target", target, "--mount", "--root", "--pid"]
    sizes = [
        subprocess.run([*enter, "setpriv", f"--reuid={uid}", "--clear-groups", "python3", "-I", "-c", program],
                       capture_output=True, check=True, text=True).stdout.strip()
        for uid in (13, 65534, 1000)
    ]  # fmt: skip
    assert sizes == [str(len(secrets_json(SECRETS))), "0", "0"]
