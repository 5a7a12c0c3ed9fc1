"""The slow half of planning: parse, render, name. Imported only where no plan is kept for a question."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from aisb.domain.base_image import parse_base_image
from aisb.domain.packages import parse_packages
from aisb.domain.policy import ALLOW, Policy, parse_allow, parse_net_mode, policy_json
from aisb.effects.plan import Plan
from aisb.effects.situation import find_seccomp
from aisb.errors import Unavailable
from aisb.render import gate as gate_render
from aisb.render import identity, sandbox
from aisb.render.argv import IDENTITY_FILES, session_targets
from aisb.render.explain import policy_lines

if TYPE_CHECKING:
    from aisb.domain.images import ImageNames
    from aisb.effects.plan import Question

SECCOMP_HINT = "install it: apt-get install golang-github-containers-common (podman recommends it)"


def read_policy(question: Question) -> Policy:
    """The policy that was asked for. Raises UsageError for what cannot be meant."""
    net = parse_net_mode(question.net)
    return Policy(
        net=net,
        allow=parse_allow(net, question.allow),
        environment=question.environment,
        base_image=parse_base_image(question.base_image).text,
        install=parse_packages(question.install),
        project=question.project,
        home_volume=question.home_volume,
        ca_bundle=question.ca_bundle,
    )


def compose(policy: Policy, question: Question, images: ImageNames, seccomp: str) -> Plan:
    """The whole plan: every rendered text and every name."""
    gate_files = gate_render.gate_files(policy.names, question.host_addresses) if policy.net == ALLOW else {}
    return Plan(
        net=policy.net,
        user=question.user,
        home_volume=policy.home_volume,
        policy_lines=policy_lines(policy),
        names=len(policy.names),
        sandbox_image=images.sandbox,
        gate_image=images.gate,
        seccomp=seccomp,
        session_files=session_files(policy, question),
        gate_files=gate_files,
        gate_key=gate_key(gate_files, images.gate, question.network, seccomp) if gate_files else "",
    )


def session_files(policy: Policy, question: Question) -> dict[str, str]:
    """What is rendered for one run and mounted read-only at /run/aisb."""
    certificates = {"ca.pem": question.ca_text} if question.ca_text else {}
    identity_files = {
        "passwd": identity.passwd(question.user),
        "group": identity.group(question.user),
        "hosts": identity.hosts(),
        "resolv.conf": identity.resolv_conf(),
    }
    if set(identity_files) != set(IDENTITY_FILES):
        raise AssertionError("each identity file is mounted, and each mounted one is rendered")
    return {
        **certificates,
        **identity_files,
        "mode": f"{policy.net}\n",
        "mounts": sandbox.mount_targets(session_targets(gated=policy.net == ALLOW, project=bool(policy.project))),
        "policy.json": policy_json(policy.names),
        "sandbox.nft": sandbox.ruleset(policy.net),
    }


def gate_key(files: dict[str, str], image: str, network: str, seccomp: str) -> str:
    """What a gate is shared by: all that decides what it lets through, the image with its programs included."""
    material = json.dumps([sorted(files.items()), image, network, seccomp])
    return hashlib.sha256(material.encode()).hexdigest()


def seccomp_text() -> str:
    """The profile of sandboxes and gates, made from podman's own."""
    path = find_seccomp()
    if path is None:
        raise Unavailable("podman's seccomp profile was not found", hint=SECCOMP_HINT)
    with open(path, encoding="utf-8") as file:
        return sandbox.seccomp(file.read())
