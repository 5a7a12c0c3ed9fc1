"""`aisb doctor`: each check red, or yellow, under the fault that it is for, and green without."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from aisb.cli.configured import need_configuration
from aisb.domain.base_image import DEFAULT_BASE, parse_base_image
from aisb.domain.doctor import FAIL, OK, WARN, Finding, as_json, exit_code
from aisb.domain.images import PinnedBase
from aisb.effects.checks import CHECKS, examine, room_found
from aisb.effects.machine import Machine
from aisb.effects.pins import write_base_pin
from aisb.effects.process import Finished
from aisb.render.doctor import doctor_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from aisb.effects.process import Command

USER = f"{os.getuid()}"
DIGEST = f"sha256:{64 * '0'}"
RANGE = f"{USER}:100000:65536\n"
MAP = "0 1000 1\n1 100000 65536\n"
PROGRAMS = ("podman", "newuidmap", "newgidmap", "pasta", "skopeo", "mmdebstrap")
FILES = {
    "/etc/subuid": RANGE,
    "/etc/subgid": RANGE,
    "/etc/resolv.conf": "nameserver 192.0.2.53\n",
    "/proc/self/mountinfo": "1 1 8:1 / / rw - ext4 /dev/sda1 rw\n3 1 0:3 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n2 1 8:2 / /with\\040space rw - nfs4 server:/ rw\n",
    "/proc/4711/comm": "catatonit\n",
    "/proc/4712/comm": "sshd\n",
    "/usr/share/containers/seccomp.json": "{}",
    "/sys/fs/cgroup/cgroup.controllers": "cpu io memory pids\n",
    f"/sys/fs/cgroup/user.slice/user-{USER}.slice/user@{USER}.service/cgroup.controllers": "cpu memory pids\n",
}
BUILT_WITH = b"Squid Cache: Version 6.13\nconfigure options:  '--with-openssl'\n"


class Podman(NamedTuple):
    """What a podman answers."""

    version: str = "podman version 5.4.2"
    manager: str = "systemd"
    driver: str = "overlay"
    store: str = "/"
    runtime: str = "/bin/sh"
    runtime_name: str = "crun"
    rootless: bool = True
    uid_map: Finished = Finished(0, MAP.encode())
    nf_tables: Finished = Finished(0)
    images: tuple[str, ...] = ("sandbox", "gate")
    touch: Finished = Finished(0)
    # Where what is made inside is somebody else's.
    touched_by_another: bool = False
    info: Finished = Finished(0)
    squid: Finished = Finished(0, BUILT_WITH)

    def announce(self, argv: tuple[str, ...]) -> None:
        """Of no interest."""

    def stream(self, *_: object) -> int:
        raise AssertionError("no check follows a program")

    def run(self, command: Command) -> Finished:
        match command.argv[1:]:
            case ("--version",):
                return Finished(0, self.version.encode())
            case ("info", *_):
                return self.info if self.info.code else Finished(0, json.dumps(self._info()).encode())
            case ("images", *_):
                found = [
                    {"Id": image, "Names": [f"localhost/{'mine' if image == 'other' else f'aisb-{role}'}:1"]}
                    for role in ("sandbox", "gate")
                    for image in self.images
                    if f"label=aisb.role={role}" in command.argv and image in (role, f"bare {role}", "other")
                ]
                return Finished(0, json.dumps(found).encode())
            case ("unshare", "cat", "/proc/self/uid_map"):
                return self.uid_map
            case ("unshare", "unshare", "--net", *_):
                return self.nf_tables
            case ("run", *_, "bare sandbox", "/project/file"):
                return Finished(127)
            case ("run", *_, "sandbox", "/project/file"):
                self._touch(command.argv)
                return self.touch
            case ("run", *_, "gate", "-v"):
                return self.squid
        raise AssertionError(f"nobody scripted: {command.as_shell()}")

    def _info(self) -> dict[str, Any]:
        runtime = {"name": self.runtime_name, "path": self.runtime}
        host = {
            "serviceIsRemote": False,
            "security": {"rootless": self.rootless},
            "cgroupManager": self.manager,
            "ociRuntime": runtime,
        }
        return {"host": host, "store": {"graphDriverName": self.driver, "graphRoot": self.store}}

    def _touch(self, argv: tuple[str, ...]) -> None:
        mount = next(word for word in argv if word.startswith("--mount="))
        source = mount.partition("src=")[2].partition(",")[0]
        if self.touch.code == 0 and self.touched_by_another:
            give_away(f"{source}/file")
        elif self.touch.code == 0:
            open(f"{source}/file", "w").close()


def give_away(path: str) -> None:
    """A file that is not the caller's: only root can make one, and others can name one of root's."""
    if os.getuid() == 0:
        open(path, "w").close()
        os.chown(path, 1, 1)
    else:
        os.symlink("/", path)


class Fault(NamedTuple):
    """How a machine differs from one on which all is well, and what is found then."""

    check: str
    level: str
    evidence: str
    fix: str
    podman: Podman = Podman()
    files: Mapping[str, str | None] = {}
    environ: Mapping[str, str] = {}
    without: tuple[str, ...] = ()
    uids: tuple[int, int] = (1000, 1000)
    # Without the setuid bit.
    plain: tuple[str, ...] = ()
    # With file capabilities.
    capable: tuple[str, ...] = ()
    # In the user's own directory of settings.
    settings: Mapping[str, str] = {}


CONF = "/etc/containers/containers.conf"
VOLUMES = {"/etc/containers/containers.conf.d/x.conf": '[containers]\nvolumes = ["/srv:/srv"]\n'}
UNSHARE_FAILED = Podman(uid_map=Finished(125, b"", b"noise\ncannot clone: Operation not permitted\n"))
HYBRID = {
    "/proc/self/mountinfo": "1 1 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:2 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
    "3 2 0:3 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
}
# What podman says under AppArmor's restriction, and a sysctl's: it gets no further than that.
RESTRICTED = Podman(info=Finished(125, b"", b"noise\ncannot clone: Permission denied\n"))
CLOSED_BY = [
    (f"{name}={value}", {path: f"{was}\n"})
    for name, value, path, was in (
        ("kernel.unprivileged_userns_clone", 1, "/proc/sys/kernel/unprivileged_userns_clone", 0),
        ("user.max_user_namespaces", 15000, "/proc/sys/user/max_user_namespaces", 0),
        (
            "kernel.apparmor_restrict_unprivileged_userns",
            0,
            "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
            1,
        ),
    )
]
# What config.yaml says wrong, what is said of it, and what mends it.
VALUES = (
    ("allow: ['x y']", "'x y': this is not a host name", "write: example.com"),
    ("allow: ['@nope']", "no preset of that name", "aisb policy presets"),
    ("ca-bundle: /nowhere.pem", "/nowhere.pem: No such file", "PEM certificates"),
    ("customize: /nowhere", "/nowhere: No such file", "file of instructions"),
    ("env: [NOPE]", "NOPE: this variable is not set", "export NOPE="),
    ("gate-network: host", "gate-network 'host'", "podman network ls"),
    ("harness: codex", "harness 'codex'", "claude pi"),
    ("inject: [X]", "HOST[:Header]", "AI_API_TOKEN@"),
    ("mask: ['']", "there is nothing here", "a text"),
    ("memory: 12zz", "memory '12zz'", "8g"),
    ("mount: [/nowhere]", "mount /nowhere", "name what is there"),
    ("net: nnoe", "net 'nnoe'", "allow or none"),
    ("node: 21", "node '21'", "22 or 24"),
    ("proxy: foo", "proxy 'foo'", "https://HOST:PORT"),
    ("quiet: maybe", "quiet 'maybe'", "1 or 0"),
    ("timeout: 5y", "timeout '5y'", "90s"),
)
FAULTS = [
    *(Fault("configuration", FAIL, said, fix, settings={"config.yaml": f"{text}\n"}) for text, said, fix in VALUES),
    Fault("configuration", FAIL, "AISB_MEMORY '12zz'", "8g", environ={"AISB_MEMORY": "12zz"}),
    Fault("user", FAIL, "does not run as root", "as an ordinary user", uids=(0, 0)),
    Fault("user", FAIL, "does not run as root", "as an ordinary user", uids=(1000, 0)),
    Fault("home", FAIL, "HOME /nowhere is not a directory", "log in as a user", environ={"HOME": "/nowhere"}),
    Fault("runtime directory", FAIL, "XDG_RUNTIME_DIR is not set", "export XDG", environ={"XDG_RUNTIME_DIR": ""}),
    Fault("configuration", FAIL, "alow", "allow", settings={"config.yaml": "alow: [x.test]\n"}),
    Fault("configuration", FAIL, "config.yml is not a file that aisb reads", "name it", settings={"config.yml": ""}),
    Fault("podman", FAIL, "podman was not found", "install podman uidmap", without=("podman",)),
    Fault("podman", FAIL, "podman 3.4 is too old", "4.3 or newer", Podman(version="podman version 3.4.4")),
    *(Fault("podman", FAIL, "clone: Permission denied", fix, RESTRICTED, files=files) for fix, files in CLOSED_BY),
    Fault("podman", FAIL, "does not work here: podman info exited 1", "podman info", Podman(info=Finished(1))),
    Fault("podman", FAIL, "does not run rootless", "ordinary user", Podman(rootless=False)),
    Fault("podman's settings", FAIL, "volumes in /etc", "take it out: volumes in /etc", files=VOLUMES),
    Fault(
        "podman's settings",
        FAIL,
        "cannot be read",
        "mend it: /etc/containers/containers.conf",
        files={CONF: "volumes ="},
    ),
    *(
        Fault(
            "podman's settings",
            FAIL,
            f"nobody asked for: {key} in",
            key,
            files={CONF: f"[containers]\n{key} = {value}\n"},
        )
        for key, value in (
            ("devices", '["/dev/zero"]'),
            ("env_host", "true"),
            ("mounts", '["x"]'),
            ("privileged", "true"),
        )
    ),
    Fault(
        "podman's settings",
        WARN,
        "a newer podman will heed",
        "read_only",
        Podman(version="podman version 4.3.1"),
        {CONF: "[containers]\nread_only = true\n"},
    ),
    Fault("storage", WARN, "the driver is vfs", 'driver = "overlay"', Podman(driver="vfs")),
    Fault("storage", FAIL, "on nfs4, where it cannot", "graphroot", Podman(store="/with space/store")),
    # What lies deeper counts, wherever it stands; what is no line of a mount says nothing.
    Fault(
        "storage",
        FAIL,
        "on nfs4, where it cannot",
        "graphroot",
        Podman(store="/srv/store"),
        files={
            "/proc/self/mountinfo": "2 1 8:2 / /srv rw - nfs4 server:/ rw\nno mount\n1 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        },
    ),
    Fault("subordinate ids", FAIL, "65536 ids in /etc/subuid", "--add-subuids", files={"/etc/subuid": "x:1:65536\n"}),
    Fault("subordinate ids", FAIL, "65536 ids in /etc/subgid", "--add-subgids", files={"/etc/subgid": f"{USER}:1:9\n"}),
    Fault("id mappers", FAIL, "newgidmap was not found", "install uidmap", without=("newgidmap",)),
    Fault("id mappers", FAIL, "without a setuid bit and without capabilities", "chmod u+s", plain=("newuidmap",)),
    Fault("id mappers", FAIL, "newuidmap, /", "/newgidmap", plain=("newuidmap", "newgidmap")),
    Fault("user namespace", FAIL, "cannot clone: Operation not", "podman unshare true", UNSHARE_FAILED),
    *(Fault("user namespace", FAIL, "cannot clone", fix, UNSHARE_FAILED, files=files) for fix, files in CLOSED_BY),
    Fault(
        "user namespace", FAIL, "has 1 ids: it was made before", "migrate", Podman(uid_map=Finished(0, b"0 1000 1\n"))
    ),
    Fault("pause process", FAIL, "process 4712, which is sshd", "migrate", files={"RUN/libpod/tmp/pause.pid": "4712"}),
    Fault("runtime", FAIL, "runtime crun is not there", "install crun", Podman(runtime="/nowhere/crun")),
    Fault(
        "runtime",
        FAIL,
        "under hybrid control groups",
        "unified_cgroup_hierarchy=1",
        files=HYBRID,
    ),
    Fault(
        "control groups",
        WARN,
        "control groups of version 1",
        "unified_cgroup_hierarchy",
        files={"/sys/fs/cgroup/cgroup.controllers": None},
    ),
    Fault("control groups", WARN, "no systemd session", "enable-linger", Podman(manager="cgroupfs")),
    Fault(
        "control groups",
        WARN,
        "does not hand down to your user: cpu",
        "Delegate",
        files={
            f"/sys/fs/cgroup/user.slice/user-{USER}.slice/user@{USER}.service/cgroup.controllers": "memory pids\n",
        },
    ),
    Fault("network", FAIL, "neither pasta nor slirp4netns", "install passt", without=("pasta",)),
    Fault("nf_tables", FAIL, "of yours: Protocol not supported", "modprobe nf_tables", Podman(nf_tables=Finished(93))),
    Fault(
        "nf_tables",
        FAIL,
        "unshare failed",
        "modprobe nf_tables",
        Podman(nf_tables=Finished(1, b"", b"unshare: unshare failed\n")),
    ),
    Fault(
        "seccomp profile",
        FAIL,
        "profile was not found",
        "golang-github",
        files={"/usr/share/containers/seccomp.json": None},
    ),
    Fault("SELinux", WARN, "it is enforcing", "", files={"/sys/fs/selinux/enforce": "1"}),
    Fault("name servers", WARN, "names no server", "resolv.conf", files={"/etc/resolv.conf": "# none\n"}),
    Fault("disk space", FAIL, "0.0 GB free in /proc", "prune", Podman(store="/proc")),
    Fault("images", WARN, "not built yet: the first run", "aisb build", Podman(images=("sandbox",))),
    Fault("images", FAIL, "skopeo was not found", "install skopeo", Podman(images=()), without=("skopeo",)),
    Fault(
        "images",
        FAIL,
        "mmdebstrap was not found",
        "install mmdebstrap",
        Podman(images=()),
        environ={"AISB_BASE_IMAGE": "bootstrap:trixie"},
        without=("mmdebstrap",),
    ),
    Fault("base image", FAIL, "is not a number of days", "write: 7", environ={"AISB_BASE_TTL_DAYS": "soon"}),
    Fault("base image", WARN, "was last looked up", "--refresh-base", files={"PIN": '"time": "2026-01-01T00:00:00Z"'}),
    # Also where whoever keeps what is recorded has said so.
    Fault(
        "base image",
        WARN,
        "UNPINNED",
        "--refresh-base",
        environ={"AISB_BASE_TTL_DAYS": "-1"},
        files={"PIN": '"unpinned": true'},
    ),
    Fault("ownership", FAIL, "did not make a file: no space", "migrate", Podman(touch=Finished(1, b"", b"no space\n"))),
    Fault("ownership", FAIL, "made inside belongs to uid", "migrate", Podman(touched_by_another=True)),
    Fault("ownership", WARN, "not tried: there is no", "aisb build", Podman(images=("gate", "other"))),
    Fault("ownership", WARN, "not tried: no image of", "aisb build", Podman(images=("bare sandbox",))),
    Fault("squid", FAIL, "has no OpenSSL", "aisb build", Podman(squid=Finished(0, b"Squid Cache: Version 6.13\n"))),
    Fault("squid", FAIL, "OpenSSL: killed", "aisb build", Podman(squid=Finished(1, BUILT_WITH, b"killed\n"))),
    Fault("squid", WARN, "not tried", "aisb build", Podman(images=("sandbox",))),
]
MAPPERS = ("newuidmap", "newgidmap")
# What is not as on most machines, and no fault.
WELL = [
    Fault(
        "configuration",
        OK,
        "config.yaml says what a run can do",
        "",
        settings={"config.yaml": "allow: [x.test, '@npm']\n"},
    ),
    Fault("configuration", OK, "the defaults hold", ""),
    Fault("id mappers", OK, "may map ids", "", plain=MAPPERS, capable=MAPPERS),
    Fault("home", OK, "", "", environ={"HOME": ""}),
    Fault("pause process", OK, "process 4711 (catatonit)", "", files={"RUN/libpod/tmp/pause.pid": "4711\n"}),
    Fault("pause process", OK, "none is kept", "", files={"RUN/libpod/tmp/pause.pid": "../proc/4712"}),
    Fault("runtime", OK, "runc (/bin/sh)", "", Podman(runtime_name="runc"), HYBRID),
    Fault("SELinux", OK, "permissive", "", files={"/sys/fs/selinux/enforce": "0"}),
    Fault("SELinux", OK, "not there", ""),
    Fault("disk space", OK, "GB free in /nowhere", "", Podman(store="/nowhere")),
    Fault("base image", OK, "looked up", "", files={"PIN": '"time": "NOW"'}),
]
# Python's own list of places is no value of a machine: tests/e2e/test_doctor.py.
FOR_REAL = {"python"}


# vfs_cap_data of linux/capability.h: version 2, effective, CAP_SETUID alone.
MAKE_CAPABLE = """
import os, struct, sys
os.setxattr(sys.argv[1], "security.capability", struct.pack("<5I", 0x02000001, 1 << 7, 0, 0, 0))
"""


class Place(NamedTuple):
    """Where a machine's files lie. A runtime directory has a short path."""

    root: Path
    run: Path


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="run-") as run:
        yield Place(tmp_path, Path(run))


def machine(place: Place, fault: Fault) -> Machine:
    """A machine on which all is well but for the fault."""
    tmp_path, run = place
    home = tmp_path / "home"
    home.mkdir()
    environ = {"HOME": str(home), "XDG_RUNTIME_DIR": str(run), "PATH": f"{tmp_path}/bin", **fault.environ}
    found = Machine(environ, fault.podman, need_configuration, f"{tmp_path}/root", f"{tmp_path}/bin", fault.uids)
    files = {**FILES, **fault.files}
    for name, text in fault.settings.items():
        write(f"{home}/.config/ai-sandbox/{name}", text)
    record = files.pop("PIN", None)
    if record:
        base = parse_base_image(DEFAULT_BASE)
        pin = PinnedBase(base.text, f"{base.reference}@{DIGEST}", DIGEST)
        fields = json.loads(f"{{{record.replace('NOW', datetime.now(UTC).strftime('%Y-%m-%dT%H:%M:%SZ'))}}}")
        write_base_pin(found.directories.cache, base, pin._replace(**fields))
    for path, text in files.items():
        if text is not None:
            write(f"{tmp_path}/root{path.replace('RUN', str(run))}", text)
    for name in set(PROGRAMS) - set(fault.without):
        write(f"{tmp_path}/bin/{name}", "").chmod(0o755 | (0 if name in fault.plain else stat.S_ISUID))
    for name in fault.capable:
        # As an ordinary user can: for its own namespace.
        subprocess.run(["unshare", "-r", sys.executable, "-c", MAKE_CAPABLE, f"{tmp_path}/bin/{name}"], check=True)
    return found


def write(path: str, text: str) -> Path:
    """A file, and the directories above it."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def look(name: str, found: Machine) -> Finding:
    """What one check finds there."""
    (finding,) = examine(found, tuple(check for check in CHECKS if check.name == name))
    return finding


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.check}: {fault.evidence}")
def test_a_fault_is_found_and_what_mends_it_is_said(place: Place, fault: Fault) -> None:
    """Each of C32 to C40 that a machine can have among them. (C34, C66)"""
    found = look(fault.check, machine(place, fault))

    assert (found.check, found.level) == (fault.check, fault.level)
    assert fault.evidence in found.evidence
    assert fault.fix in found.fix
    assert bool(fault.fix) == bool(found.fix)


@pytest.mark.parametrize("fault", WELL, ids=lambda fault: f"{fault.check}: {fault.evidence}")
def test_what_is_no_fault_is_green(place: Place, fault: Fault) -> None:
    found = look(fault.check, machine(place, fault))

    assert (found.level, fault.evidence in found.evidence, found.fix) == (OK, True, ""), found


@pytest.mark.parametrize(
    ("free", "is_built", "level", "fix"),
    [
        (199 << 20, True, FAIL, "podman system df, then: podman image prune"),
        (200 << 20, True, OK, ""),
        (200 << 20, False, WARN, "make room"),
        (6 << 30, False, OK, ""),
    ],
)
def test_room_is_what_a_run_takes_and_a_build_where_one_is_to_come(
    free: int, is_built: bool, level: str, fix: str
) -> None:
    found = room_found(free, "/store", is_built=is_built)

    assert (found.level, found.evidence.startswith(f"{free / (1 << 30):.1f} GB free in /store"), found.fix) == (
        level,
        True,
        fix,
    )


def test_where_all_is_well_each_check_is_green(place: Place) -> None:
    """C66."""
    found = examine(machine(place, Fault("", "", "", "")), tuple(c for c in CHECKS if c.name not in FOR_REAL))

    assert [(item.check, item.level, item.evidence) for item in found if item.level != OK or item.fix] == []


@pytest.mark.parametrize("images", [("bare sandbox", "sandbox"), ("sandbox", "bare sandbox")], ids=["newest", "older"])
def test_an_image_that_holds_very_little_says_nothing_of_the_machine(place: Place, images: tuple[str, ...]) -> None:
    found = look("ownership", machine(place, Fault("", "", "", "", Podman(images=images))))

    assert found == Finding("ownership", OK, "a file that is made inside is yours")


def test_each_check_has_a_fault() -> None:
    assert {check.name for check in CHECKS} == {fault.check for fault in FAULTS} | FOR_REAL


def test_the_documentation_names_the_checks_in_their_order() -> None:
    text = (Path(__file__).parents[2] / "docs/doctor.md").read_text()

    assert re.findall(r"^\| ([a-zA-Z_' ]+) \|", text, re.MULTILINE) == ["check", *(check.name for check in CHECKS)]


def test_a_check_whose_ground_is_missing_cannot_tell(place: Place) -> None:
    """One red line for one fault."""
    found = examine(machine(place, Fault("", "", "", "", without=("podman",))))

    needing = {check.name for check in CHECKS if "podman" in check.needs}
    assert {item.check for item in found if item.evidence == "not known: see podman"} == needing
    assert {item.check for item in found if item.level == FAIL} - FOR_REAL == {"podman"}


def test_what_cannot_tell_names_what_is_red_and_not_what_cannot_tell_either(place: Place) -> None:
    found = {item.check: item for item in examine(machine(place, Fault("", "", "", "", uids=(0, 0))))}

    assert {found[name].evidence for name in ("podman", "storage", "nf_tables", "squid")} == {"not known: see user"}


FOUND = [Finding("one", OK, "well"), Finding("another", WARN, "so so\x1b[2J", "do this\nand that")]
RED = Finding("third", FAIL, "bad", "do it")


@pytest.mark.parametrize(
    ("findings", "strict", "code"),
    [(FOUND[:1], True, 0), (FOUND, False, 0), (FOUND, True, 69), ([*FOUND, RED], False, 69), ([RED], True, 69)],
)
def test_the_exit_code_says_whether_a_run_would_be_refused(findings: list[Finding], strict: bool, code: int) -> None:
    assert exit_code(findings, strict=strict) == code


def test_it_is_said_in_a_line_a_check_and_what_to_do_below() -> None:
    assert doctor_lines(FOUND, colour=False) == [
        "ok    one      well",
        "warn  another  so so\\x1b[2J",
        "               -> do this",
        "               -> and that",
        "a run will work here and be enforced; see the warnings",
    ]
    assert doctor_lines([RED], colour=True) == [
        "\x1b[31mfail\x1b[0m  third  bad",
        "             -> do it",
        "a run would be refused here",
    ]


def test_programs_are_told_all_of_it() -> None:
    assert as_json([*FOUND[:1], RED]) == {
        "verdict": "fail",
        "checks": [
            {"check": "one", "level": "ok", "evidence": "well", "fix": ""},
            {"check": "third", "level": "fail", "evidence": "bad", "fix": "do it"},
        ],
    }
