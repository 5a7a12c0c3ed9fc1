"""What a build borrows of the host's apt and npm configuration, and what it does not."""

from __future__ import annotations

from aisb.domain.apt import AptSource, lent_settings, parse_sources, render_sources, render_suite
from aisb.domain.npmrc import certificate_files, merge_npmrc

DEB822 = """\
Types: deb
# http://snapshot.example/archive
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates bookworm-backports
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb deb-src
URIs: http://mirror.example/security
Suites:
  bookworm-security
Components: main

Types: deb
URIs: http://tool.example/apt
Suites: bookworm
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mQ==

Enabled: no
Types: deb
URIs: http://other.example/debian
Suites: bookworm
Components: main
"""

ONE_LINE = """\
# deb http://commented.example/debian bookworm main
deb [arch=amd64 trusted=yes] https://user:secret@mirror.example/debian bookworm main non-free  # ours
deb-src http://mirror.example/debian bookworm main
deb http://mirror.example/debian stable-updates main
deb http://tool.example/apt bookworm stable
deb [signed-by=/usr/share/keyrings/tool.gpg] http://tool.example/apt bookworm main
deb cdrom:[Debian]/ bookworm main
deb file:/srv/debian bookworm main
deb http://vendor.example/apt vendor-bookworm main
"""


def no_lists(_path: str) -> str:
    raise AssertionError("there is no mirror list in this test")


def test_the_distributions_archive_is_found_in_both_formats() -> None:
    """Other people's repositories, backports, disks and what is switched off are left out; an alias counts."""
    files = [("debian.sources", DEB822), ("sources.list", ONE_LINE)]

    assert parse_sources(files, "bookworm", no_lists) == (
        AptSource("http://mirror.example/debian", ("@suite@", "@suite@-updates"), ("main", "contrib")),
        AptSource("http://mirror.example/security", ("@suite@-security",), ("main",)),
        AptSource("https://user:secret@mirror.example/debian", ("@suite@",), ("main", "non-free"), trusted=True),
        AptSource("http://mirror.example/debian", ("@suite@-updates",), ("main",)),
    )


def test_a_list_of_mirrors_stands_for_its_first() -> None:
    """Debian's images for clouds name their mirrors in a file."""
    text = "Types: deb\nURIs: mirror+file:///etc/apt/mirrors/debian.list\nSuites: trixie\nComponents: main\n"
    lists = {"/etc/apt/mirrors/debian.list": "https://mirror.example/debian\nhttps://second.example/debian\n"}

    found = parse_sources([("debian.sources", text)], "trixie", lists.__getitem__)

    assert found == (AptSource("https://mirror.example/debian", ("@suite@",), ("main",)),)


def test_sources_are_rendered_for_a_suite_that_is_not_known_yet() -> None:
    """The first line says whose they are: a Debian mirror serves no Ubuntu base."""
    sources = (
        AptSource("http://a.example/debian", ("@suite@", "@suite@-updates"), ("main", "contrib")),
        AptSource("http://b.example/debian", ("@suite@",), ("main",), trusted=True),
    )

    assert render_sources(sources, "debian") == (
        "# debian\n"
        "\nTypes: deb\nURIs: http://a.example/debian\nSuites: @suite@ @suite@-updates\nComponents: main contrib\n"
        "\nTypes: deb\nURIs: http://b.example/debian\nSuites: @suite@\nComponents: main\nTrusted: yes\n"
    )
    assert render_sources((), "debian") == ""


def test_sources_are_rendered_for_a_suite() -> None:
    """mmdebstrap gets the main component of one release."""
    sources = (
        AptSource("http://a.example/debian", ("@suite@", "@suite@-updates"), ("main", "contrib")),
        AptSource("http://b.example/local", ("@suite@",), ("main",), trusted=True),
    )

    assert render_suite(sources, "trixie") == (
        "deb http://a.example/debian trixie main\n"
        "deb http://a.example/debian trixie-updates main\n"
        "deb [trusted=yes] http://b.example/local trixie main\n"
    )


def test_only_what_fetching_needs_is_taken_of_apts_settings() -> None:
    """Nothing that runs a program, and nothing that switches signatures off."""
    dump = (
        'Acquire::http::Proxy "http://user:secret@proxy.example:3128/";\n'
        'Acquire::http::Proxy::mirror.example "DIRECT";\n'
        'Acquire::https::Proxy "http://proxy.example:3128/";\n'
        'Acquire::http::Proxy-Auto-Detect "/usr/local/bin/find-proxy";\n'
        'Acquire::Check-Valid-Until "false";\n'
        'Acquire::AllowInsecureRepositories "true";\n'
        'Acquire::https::Verify-Peer "false";\n'
        'APT::Update::Pre-Invoke:: "touch /tmp/x";\n'
        'DPkg::Post-Invoke:: "x; Acquire::Check-Date "false"";\n'
    )

    assert lent_settings(dump) == (
        'Acquire::http::Proxy "http://user:secret@proxy.example:3128/";\n'
        'Acquire::http::Proxy::mirror.example "DIRECT";\n'
        'Acquire::https::Proxy "http://proxy.example:3128/";\n'
        'Acquire::Check-Valid-Until "false";\n'
    )


def test_npmrcs_are_merged_the_strongest_last() -> None:
    """Registries, scopes, credentials and proxies, with variables filled in; no path of the host."""
    everyone = "registry=https://npm.example/\ncafile=/etc/ssl/company.pem\nprefix=/usr\n; registry=no\n"
    user = (
        "registry = https://own.example/\n"
        "//own.example/:_authToken=${TOKEN}\n"
        "//own.example/:username=${NOBODY}\n"
        '@team:registry="https://team.example/"\n'
        "//own.example/:email=${NOBODY?}\n"
        "script-shell=/tmp/x\n"
    )
    environ = {"TOKEN": "secret", "npm_config_https_proxy": "http://proxy.example:1", "NPM_CONFIG_NOPROXY": "a.example"}

    assert merge_npmrc([everyone, user], environ) == (
        "//own.example/:_authToken=secret\n"
        "//own.example/:email=\n"
        "//own.example/:username=${NOBODY}\n"
        "@team:registry=https://team.example/\n"
        "https-proxy=http://proxy.example:1\n"
        "noproxy=a.example\n"
        "registry=https://own.example/\n"
    )


def test_the_environment_wins_over_every_npmrc() -> None:
    """As npm itself has it."""
    environ = {"NPM_CONFIG_REGISTRY": "https://env.example/", "npm_config_//env.example/:_authToken": "Secret"}

    assert merge_npmrc(["registry=https://file.example/\n"], environ) == (
        "//env.example/:_authToken=Secret\nregistry=https://env.example/\n"
    )


def test_npms_certificates_are_found() -> None:
    """Each file once, with its variables filled in."""
    texts = ["cafile=/etc/ssl/a.pem\n", "cafile=${HOME}/b.pem\n", "cafile=/etc/ssl/a.pem\n"]

    assert certificate_files(texts, {"HOME": "/home/u", "NPM_CONFIG_CAFILE": "/c.pem"}) == (
        "/etc/ssl/a.pem",
        "/home/u/b.pem",
        "/c.pem",
    )
