"""A build from beginning to end, with podman as a script of answers."""

from __future__ import annotations

import os
import stat
import threading
from typing import TYPE_CHECKING

import pytest

from aisb.domain.base_image import DEFAULT_BASE, parse_base_image
from aisb.domain.certificates import find_certificates
from aisb.domain.harnesses import PI
from aisb.domain.images import ImageSpec
from aisb.domain.layers import Setting
from aisb.domain.wanted import Wanted
from aisb.effects.build import BuildRequest, build_images, same_build
from aisb.effects.build_log import BuildLog
from aisb.effects.image_inputs import known_inputs, read_inputs
from aisb.effects.lending import lend, read_lent
from aisb.effects.make_plan import need_images
from aisb.effects.own_folder import own_folder
from aisb.effects.pins import write_base_pin, write_node_pin
from aisb.effects.plan import Question, forget_image, note_images
from aisb.effects.process import Finished
from aisb.effects.progress import Silence
from aisb.effects.workshop import alone, sha256_of
from aisb.errors import CommandError, Unavailable, UsageError
from aisb.render.images import image_names
from tests.fakes import FakeRunner, said
from tests.image_values import BOOTSTRAPPED, CERTIFICATE, NODE_FROM_NPM
from tests.image_world import Heard, make_shop

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from aisb.domain.images import ImageInputs
    from aisb.effects.process import Command
    from aisb.effects.workshop import Workshop

BASE = parse_base_image("bootstrap:trixie")
SPEC = ImageSpec(BASE, "linux/amd64", ("zsh",))
YES, NO = said(""), said("", code=1)
INSPECTED = said(f'{{"digest": "sha256:x", "layers": ["{BOOTSTRAPPED.digest}"]}}')
REGISTRIES = said('{"apt": [], "npm": ["exact:npm.test"], "pypi": []}\n')
BUILT = said("aisb-step: packages\naisb-step: node\nSTEP 3/9\n")


class Podman(FakeRunner):
    """Looks at the context while a build runs, writes the id that podman would, then answers like the others."""

    def __init__(self, *answers: Finished) -> None:
        super().__init__(*answers)
        self.contexts: list[dict[str, str]] = []
        self.times: list[dict[str, float]] = []

    def run(self, command: Command) -> Finished:
        """See `Runner.run`. apt-config may be on the machine or not: it has nothing to say here."""
        if "build" in command.argv and not os.path.exists(f"{command.argv[-1]}/build"):
            with open(command.argv[command.argv.index("--iidfile") + 1], "w", encoding="ascii") as file:
                file.write("sha256:labelled")
        return said("") if command.argv[0].endswith("apt-config") else super().run(command)

    def stream(self, command: Command, on_line: Callable[[str], None], on_tick: Callable[[], None]) -> int:
        """See `Runner.stream`."""
        if "build" in command.argv:
            self.contexts.append(listing(command.argv[-1]))
            self.times.append({path: os.stat(f"{command.argv[-1]}/{path}").st_mtime for path in self.contexts[-1]})
            with open(command.argv[command.argv.index("--iidfile") + 1], "w", encoding="ascii") as file:
                file.write(f"sha256:{len(self.contexts)}")
        return super().stream(command, on_line, on_tick)


def listing(top: str) -> dict[str, str]:
    """Every file and folder below `top` with its mode."""
    found = {}
    for folder, _, files in os.walk(top):
        for path in (folder, *(f"{folder}/{name}" for name in files)):
            found[os.path.relpath(path, top)] = f"{stat.S_IMODE(os.stat(path).st_mode):04o}"
    return found


def prepare(shop: Workshop) -> ImageInputs:
    """Pins and archives on record, as after an earlier build."""
    for name, _ in NODE_FROM_NPM.archives:
        with open(shop.archive(name), "wb") as file:
            file.write(name.encode())
    pin = NODE_FROM_NPM._replace(
        archives=tuple((name, sha256_of(shop.archive(name))) for name, _ in NODE_FROM_NPM.archives)
    )
    write_base_pin(shop.directories.cache, BASE, BOOTSTRAPPED)
    write_node_pin(shop.directories.cache, "linux/amd64", pin)
    return read_inputs(SPEC, BOOTSTRAPPED, pin)


def verbs(runner: FakeRunner) -> list[str]:
    """The podman verbs that were called, with what they were called on."""
    return ["build" if "build" in argv else f"{argv[1]} {argv[-1]}" for argv in runner.argvs]


def test_what_is_there_is_not_built(tmp_path: Path) -> None:
    """Two questions to podman's store and nothing else: no network, no lock, no context."""
    runner = Podman(YES, YES)
    shop = make_shop(tmp_path, runner)
    names = image_names(prepare(shop))

    assert build_images(BuildRequest(SPEC), shop) == names
    assert runner.argvs == [("/usr/bin/podman", "image", "exists", name) for name in names]


def test_a_new_project_asks_nothing_about_images_that_were_there(tmp_path: Path) -> None:
    """One look serves all projects; where an image is gone, the run that misses it forgets it, and all look again."""
    runner = Podman(YES, YES, YES, YES)
    shop = make_shop(tmp_path, runner)
    cache = shop.directories.cache
    names = image_names(prepare(shop))
    wanted = Wanted("allow", (), (), (Setting("zsh", "--install"),), BASE.text, "", "", 600, harness=PI)
    question = Question(wanted, "", "/p", "home", "user", "", "pasta", (), "", "")

    looked = need_images(question, shop)
    note_images(cache, names)
    known = need_images(question._replace(project="/other"), shop)
    forget_image(cache, names.gate)
    again = need_images(question, shop)

    assert (looked, known, again) == (names, names, names)
    assert [argv[-1] for argv in runner.argvs] == [*names, *names]


def test_what_is_missing_is_built_tried_and_only_then_named(tmp_path: Path) -> None:
    """Sandbox and gate, on one base; podman is not asked for more than that."""
    heard = Heard()
    runner = Podman(NO, YES, INSPECTED, NO, BUILT, REGISTRIES, YES, YES, YES, NO, BUILT, YES, YES)
    shop = make_shop(tmp_path, runner, report=heard)
    names = image_names(prepare(shop))

    assert build_images(BuildRequest(SPEC), shop) == names
    assert verbs(runner) == [
        f"image {names.sandbox}",
        f"image {BOOTSTRAPPED.source}",
        f"image {BOOTSTRAPPED.source}",
        f"image {names.sandbox}",
        "build",
        "run /usr/libexec/aisb/gate/registries.py",
        "build",
        "run sha256:labelled",
        f"tag {names.sandbox}",
        f"image {names.gate}",
        "build",
        "run sha256:2",
        f"tag {names.gate}",
    ]
    assert heard.lines == [
        *("building the sandbox image ...", "packages ...", "node ..."),
        "a first run of the sandbox image, for podman prepares it once ...",
        *("building the gate image ...", "packages ...", "node ..."),
        "a first run of the gate image, for podman prepares it once ...",
    ]
    assert os.listdir(tmp_path / "cache" / "contexts") == []


def test_the_context_is_the_listed_files(tmp_path: Path) -> None:
    """Nothing else of the tree, with modes that no umask changes."""
    before = os.umask(0o077)
    try:
        runner = Podman(NO, YES, INSPECTED, NO, BUILT, REGISTRIES, YES, YES, YES, NO, BUILT, YES, YES)
        shop = make_shop(tmp_path, runner)
        inputs = prepare(shop)
        build_images(BuildRequest(SPEC), shop)
    finally:
        os.umask(before)

    sandbox = {path: mode for path, mode in runner.contexts[0].items() if path.startswith("programs")}
    assert sandbox == {
        "programs": "0755",
        "programs/aisb": "0755",
        "programs/aisb/domain": "0755",
        "programs/gate": "0755",
        **{file.path: f"{file.mode:04o}" for file in inputs.sandbox_files if file.path.startswith("programs")},
    }
    archives = {f"archives/{name}" for name, _ in NODE_FROM_NPM.archives}
    others = {".", "Containerfile", "build", "build/held", "build/setup", "archives", *archives}
    assert set(runner.contexts[0]) - set(sandbox) == others


def test_two_contexts_are_alike_to_the_second(tmp_path: Path) -> None:
    """podman 5 counts the times of what a step has mounted: a new one would make every layer anew."""
    runner = Podman(NO, YES, INSPECTED, NO, BUILT, REGISTRIES, YES, YES, YES, NO, BUILT, YES, YES)
    shop = make_shop(tmp_path, runner)
    prepare(shop)

    build_images(BuildRequest(SPEC), shop)

    assert [{time for path, time in times.items() if path != "."} for times in runner.times] == [{946684800.0}] * 2


def test_a_build_that_fails_is_explained(tmp_path: Path) -> None:
    """The cause in one line, the last twenty lines that are not podman's or ours, where the rest is, what to do."""
    output = (
        "STEP 1/4: FROM x\naisb-step: installing zsh\n"
        + "".join(f"line {number}\n" for number in range(30))
        + "aisb-fail: apt could not install: zsh\n"
        + 'Error: building at STEP "RUN /build/setup": while running runtime: exit status 1\n'
    )
    runner = Podman(NO, YES, INSPECTED, NO, said(output, code=1))
    shop = make_shop(tmp_path, runner)
    prepare(shop)

    with pytest.raises(Unavailable) as caught:
        build_images(BuildRequest(SPEC), shop)

    (log,) = os.listdir(tmp_path / "state" / "builds")
    assert caught.value.message == "the sandbox image could not be built: apt could not install: zsh"
    assert caught.value.hint.splitlines() == [
        *(f"| line {number}" for number in range(10, 30)),
        f"the whole log: {tmp_path}/state/builds/{log}",
        "where a download failed, look at the network and the mirrors; then try again:",
        f"  aisb build --base-image {SPEC.base.text} --install zsh",
    ]
    with open(tmp_path / "state" / "builds" / log, encoding="utf-8") as file:
        assert file.read().splitlines()[1:] == output.splitlines()


def test_an_image_that_does_not_start_gets_no_name(tmp_path: Path) -> None:
    """Whoever finds the name finds an image that works."""
    runner = Podman(NO, YES, INSPECTED, NO, BUILT, REGISTRIES, YES, Finished(code=126, stderr=b"exec format error"))
    shop = make_shop(tmp_path, runner)
    prepare(shop)

    with pytest.raises(CommandError, match="exited 126"):
        build_images(BuildRequest(SPEC), shop)

    assert "tag" not in {argv[1] for argv in runner.argvs}


def test_only_the_newest_logs_are_kept(tmp_path: Path) -> None:
    """Twenty, the new one among them."""
    runner = Podman(NO, YES, INSPECTED, NO, said("", code=1))
    shop = make_shop(tmp_path, runner)
    prepare(shop)
    folder = tmp_path / "state" / "builds"
    folder.mkdir()
    for number in range(30):
        (folder / f"20200101T0000{number:02}Z-x.log").touch()

    with pytest.raises(Unavailable):
        build_images(BuildRequest(SPEC), shop)

    names = sorted(os.listdir(folder))
    assert (len(names), names[0]) == (20, "20200101T000011Z-x.log")


def test_a_log_is_bounded_and_ends_with_what_was_said_last(tmp_path: Path) -> None:
    """A step that never stops talking costs no more of the disk; why it failed is there all the same."""
    log = BuildLog(Silence(), f"{tmp_path}/log", largest=100)
    for number in range(1000):
        log.line(f"line {number:04}")
    log.line("x" * 100_000)
    log.close()

    lines = (tmp_path / "log").read_text().splitlines()
    assert lines == [
        *(f"line {number:04}" for number in range(10)),
        "... the log is full here; its last lines:",
        *(f"line {number:04}" for number in range(981, 1000)),
        "x" * 4096,
    ]


def test_who_wants_to_know_is_told_where_the_log_of_a_build_is(tmp_path: Path) -> None:
    """Of one that failed too."""
    shop = make_shop(tmp_path, Podman(NO, YES, INSPECTED, NO, said("", code=1)))._replace(logs=[])
    prepare(shop)

    with pytest.raises(Unavailable):
        build_images(BuildRequest(SPEC), shop)

    (name,) = os.listdir(tmp_path / "state" / "builds")
    assert shop.logs == [f"{tmp_path}/state/builds/{name}"]


def test_inputs_are_known_once_both_pins_are(tmp_path: Path) -> None:
    """A preview reads records: no network, no podman."""
    shop = make_shop(tmp_path)
    before = known_inputs(shop.directories.cache, SPEC)
    prepare(shop)
    after = known_inputs(shop.directories.cache, SPEC)

    assert before is None
    assert after is not None
    assert after.base == BOOTSTRAPPED


def test_secrets_live_as_long_as_a_build(tmp_path: Path) -> None:
    """In the runtime directory, below a folder that is the caller's alone; empty ones are not there at all."""
    shop = make_shop(tmp_path)
    bundle = tmp_path / "company.pem"
    bundle.write_text(f"the company's, by J\u00f6rg\n{CERTIFICATE}")
    home = tmp_path / "home"
    home.mkdir()
    (home / ".npmrc").write_text("registry=https://npm.example/\n//npm.example/:_authToken=secret\n")
    lent = read_lent(FakeRunner(said("")), {"HOME": str(home)}, str(bundle))._replace(sources=(), apt_settings="")

    with lend(shop, lent) as secrets:
        held = dict(secrets)
        assert sorted(held) == ["aisb-ca", "aisb-npmrc"]
        with open(held["aisb-npmrc"], encoding="utf-8") as file:
            assert "//npm.example/:_authToken=secret\n" in file.read()
        with open(held["aisb-ca"], encoding="utf-8") as file:
            assert file.read().endswith(f"{CERTIFICATE}\n")
        assert stat.S_IMODE(os.stat(os.path.dirname(held["aisb-ca"])).st_mode) == 0o700

    assert os.listdir(tmp_path / "runtime" / "build") == []


def test_a_bundle_without_certificates_is_refused(tmp_path: Path) -> None:
    """A key or a typing error would otherwise show as a failing download."""
    (tmp_path / "x.pem").write_text("no certificate\n")

    with pytest.raises(UsageError, match="there are no PEM certificates in it"):
        read_lent(FakeRunner(said("")), {"HOME": "/nonexistent"}, str(tmp_path / "x.pem"))


def test_a_variable_that_begins_in_a_directory_that_is_gone_names_no_certificates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    (tmp_path / "ca.pem").write_text(CERTIFICATE)
    environ = {"HOME": "/nonexistent", "SSL_CERT_FILE": "ca.pem"}

    lent = read_lent(FakeRunner(said("")), environ, f"{tmp_path}/ca.pem")

    assert lent.certificates.endswith(f"{CERTIFICATE}\n")


def test_what_a_killed_build_left_is_removed(tmp_path: Path) -> None:
    """A folder that nobody holds, once it is a minute old; a held one and a new one stay."""
    parent = str(tmp_path / "contexts")
    with own_folder(parent) as held:
        for name in ("old", "new"):
            os.makedirs(f"{parent}/{name}/build")
        os.utime(f"{parent}/old", (0, 0))
        os.utime(held, (0, 0))
        with own_folder(parent) as another:
            assert sorted(os.listdir(parent)) == sorted([os.path.basename(held), os.path.basename(another), "new"])


def test_the_same_thing_is_not_done_twice_at_once(tmp_path: Path) -> None:
    """The second one says what it waits for, once, and goes on when the first is over."""
    waits = threading.Event()

    class Waiting(Heard):
        def begin(self, text: str) -> None:
            super().begin(text)
            waits.set()

    heard = Waiting()
    first, second = make_shop(tmp_path), make_shop(tmp_path, report=heard)
    order = []

    def wait_and_build() -> None:
        with alone(second, "x", "waiting for another build"):
            order.append("second")

    with alone(first, "x", "never said"):
        thread = threading.Thread(target=wait_and_build)
        thread.start()
        assert waits.wait(timeout=60)
        order.append("first")
    thread.join()

    assert (order, heard.lines) == (["first", "second"], ["waiting for another build ..."])


def test_certificates_are_lent_each_once_and_without_comments() -> None:
    """A comment in some encoding would make TLS libraries refuse the whole bundle."""
    other = CERTIFICATE.replace("b3Vycw==", "dGhlaXJz")
    texts = [f"# caf\u00e9\n{CERTIFICATE}\n\n{other}", f"{other}\n", "-----BEGIN PRIVATE KEY-----\nx\n"]

    assert find_certificates(texts) == f"{CERTIFICATE}\n{other}\n"


def test_a_registry_is_asked_with_the_users_certificates_and_credentials(tmp_path: Path) -> None:
    """Which a build's steps do not get."""
    shop = make_shop(tmp_path, environ={"SSL_CERT_FILE": "/x.pem", "REGISTRY_AUTH_FILE": "/auth.json", "TOKEN": "x"})

    assert (shop.network, shop.proxies) == ({"SSL_CERT_FILE": "/x.pem", "REGISTRY_AUTH_FILE": "/auth.json"}, {})


def test_proxies_reach_a_build_by_its_environment_alone(tmp_path: Path) -> None:
    """Both spellings; nothing else of the user's variables. podman keeps them out of the image. (B31)"""
    environ = {"https_proxy": "http://user:secret@proxy.example:1", "NO_PROXY": "a.example", "AI_API_TOKEN": "x"}

    assert make_shop(tmp_path, environ=environ).proxies == {
        "https_proxy": "http://user:secret@proxy.example:1",
        "NO_PROXY": "a.example",
    }


@pytest.mark.parametrize(
    ("spec", "ca_bundle", "line"),
    [
        pytest.param(SPEC._replace(base=parse_base_image(DEFAULT_BASE), install=()), "", "aisb build", id="nothing"),
        pytest.param(
            SPEC._replace(install=("jq=1.7*", "zsh"), node_origin="npm", node_line="24"),
            "/etc/our ca.pem",
            f"aisb build --base-image {SPEC.base.text} --install 'jq=1.7*' --install zsh "
            "--ca-bundle '/etc/our ca.pem' --node 24 --node-source npm",
            id="everything",
        ),
    ],
)
def test_the_line_that_tries_a_build_again_asks_for_the_same(spec: ImageSpec, ca_bundle: str, line: str) -> None:
    assert same_build(BuildRequest(spec, ca_bundle)) == line
