"""Whatever is written after `--mount`, what comes to podman is one mount, of what was written, or an error."""

from __future__ import annotations

import csv

from hypothesis import given
from hypothesis import strategies as st

from aisb.domain.mounts import MountWish, parse_mount
from aisb.errors import UsageError
from aisb.render.argv import Mount, mount_targets

letters = st.characters(exclude_characters="\0\n\r", exclude_categories=("Cs",))
names = st.text(letters, min_size=1).filter(lambda name: name not in (".", "..") and "/" not in name)
targets = st.lists(names, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))
sources = st.text(letters, min_size=1)
wishes = st.builds(MountWish, sources, targets | st.just(""), st.booleans(), st.just("--mount"))


@given(wishes)
def test_what_is_written_in_podmans_form_is_read_as_it_was_meant(wish: MountWish) -> None:
    assert parse_mount(wish.text(), "--mount") == wish


@given(
    sources.filter(lambda text: ":" not in text and not text.startswith("type=")),
    targets,
    st.sampled_from(["ro", "rw"]),
)
def test_what_is_written_in_the_short_form_is_read_as_it_was_meant(source: str, target: str, mode: str) -> None:
    if ":" not in target:
        assert parse_mount(f"{source}:{target}:{mode}", "--mount") == MountWish(source, target, mode == "ro", "--mount")


@given(st.text() | st.text(alphabet='type=bind,src/dstro:"\n\0 ').map(lambda text: f"type=bind,{text}"))
def test_no_text_adds_a_mount_an_option_or_a_line(text: str) -> None:
    """One option with four fields at most, one line of what the entrypoint expects."""
    try:
        wish = parse_mount(text, "--mount")
    except UsageError:
        return
    target = wish.target or "/t"

    option = Mount(f"/{wish.source}", target, wish.read_only).option()

    fields = ["type=bind", f"src=/{wish.source}", f"dst={target}", *(["ro"] if wish.read_only else [])]
    assert list(csv.reader([option])) == [fields]
    assert mount_targets([target]).count("\n") == 1
