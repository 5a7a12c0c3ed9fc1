"""The machine as `aisb doctor` looks at it: each fact is asked for once, and only when a check wants it."""

from __future__ import annotations

import os
import tomllib
from functools import cached_property
from typing import TYPE_CHECKING, Any

from aisb.domain.images import is_own
from aisb.effects.host import ask_podman, find_program, need_podman
from aisb.effects.process import SAFE_PATH, Command, run_json
from aisb.effects.state import directories, read_if_there
from aisb.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aisb.effects.host import Host
    from aisb.effects.process import Finished, Runner
    from aisb.effects.state import Directories

_SECONDS = 30.0


class Machine:
    """
    Facts. Each raises Unavailable, with what is to be done, where it is not to be had.

    `configured` says whether these variables lead to a configuration file, and raises where a run would refuse it.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        runner: Runner,
        configured: Callable[[Mapping[str, str]], bool],
        root: str = "",
        search_path: str = SAFE_PATH,
        uids: tuple[int, ...] = (),
    ) -> None:
        self.environ = environ
        self.runner = runner
        self.configured = configured
        # What stands before /proc, /sys, /etc and /usr/share: a test has its own.
        self.root = root
        self.search_path = search_path
        # The caller's, real and effective; without them those of this process.
        self.uids = uids
        self._images: dict[str, list[str]] = {}

    def program(self, name: str) -> str | None:
        """The path of a program that podman or aisb calls."""
        return find_program(name, self.search_path)

    @cached_property
    def directories(self) -> Directories:
        """aisb's own."""
        return directories(self.environ)

    @cached_property
    def podman(self) -> str:
        """The path of podman."""
        return need_podman(self.environ.get("PATH", ""), "")

    @cached_property
    def host(self) -> Host:
        """What podman says of itself, as a run asks it."""
        return ask_podman(self.podman, self.runner, self.search_path, self.root)

    @cached_property
    def info(self) -> dict[str, Any]:
        """All that podman says of itself."""
        info: dict[str, Any] = self._json("info", "--format", "{{json .}}", what=dict)
        return info

    def images(self, role: str) -> list[str]:
        """The ids of aisb's own images of that role, the newest first: what somebody built on one has its label too."""
        if role not in self._images:
            listed = ("images", "--filter", f"label=aisb.role={role}", "--sort", "created", "--format", "json")
            self._images[role] = [
                str(image["Id"])
                for image in self._json(*listed, what=list)
                if any(is_own(str(name), role) for name in image.get("Names") or ())
            ]
        return self._images[role]

    def ask(self, *argv: str) -> Finished:
        """How a command ended."""
        return self.runner.run(Command(argv=argv, timeout_seconds=_SECONDS))

    def read(self, path: str) -> str:
        """A file of the system, "" where there is none."""
        return (read_if_there(f"{self.root}{path}") or b"").decode("utf-8", "replace")

    def podman_settings(self) -> dict[str, dict[str, Any]]:
        """podman's own files of settings, by path. Raises Unavailable for one that cannot be read."""
        documents = {}
        for path in self._settings_files():
            try:
                documents[path] = tomllib.loads(self.read(path))
            except tomllib.TOMLDecodeError as error:
                raise Unavailable(f"{path} cannot be read: {error}", hint=f"mend it: {path}") from error
        return documents

    def _settings_files(self) -> list[str]:
        home = self.environ.get("XDG_CONFIG_HOME") or f"{self.environ.get('HOME', '')}/.config"
        found = ["/usr/share/containers/containers.conf"]
        for path in ("/etc/containers/containers.conf", f"{home}/containers/containers.conf"):
            found += [path, *self._beside(f"{path}.d")]
        return found

    def _beside(self, directory: str) -> list[str]:
        try:
            names = sorted(os.listdir(f"{self.root}{directory}"))
        except OSError:
            return []
        return [f"{directory}/{name}" for name in names if name.endswith(".conf")]

    def _json(self, *words: str, what: type) -> Any:  # noqa: ANN401  # JSON of podman's
        command = Command(argv=(self.podman, *words), timeout_seconds=_SECONDS)
        said = run_json(self.runner, command)
        if not isinstance(said, what):
            raise Unavailable(f"{command.as_shell()} said something that aisb cannot read")
        return said
