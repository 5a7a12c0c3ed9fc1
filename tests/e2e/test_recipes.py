"""README and docs/recipes.md in the laboratory: what they show is typed as it stands there, with its own names."""

from __future__ import annotations

import io
import json
import re
import secrets
import tarfile
from typing import TYPE_CHECKING

from tests.commands import HOW, of_section
from tests.e2e.legs import needs_sinks

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

pytestmark = needs_sinks

RECIPES = "docs/recipes.md"
# Where the laboratory serves files and repositories, whatever a name is.
SITE = "203.0.113.10"


def lines_of(page: str, title: str, test: str) -> list[str]:
    """What a section says to type, as far as it is this test that does."""
    kept = [command for block in of_section(page, title) for command in block.commands]
    return [command for command in kept if HOW[page][command].what == test]


def section(title: str, prepare: str, then: str = "") -> str:
    """A recipe in a directory of its own, between what it takes to be there and a look at what came of it."""
    typed = "\n".join(lines_of(RECIPES, title, "recipes: the_recipes_do_what_they_say"))
    assert typed
    name = re.sub(r"\W+", "-", title)
    # A line that fails ends the whole script.
    return f'echo "# {title}"; mkdir ~/{name}; cd ~/{name}\n(set -eu\n{prepare}\n{typed}\n{then}\n) || exit 1\n'


def package() -> bytes:
    """An npm package with nothing in it."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        text = json.dumps({"name": "some", "version": "1.0.0"}).encode()
        info = tarfile.TarInfo("package/package.json")
        info.size = len(text)
        archive.addfile(info, io.BytesIO(text))
    return packed.getvalue()


LOCK = """
lock() {
    echo '{"name": "web", "version": "1.0.0", "dependencies": {"some": "1.0.0"}}' >package.json
    cat >package-lock.json <<END
{"name": "web", "version": "1.0.0", "lockfileVersion": 3, "packages": {
"": {"name": "web", "version": "1.0.0", "dependencies": {"some": "1.0.0"}},
"node_modules/some": {"version": "1.0.0", "resolved": "https://$1/files/some.tgz"}}}
END
}
lock packages.example.com
cat >.npmrc <<'END'
registry=https://packages.example.com/
//packages.example.com/:_authToken=${NPM_TOKEN}
END
# The first of the two lines is for this registry, the second for that of the image's own npm.
aisb() {
    case $* in *@npm*) rm .npmrc; lock "$REGISTRY" ;; esac
    command aisb -q "$@" >/dev/null
    ls node_modules
}
"""
REPOSITORY = """
git init -q -b "$BRANCH"; git config user.name a; git config user.email a@a.test
git commit -q --allow-empty -m first; git remote add origin https://git.example.com/private.git
aisb() { command aisb -q "$@" 2>&1 | grep -o 'new branch.*HEAD'; }
"""
SERVED = """
echo from inside >index.html
aisb() { [ "$1" = stop ] || set -- -q "$@"; command aisb "$@" >/dev/null; }
"""
MONO = """
mkdir -p ~/src/mono/services/web ~/src/mono/libraries; cd ~/src/mono; git init -q -b main
touch services/web/old libraries/shared; git add .; git -c user.name=a -c user.email=a@a.test commit -q -m first
touch services/web/new
aisb() { command aisb -q "$@"; }
"""


def test_the_recipes_do_what_they_say(lab: Lab) -> None:
    """A model of this machine, a server for it, registries, a push, a monorepo, no network: each says what it should, and no secret is inside."""
    token = f"tok_{secrets.token_hex(16)}-accepted"
    shown = lab.run("aisb policy presets npm").text.splitlines()
    (registry,) = [line.removeprefix("npm.0=exact:") for line in shown if line.startswith("npm.0=")]
    lab.names("".join(f"{name} A {SITE}\n" for name in ("packages.example.com", "git.example.com", registry)))
    # What listens there in the laboratory tells what it was sent, and answers in no HTTP.
    quiet = 'aisb() { command aisb -q "$@" || echo asked; }'

    with lab.files() as files:
        (files / "some.tgz").write_bytes(package())
        result = lab.run(
            "cat >~/token\n"
            + section("A model on this machine", quiet)
            + section("A dev server, in this machine's browser", SERVED)
            + section("A private registry", LOCK)
            + section("git push without SSH", REPOSITORY)
            + section("A monorepo", MONO)
            + section("Offline", quiet),
            stdin=f"{token}\n".encode(),
            # The repository is there for all tests.
            env={"BRANCH": f"recipe-{secrets.token_hex(8)}", "REGISTRY": registry, "GIT_TERMINAL_PROMPT": "0"},
        )

    assert result.text.splitlines() == [
        "# A model on this machine",
        "asked",
        "# A dev server, in this machine's browser",
        "from inside",
        "# A private registry",
        "some",
        "some",
        "# git push without SSH",
        "new branch]      HEAD",
        "# A monorepo",
        "?? new",
        "new",
        "old",
        "shared",
        "# Offline",
        "asked",
    ], result.errors
    asked = [item["data"].partition("\r")[0] for item in lab.sinks("data") if item["port"] == 11434]
    assert asked == ["GET /v1/models HTTP/1.1"] * 2
    headers = {
        (item["host"], item["headers"].get("authorization"))
        for item in lab.sinks("request")
        if item["path"].startswith("/files/")
    }
    assert headers == {("packages.example.com", f"Bearer {token}"), (registry, None)}


KEYS = """
mkdir -m 700 ~/.ssh; umask 077; printf '%s\\n' "$KEY" >~/.ssh/deploy; printf '%s\\n' "$KNOWN" >~/.ssh/known_hosts
git init -q -b main; git -c user.name=a -c user.email=a@a.test commit -q --allow-empty -m first
git remote add origin ssh://aisb-lab@git.example.com/~/x.git
aisb() { command aisb -q "$@"; }
"""


def test_git_pushes_over_ssh_as_the_recipe_says(lab: Lab) -> None:
    """With a key of its own that is mounted beside known_hosts, and nothing else of ~/.ssh."""
    lab.names(f"git.example.com A {SITE}\n")
    (line,) = lines_of(RECIPES, "git over SSH", "recipes: git_pushes_over_ssh_as_the_recipe_says")
    generate = "aisb -q --net none -- sh -c 'ssh-keygen -q -t ed25519 -N \"\" -f k; cat k.pub k'"
    public, _, private = lab.run(generate).text.partition("\n")

    with lab.ssh_server(public + "\n") as known:
        host = known.replace("allowed.test", "git.example.com")
        result = lab.run(KEYS + line, env={"KEY": private.strip(), "KNOWN": host})

    assert (result.code, "HEAD -> main" in result.errors) == (0, True), result.errors


CHANGED = """
mkfifo hold; exec 3<>hold
aisb --allow llm.example.com -- sh -c '
    look() { curl -s -o /dev/null -w "%{http_code} " http://packages.example.com/ >>seen; }
    look; touch up
    read -r _ && look; touch looked; read -r _ && look' <&3 2>said &
run=$!
await() { n=0; until [ -e "$1" ]; do kill -0 $run; n=$((n+1)); [ $n -lt 1200 ]; sleep 0.05; done; }
await up
ALLOW
echo >&3; await looked
DENY
echo >&3; wait $run
cat seen
"""


def test_the_readmes_lines_do_what_it_says(lab: Lab) -> None:
    """The transcript of a refusal, and what another terminal changes while a sandbox runs."""
    test = "recipes: the_readmes_lines_do_what_it_says"
    lab.names(f"llm.example.com A {SITE}\npackages.example.com A {SITE}\nother.example.com A {SITE}\n")
    curl, allow, deny = lines_of("README.md", "Use", test)

    refused = lab.run(curl)
    changed = lab.run("set -eu\n" + CHANGED.replace("ALLOW", allow).replace("DENY", deny))

    why = "no entry of the policy covers this host; to allow it, add: --allow other.example.com"
    assert refused.text.startswith("403 Access denied by egress policy\n"), refused.errors
    assert refused.errors.splitlines()[-1] == f"aisb: denied other.example.com:80: {why}"
    assert changed.text.strip() == "403 200 403", changed.errors
