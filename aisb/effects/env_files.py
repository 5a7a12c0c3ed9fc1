"""Files of variables: private, read once, and known by hashes alone wherever something is shown or kept of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisb.domain.env_file import digest_lines, parse_env_file
from aisb.domain.source_files import SourceFile
from aisb.effects.safe_files import read_in_project
from aisb.effects.sources import read_named

if TYPE_CHECKING:
    from aisb.domain.variables import Given

FLAG = "--env-file"


def read_env_file(path: str, project: str) -> tuple[tuple[Given, ...], SourceFile | None]:
    """
    What the file holds; and what stands for it where trust is asked for, None for one that no agent can write.

    Raises UsageError for one that others may read, or that is not in the one form.
    """
    found = read_named(path, project, FLAG, private=True)
    given = parse_env_file(found.file.data(), found.file.name)
    return given, _stand_in(found.file.name, given) if found.in_project else None


def stand_in_of(project: str, relative: str) -> SourceFile:
    """What stands for a file of variables in the project, by its path from there on."""
    file = read_in_project(project, relative, private=True)
    return _stand_in(relative, parse_env_file(file.data(), file.name))


def _stand_in(relative: str, given: tuple[Given, ...]) -> SourceFile:
    # Named as the flag is given, so that a refusal shows the very words to write.
    return SourceFile(f"{FLAG}={relative}", digest_lines(given))
