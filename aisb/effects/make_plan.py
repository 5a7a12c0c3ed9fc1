"""The slow half of planning: parse, render, name. Imported only where no plan is kept for a question."""

from __future__ import annotations

import hashlib
import json
from functools import cache as once
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.allow_file import parse_allow_file
from aisb.domain.base_image import parse_base_image
from aisb.domain.egress import policy_json
from aisb.domain.images import GATE, SANDBOX, NodePin, PinnedBase, node_version
from aisb.domain.inject_flag import Injected, need_reach
from aisb.domain.layers import Setting
from aisb.domain.net import ALLOW, PINNED, parse_net_mode
from aisb.domain.origins import origins_json
from aisb.domain.packages import parse_packages
from aisb.domain.policy import (
    Policy,
    host_bits_notes,
    need_entries,
    need_sound,
    parse_allow,
    with_presets,
    without_gate,
)
from aisb.domain.upstream import parse_upstream
from aisb.effects.build import BuildRequest, build_images
from aisb.effects.image_inputs import known_inputs, read_inputs
from aisb.effects.pins import read_base_pin, read_node_pin
from aisb.effects.plan import Plan, fingerprint, images_noted
from aisb.effects.registries import recorded_registries, registries_of
from aisb.effects.situation import find_seccomp, spec_of
from aisb.errors import Unavailable, UsageError
from aisb.render import identity, sandbox
from aisb.render.argv import IDENTITY_FILES
from aisb.render.explain import policy_lines, policy_notes
from aisb.render.gate_files import allowlist, gate_files, gate_ruleset, squid_conf
from aisb.render.gate_upstream import WayOut, peer_lines
from aisb.render.images import containerfile, image_names
from aisb.render.pinned import pinned_ruleset
from aisb.render.seccomp import seccomp_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from aisb.domain.images import ImageInputs, ImageNames
    from aisb.domain.policy_file import PolicyFile
    from aisb.domain.presets import Registries
    from aisb.domain.source_files import SourceFile
    from aisb.effects.plan import Question
    from aisb.effects.workshop import Workshop
    from aisb.render.explain import Files

# A gate that belongs to a run has no other to wait for. The run holds its lock from before its start.
OWN_IDLE_SECONDS = 2
SECCOMP_HINT = "install it: apt-get install golang-github-containers-common (podman recommends it)"


def read_policy(question: Question) -> Policy:
    """The policy that was asked for, if only in part. Raises UsageError for what cannot be meant."""
    wanted = question.wanted
    net = parse_net_mode(wanted.net)
    files = [_policy_file(file) for file in question.policy_files]
    hosts = tuple(host for file in files for host in file.hosts)
    entries = tuple(_all_entries(question, files))
    policy = Policy(
        net=net,
        allow=parse_allow(net, entries),
        hosts=hosts if net == ALLOW else (),
        environment=wanted.environment,
        base_image=parse_base_image(wanted.base_image).text,
        install=_packages(wanted.install),
        project=question.project,
        home_volume=question.home_volume,
        ca_bundle=wanted.ca_bundle,
        origins=dict(wanted.origins),
        notes=host_bits_notes(entries) if net == ALLOW else (),
        learn=wanted.learn,
        limits=wanted.limits,
        injections=tuple(Injected(*item) for item in wanted.injections),
        proxy=wanted.proxy,
        proxy_auth=wanted.proxy_auth,
        no_gate=wanted.no_gate,
        publish=wanted.publish,
    )
    return without_gate(policy)


def _policy_file(file: SourceFile) -> PolicyFile:
    # yaml takes longer to import than a warm start may take in all.
    from aisb.domain.policy_file import parse_policy_file

    return parse_policy_file(file.data(), file.name)


def _all_entries(question: Question, files: Iterable[PolicyFile]) -> Iterator[tuple[str, str]]:
    """Every entry as it was written, with where."""
    yield from question.wanted.allow
    for file in question.allow_files:
        yield from parse_allow_file(file.data(), file.name)
    for policy_file in files:
        yield from policy_file.allow


def _packages(settings: tuple[Setting, ...]) -> tuple[Setting, ...]:
    """The packages, sorted, each once, with where it was first written."""
    origins = {setting.value: setting.origin for setting in reversed(settings)}
    named = {setting.value: setting.named("install") for setting in reversed(settings)}
    return tuple(Setting(package, origins[package]) for package in parse_packages(origins, named))


def make_plan(question: Question, shop: Workshop) -> Plan:
    """
    The plan, with the images that it names built where they were missing.

    The policy is read first, so that a wrong entry is refused before anything is built.
    """
    policy = need_entries(read_policy(question))
    seccomp = seccomp_text()
    images = need_images(question, shop)
    policy = need_reach(need_entries(with_presets(policy, once(lambda: registries_of(shop, images.sandbox)))))
    return compose(policy, question, images, seccomp)


def need_images(question: Question, shop: Workshop) -> ImageNames:
    """The two images' names, both in podman's store when this returns, or when last looked at."""
    request = BuildRequest(spec_of(question), question.wanted.ca_bundle, question.wanted.customize)
    known = known_inputs(shop.directories.cache, request.spec)
    if known and images_noted(shop.directories.cache, image_names(known)):
        return image_names(known)
    return build_images(request, shop)


def is_of_now(plan: Plan, question: Question, cache: str) -> bool:
    """Whether the records and the programs are still those that a plan was made from."""
    known = known_inputs(cache, spec_of(question))
    images = (plan.sandbox_image, plan.gate_image)
    return known is not None and image_names(known) == images and fingerprint() == question.programs


def compose(policy: Policy, question: Question, images: ImageNames, seccomp: str) -> Plan:
    """The whole plan: every rendered text and every name."""
    gate_conf = _gate_files(policy, question, seccomp) if policy.mode == ALLOW else {}
    egress = policy.egress
    return Plan(
        net=policy.mode,
        user=question.user,
        home_volume=policy.home_volume,
        policy_lines=policy_lines(policy),
        names=len(egress.names) + len(egress.rules),
        addresses=len(egress.addresses),
        host_ports=egress.host_ports,
        sandbox_image=images.sandbox,
        gate_image=images.gate,
        seccomp=seccomp,
        session_files=session_files(policy, question),
        gate_files=gate_conf,
        gate_key=_gate_key_of(gate_conf, images, question) if gate_conf else "",
        origins=origins_json(policy) if gate_conf else "",
        learn=policy.learn,
        notes=policy_notes(policy),
        own_gate=bool(policy.proxy_auth or policy.injections),
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
    ports = policy.egress.host_ports
    host_ports = {"host-ports": "".join(f"{port}\n" for port in ports)} if ports else {}
    # Filled when a run starts.
    pins = {"pins": ""} if policy.mode == PINNED else {}
    return {
        **certificates,
        **identity_files,
        **host_ports,
        **pins,
        "mode": f"{policy.mode}\n",
        "policy.json": policy_json(policy.egress),
        "sandbox.nft": ruleset_of(policy, question),
    }


def ruleset_of(policy: Policy, question: Question) -> str:
    """The sandbox's ruleset; without a gate, but for the addresses of the names."""
    if policy.mode == PINNED:
        return pinned_ruleset(policy.egress, question.host_addresses)
    return sandbox.ruleset(policy.mode)


def _gate_files(policy: Policy, question: Question, seccomp: str) -> dict[str, str]:
    return gate_files(
        egress=policy.egress,
        host_addresses=question.host_addresses,
        seccomp=seccomp,
        idle_seconds=OWN_IDLE_SECONDS if policy.proxy_auth else question.wanted.idle_seconds,
        roots=question.ca_text,
        way_out=_way_out(policy, question),
    )


def _way_out(policy: Policy, question: Question) -> WayOut | None:
    if not policy.proxy:
        return None
    upstream = parse_upstream(policy.proxy, "--proxy")
    own_roots = bool(question.ca_text)
    return WayOut(upstream, question.proxy_addresses, has_login=bool(policy.proxy_auth), own_roots=own_roots)


def _gate_key_of(files: dict[str, str], images: ImageNames, question: Question) -> str:
    return gate_key(files, images.gate, question.network, question.name_servers)


def gate_key(files: dict[str, str], image: str, network: str, name_servers: tuple[str, ...] = ()) -> str:
    """
    What a gate is shared by: all that decides what it lets through, the image with its programs included, and whom it
    asks for names: in another network a run has another gate.
    """
    material = json.dumps([sorted(files.items()), image, network, name_servers])
    return hashlib.sha256(material.encode()).hexdigest()


def seccomp_text() -> str:
    """The profile of sandboxes and gates, made from podman's own."""
    path = find_seccomp()
    if path is None:
        raise Unavailable("podman's seccomp profile was not found", hint=SECCOMP_HINT)
    with open(path, encoding="utf-8") as file:
        return seccomp_json(file.read())


class Preview(NamedTuple):
    """What `--print-*` and `--dry-run` show: each text when it is asked for, from the records as they are."""

    policy: Policy
    texts: dict[str, Callable[[], str]]
    plan: Callable[[], Plan]


def preview_of(question: Question, cache: str, files: Callable[[Policy], Files]) -> Preview:
    """
    Everything that can be looked at before a run. `files` tells what of the host's is seen inside.

    The policy is read at once: a wrong entry is an error whatever is looked at. That there must be one is an
    error where it shows: a policy that allows nothing yet can be printed, and nothing can be made from it.
    """
    policy = previewed(question, cache)

    def containerfile_text(role: str) -> str:
        return containerfile(role, _recorded(question, cache))

    def planned() -> Plan:
        images = image_names(_recorded(question, cache))
        return compose(need_reach(need_entries(policy)), question, images, _seccomp_or_nothing())

    return Preview(
        policy=policy,
        texts={
            "policy": lambda: policy_lines(shown(policy), files(policy)),
            "entrypoint": sandbox.entrypoint,
            "containerfile": lambda: containerfile_text(SANDBOX),
            "nft": lambda: ruleset_of(policy, question),
            "squid": lambda: _squid_text(_of_a_gate("squid", policy), question),
            "gate-nft": lambda: _gate_ruleset(_of_a_gate("gate-nft", policy), question),
            "gate-containerfile": lambda: containerfile_text(GATE),
            "seccomp": seccomp_text,
        },
        plan=planned,
    )


def previewed(question: Question, cache: str) -> Policy:
    """The policy with its presets, off the record: nothing is started, and nothing built."""
    return with_presets(read_policy(question), lambda: image_registries(question, cache))


def shown(policy: Policy) -> Policy:
    """The policy as it may be printed: it need not allow anything yet."""
    return need_reach(need_sound(policy))


def image_registries(question: Question, cache: str) -> Registries:
    """What the tools of this run's image are configured to use, off the record. Raises Unavailable without one."""
    return recorded_registries(cache, image_names(_recorded(question, cache)).sandbox)


def _of_a_gate(what: str, policy: Policy) -> Policy:
    """The policy, of which something of its gate is to be printed. Raises UsageError where it has none."""
    need_entries(policy)
    if policy.mode != ALLOW:
        under = "with --no-gate" if policy.mode == PINNED else f"under --net {policy.net}"
        raise UsageError(f"--print-{what}: there is no gate {under}", hint="leave one of the two out")
    return policy


def _gate_ruleset(policy: Policy, question: Question) -> str:
    return gate_ruleset(policy.egress.addresses, question.host_addresses, _way_out(policy, question))


def _squid_text(policy: Policy, question: Question) -> str:
    egress = policy.egress
    way_out = _way_out(policy, question)
    text = squid_conf(
        egress, question.host_addresses, own_roots=bool(question.ca_text and egress.rules), way_out=way_out
    )
    peers = _commented("peers", peer_lines(way_out)) if way_out else ""
    return text + peers + _commented("allowlist", allowlist(egress.listed_names))


def _recorded(question: Question, cache: str) -> ImageInputs:
    """The inputs on record. What was never looked up is said, not guessed."""
    spec = spec_of(question)
    base = read_base_pin(cache, spec.base) or PinnedBase(spec.base.text, spec.base.text, "not pinned yet")
    version = node_version(spec.node_line, base)
    node = read_node_pin(cache, spec, base) or NodePin(version, "npm", (("not-downloaded-yet", "-"),) * 2)
    return read_inputs(spec, base, node)


def _seccomp_or_nothing() -> str:
    # A preview works where podman, whose profile it is, is not installed.
    return seccomp_text() if find_seccomp() else ""


def _commented(name: str, text: str) -> str:
    return "".join(f"# {name}: {line}\n" for line in text.splitlines())
