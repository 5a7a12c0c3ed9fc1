"""`aisb clean` in a store of its own: older images, what a killed run left, homes that were named; nothing else."""

from __future__ import annotations

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
    said, left = cleaned(lab, "--all --volumes")

    images = {f"localhost/aisb-sandbox:{number}" for number in (2, 3, 4)}
    gone = images | {"aisb-run-0badc0de", "aisb-home-a-012345"}
    assert left == [name for name in EVERYTHING if name not in gone]
    assert said[-1].startswith("freed ")


def test_a_pattern_chooses_homes_and_nothing_else(lab: Lab) -> None:
    said, left = cleaned(lab, "--volume 'postgres*'", "--volume '*a-0*'")

    none = "aisb: no home that is not in use has a name like 'postgres*'; all of them: aisb clean --volumes --dry-run"
    assert [line for line in said if line.startswith("aisb: ")] == [none]

    assert {"postgres", "aisb-home-b-012345", "aisb-home-c-012345"} <= set(left)
    assert "aisb-home-a-012345" not in left
