"""`aisb clean` in a store of its own: older images, what a killed run left, homes that were named; nothing else."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

# Images that hold nothing, with the labels of aisb's; a container of one, one that a killed run left, volumes.
STORE = """
cat >~/.config/containers/storage.conf <<END
[storage]
driver = "overlay"
graphroot = "$HOME/store"
runroot = "$XDG_RUNTIME_DIR/clean-$$"
END
trap 'podman rm --all --force --time 0; podman unshare sh -c "umount ~/store/overlay; rm -rf ~/store"' EXIT
exec 3>&1 >~/log 2>&1
image() {
    printf 'FROM scratch\\nLABEL aisb.role=%s aisb.base-ref=x n=%s\\n' $1 $2 |
        podman build --quiet --timestamp $2 --tag "${3:-localhost/aisb-$1:$2}" -f - ~/project
}
image sandbox 1; image sandbox 2; image sandbox 3; image sandbox 4; image gate 1; image sandbox 5 localhost/mine:1
podman create --name holds localhost/aisb-sandbox:1 /x
podman create --name aisb-run-0badc0de --label aisb.role=sandbox --label aisb.run=0badc0de localhost/aisb-sandbox:4 /x
for name in aisb-home-a-012345 aisb-home-b-012345; do podman volume create --label aisb.role=home $name; done
podman volume create --label aisb.role=home postgres
podman volume create aisb-home-c-012345
podman create --name lives --volume aisb-home-b-012345:/home localhost/aisb-gate:1 /x
exec >&3 2>&1
"""
LEFT = """
podman images --format '{{.Repository}}:{{.Tag}}' | sort; podman ps --all --format '{{.Names}}' | sort
podman volume ls --format '{{.Name}}' | sort
"""
WITHOUT_SIZES = r"sed -E 's/, [0-9.]+ k?B//'"


def cleaned(lab: Lab, *flags: str) -> tuple[list[str], list[str]]:
    """What clean says, and what is left."""
    lines = [f"aisb clean {flag} >~/said 2>&1 || exit; cat ~/said | {WITHOUT_SIZES}" for flag in flags]
    result = lab.run("\n".join([STORE, *lines, "echo --", LEFT, "echo --"]))
    assert result.code == 0, result.text + result.errors
    said, left, _ = result.text.split("--\n")
    return said.splitlines(), left.splitlines()


EVERYTHING = [
    "localhost/aisb-gate:1",
    "localhost/aisb-sandbox:1",
    "localhost/aisb-sandbox:2",
    "localhost/aisb-sandbox:3",
    "localhost/aisb-sandbox:4",
    "localhost/mine:1",
    "aisb-run-0badc0de",
    "holds",
    "lives",
    "aisb-home-a-012345",
    "aisb-home-b-012345",
    "aisb-home-c-012345",
    "postgres",
]


def test_older_images_and_what_a_killed_run_left_go(lab: Lab) -> None:
    said, left = cleaned(lab, "--dry-run", "")

    assert said[:2] == [
        "would remove container aisb-run-0badc0de (of run 0badc0de, which is over)",
        "would remove image localhost/aisb-sandbox:2 (sandbox, and podman's copy of it)",
    ]
    assert [line.replace("removed", "would remove") for line in said[2:-1]] == said[:2]
    assert left == [name for name in EVERYTHING if name not in ("aisb-run-0badc0de", "localhost/aisb-sandbox:2")]


def test_all_images_and_homes_go_but_what_is_in_use_and_what_is_not_ours(lab: Lab) -> None:
    """C55."""
    said, left = cleaned(lab, "--all --volumes")

    images = {f"localhost/aisb-sandbox:{number}" for number in (2, 3, 4)}
    gone = images | {"aisb-run-0badc0de", "aisb-home-a-012345"}
    assert left == [name for name in EVERYTHING if name not in gone]
    assert said[-1].startswith("freed ")


def test_a_pattern_chooses_homes_and_nothing_else(lab: Lab) -> None:
    """C55."""
    said, left = cleaned(lab, "--volume 'postgres*'", "--volume '*a-0*'")

    none = "aisb: no home that is not in use has a name like 'postgres*'; all of them: aisb clean --volumes --dry-run"
    assert [line for line in said if line.startswith("aisb: ")] == [none]

    assert {"postgres", "aisb-home-b-012345", "aisb-home-c-012345"} <= set(left)
    assert "aisb-home-a-012345" not in left


# Images are those of the other store, which this one only reads.
BESIDE = """
conf=~/.config/containers/storage.conf; other=$(sed -n 's/^graphroot = //p' $conf)
printf '[storage]\ndriver = "overlay"\ngraphroot = "%s"\nrunroot = "%s"\n' ~/store $XDG_RUNTIME_DIR/clean-$$ >$conf
printf '[storage.options]\nadditionalimagestores = [%s]\n' "$other" >>$conf
trap 'podman rm --all --force --time 0 >&2; podman unshare sh -c "umount ~/store/overlay; rm -rf ~/store"' EXIT
kept() { ls -d $XDG_RUNTIME_DIR/aisb/r/* $XDG_RUNTIME_DIR/aisb/g/* 2>/dev/null | sort; }
kept >~/before
"""
# With a gate each, one gate for all, without one, without a network. All are there before the first one goes on; each
# asks for what it may reach, and for what its neighbour may.
TWENTY = """
aisb -q --net none --ephemeral-home -- true
one() {
    case $(($1 % 4)) in
        0) flags="--gate-idle 600 --allow exact:n$1-$OWN.allowed.test" ;;
        1) flags="--gate-idle 600 $(for n in 1 5 9 13 17; do echo "--allow exact:n$n-$OWN.allowed.test"; done)" ;;
        2) flags="--no-gate --allow exact:n$1-$OWN.allowed.test" ;;
        3) flags="--net none" ;;
    esac
    aisb -q --project p$1 $flags --env OWN -- sh -c 'touch up; until [ -e go ]; do sleep 0.05; done
        for n in $0 $(($0 + 1)); do curl -s -o /dev/null -w "%{http_code} " http://n$n-$OWN.allowed.test/; done; exit $0' $1 >out.$1
    echo "$1 $? $(cat out.$1)" >>ended
}
for n in $(seq 0 19); do mkdir p$n; one $n & done
until [ "$(ls -d p*/up 2>/dev/null | wc -l)" = 20 ] || [ -s ended ]; do sleep 0.05; done
aisb ps | tail -n +2 | wc -l
for n in $(seq 0 19); do touch p$n/go; done
wait
sort -n ended
"""
CLEANED = """
echo --; aisb clean --all --volumes --json
echo --; podman ps --all --format '{{.Names}}'; podman volume ls --format '{{.Name}}'
kept | comm -13 ~/before -
"""


def test_after_twenty_runs_at_once_nothing_is_left_but_images(lab: Lab) -> None:
    """Each has what its policy says and no more. Images of a store that is only read stay, which is said."""
    result = lab.run(BESIDE + TWENTY + CLEANED, env={"OWN": secrets.token_hex(4)}, timeout=300)

    ended, said, left = result.text.split("--\n")
    answers = {0: "200 403", 1: "200 403", 2: "200 000", 3: "000 000"}
    assert ended.splitlines() == ["20", *(f"{n} {n} {answers[n % 4]} " for n in range(20))], result.errors
    removals = json.loads(said)["removals"]
    stays = {item["kind"] for item in removals if item["stays"]}
    gone = [item["kind"] for item in removals if not item["stays"]]
    assert (stays <= {"image"}, gone.count("volume"), gone.count("gate") >= 6) == (True, 20, True)
    assert left == ""
