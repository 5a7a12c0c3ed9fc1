"""A run of which nothing is said yet: a test replaces what it is about."""

from __future__ import annotations

from aisb.effects.run import Job
from aisb.effects.shield import Wishes
from aisb.effects.state import Directories

JOB = Job(
    podman="podman",
    network="",
    gate_network="",
    directories=Directories("/r", "/c", "/s", "/k"),
    project="",
    policy_directory="",
    wishes=Wishes(),
    home_volume="",
    command=("true",),
    environment={},
    stdin=False,
    terminal=False,
)
