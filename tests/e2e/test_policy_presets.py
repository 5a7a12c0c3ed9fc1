"""Presets: the clients that need them work with them, what they stand for is shown, and nothing beside it is open."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from aisb.domain.presets import PRESETS
from tests.e2e.legs import curl, inside, needs_sinks, outside, requested, run

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

pytestmark = needs_sinks


def npms_registry(lab: Lab) -> str:
    """The host that the image's npm is configured to use, as `aisb policy presets` shows it."""
    shown = lab.run("aisb policy presets npm")
    assert shown.code == 0, shown.errors
    (entry,) = [line.partition("=")[2] for line in shown.text.splitlines() if line.startswith("npm.0=")]
    return entry.removeprefix("exact:")


def test_npm_works_with_its_preset_and_not_without(lab: Lab) -> None:
    """What @npm stands for is what the image's own npm asks; nothing below that name, and no other host."""
    host = npms_registry(lab)
    lab.names(f"{host} A 203.0.113.10\n*.{host} A 203.0.113.10\n")
    npm = {
        "npm": run(
            "npm", "view", "some-package", "--fetch-retries=0", "--fetch-timeout=5000", "--update-notifier=false"
        )
    }
    below = {"below": curl(f"https://x.{host}/"), "another": curl("https://evil.test/")}

    assert set(outside(lab, below | {"itself": curl(f"https://{host}/")}).values()) == {
        "hello from allowed.test",
        "hello from evil.test",
    }
    inside(lab, "--allow llm.test", npm)
    assert requested(lab) == []
    result = inside(lab, "--allow @npm", npm | below)

    # The server has no such package; it was asked for it.
    assert requested(lab) == [f"allowed.test GET https://{host}/some-package"]
    assert {result.said[leg] for leg in below} == {"403"}
    printed = lab.run("aisb --allow @npm --print-policy").text.splitlines()
    assert [line for line in printed if line.startswith("allow.")] == [
        f"allow.0=exact:{host}",
        "allow.0.origin=--allow @npm",
        "allow.0.ports=80,443",
    ]


def test_what_a_service_is_reached_at_is_in_its_preset(lab: Lab) -> None:
    """Each entry can be reached, and the name above or below it cannot."""
    hosts = [item.entry.removeprefix("exact:") for items in PRESETS.values() for item in items]
    lab.names("".join(f"{host} A 203.0.113.10\n*.{host} A 203.0.113.10\n" for host in hosts))
    reached = {host: curl(f"https://{host}/") for host in hosts}
    below = {f"x.{host}": curl(f"https://x.{host}/") for host in hosts}

    assert set(outside(lab, reached | below).values()) == {"hello from allowed.test"}
    result = inside(lab, " ".join(f"--allow @{name}" for name in PRESETS), reached | below)

    assert result.said == dict.fromkeys(reached, "hello from allowed.test") | dict.fromkeys(below, "403")


# A company's image: its own mirrors, one at a port and one of them an address, and a pip that is there.
MIRRORS = """
printf 'deb [trusted=yes] http://apt.corp.test/debian stable main\\ndeb [trusted=yes] https://10.0.0.5:8081/x stable main\\n' \
    >/etc/apt/sources.list
printf 'registry=https://user@npm.corp.test:4873/\\n@corp:registry=https://scope.corp.test/\\n' >"$(npm config get globalconfig)"
mkdir -p /usr/lib/python3/dist-packages/pip
cat >/usr/lib/python3/dist-packages/pip/__main__.py <<'END'
print("global.extra-index-url='https://more.corp.test/a https://more.corp.test/b'")
print("global.index-url='https://pip.corp.test/simple'")
END
exec python3 -I -S /usr/libexec/aisb/gate/registries.py
"""


def test_a_companys_mirrors_are_read_off_the_image(lab: Lab) -> None:
    """By the tools' own words, in the container in which a build asks them."""
    image = "$(aisb --net none --dry-run -- true | grep -o 'localhost/aisb-sandbox:[0-9a-f]*')"
    options = "--rm -i --pull=never --network none --user 0 --cap-drop all --entrypoint sh"

    told = lab.run(f"podman run {options} {image} -s", stdin=MIRRORS.encode())
    label = lab.run(f"podman image inspect --format '{{{{index .Labels \"aisb.registries\"}}}}' {image}")

    assert json.loads(told.text) == {
        "apt": ["10.0.0.5:8081", "exact:apt.corp.test"],
        "npm": ["exact:npm.corp.test:4873", "exact:scope.corp.test"],
        "pypi": ["exact:more.corp.test", "exact:pip.corp.test"],
    }, told.errors
    assert sorted(json.loads(label.text)) == ["apt", "npm", "pypi"]


def test_a_preset_that_is_not_known_yet_is_an_error_that_says_how(lab: Lab) -> None:
    """An unknown name is 2 with the nearest; one of an image that is not built is 69 where nothing may be built."""
    unknown = lab.run("aisb --allow @npn -- true")
    not_built = lab.run("XDG_CACHE_HOME=$HOME/other aisb policy check evil.test --allow @npm")
    enough = lab.run("XDG_CACHE_HOME=$HOME/other aisb policy check evil.test --allow @npm,evil.test")

    assert (unknown.code, unknown.errors.splitlines()[-1]) == (2, "aisb:   write: @npm")
    assert (not_built.code, not_built.text, "aisb build" in not_built.errors) == (69, "", True)
    assert (enough.code, "rule=evil.test\n" in enough.text) == (0, True)
