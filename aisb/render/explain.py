"""The policy as sorted `key=value` lines: stable, one a line, made to be compared."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.hosts import parents_of
from aisb.domain.net import PINNED
from aisb.domain.publish import ADDRESS
from aisb.domain.rules import BELOW, EXACT, SENTENCES, NameEntry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from aisb.domain.check import Answer
    from aisb.domain.policy import AllowItem, Policy
    from aisb.domain.presets import Item
    from aisb.domain.verdict import Verdict

_MOST_NOTES = 5
_NO_GATE = (
    "each name is looked up once, when a run starts; any site at its addresses can be reached, under any name; "
    "nothing is recorded"
)


class Files(NamedTuple):
    """
    What of the host's files can be seen or written inside, and what of them cannot.

    Each mount stands with its origin, each protected path with how it is, and the paths that read as empty; each
    variable that pi takes a token from with what it is for.
    """

    mounts: tuple[tuple[str, str], ...] = ()
    protected: tuple[tuple[str, str], ...] = ()
    masked: tuple[str, ...] = ()
    tokens: tuple[tuple[str, str], ...] = ()


NO_FILES = Files()


def policy_lines(policy: Policy, files: Files = NO_FILES) -> str:
    """All that the policy says, control characters percent-encoded."""
    return _lines(policy_pairs(policy, files))


def policy_pairs(policy: Policy, files: Files = NO_FILES) -> dict[str, str]:
    """The same by key, in the order of keys."""
    pairs: dict[str, str] = {
        "base_image": policy.base_image,
        "ca_bundle": policy.ca_bundle,
        "home": policy.home_volume or "gone after the run",
        "net": policy.net,
        "project": policy.project,
    }
    pairs |= {"no_gate": _NO_GATE} if policy.mode == PINNED else {}
    pairs |= {"proxy": policy.proxy} if policy.proxy else {}
    pairs |= {"proxy_auth": policy.proxy_auth} if policy.proxy_auth else {}
    pairs |= {f"{key}.origin": origin for key, origin in policy.origins.items() if key in pairs}
    pairs |= {"learn": "everything public, ports 80 and 443"} if policy.learn else {}
    by_host = _by_host(policy.allow)
    for index, item in enumerate(policy.allow):
        pairs[f"allow.{index}"] = item.entry.text()
        pairs[f"allow.{index}.origin"] = item.origin
        if isinstance(item.entry, NameEntry):
            pairs[f"allow.{index}.ports"] = ",".join(map(str, item.entry.ports))
            wider = _what_covers(item.entry, by_host)
            if wider:
                pairs[f"allow.{index}.merged"] = f"into {' and '.join(wider)}"
    pairs |= _numbered("rule", _rules(policy))
    pairs |= _numbered("env", policy.environment)
    pairs |= _numbered("inject", ((item.text(), item.origin) for item in policy.injections))
    pairs |= _numbered("install", policy.install)
    pairs |= _numbered("limit", ((f"{limit.name} {limit.value}", limit.origin) for limit in policy.limits))
    pairs |= _numbered("mount", files.mounts)
    pairs |= _numbered("protect", files.protected, "how")
    pairs |= _numbered("publish", ((f"{ADDRESS}:{item.text()}", "--publish") for item in policy.publish))
    pairs |= {f"mask.{index}": path for index, path in enumerate(files.masked)}
    pairs |= _numbered("pi.token", files.tokens, "for")
    return {key: pairs[key] for key in sorted(pairs, key=_natural)}


def preset_lines(name: str, items: Iterable[Item]) -> str:
    """The entries of a preset, each with what it is there for."""
    pairs: dict[str, str] = {}
    for index, item in enumerate(items):
        pairs[f"{name}.{index}"] = item.entry
        pairs[f"{name}.{index}.reason"] = item.reason
    return _lines(pairs)


def policy_notes(policy: Policy) -> tuple[str, ...]:
    """What a policy costs that its author may not expect."""
    hosts = [host.host for host in policy.egress.rules]
    cost = "is judged by its rules alone, on ports 80 and 443; the gate opens its TLS: no HTTP/2 and no gRPC there"
    rest = [f"... and {len(hosts) - _MOST_NOTES} other hosts with rules"] if len(hosts) > _MOST_NOTES else []
    return (
        *policy.notes,
        *_proxy_notes(policy),
        *(f"{host} {cost}" for host in hosts[:_MOST_NOTES]),
        *rest,
        *_injection_notes(policy),
    )


def _proxy_notes(policy: Policy) -> Iterator[str]:
    if policy.proxy:
        yield (
            f"everything goes through the proxy {policy.proxy}, nothing past it; it resolves the names: "
            "which addresses are reached, private ones too, is its matter"
        )


def _injection_notes(policy: Policy) -> tuple[str, ...]:
    headers: dict[tuple[str, str], list[str]] = {}
    for item in policy.injections:
        headers.setdefault((item.variable, item.host), []).append(item.header)
    return tuple(
        f"{variable} stays out of the sandbox: the gate puts it into {' and '.join(names)} of requests to {host}, "
        "whose TLS it opens"
        for (variable, host), names in headers.items()
    )


def check_json(answer: Answer) -> dict[str, object]:
    """What the gate would answer, for programs; a field that would be empty is there too."""
    target, verdict = answer.target, answer.verdict
    return {
        "decision": "allow" if verdict.allowed else "deny",
        "host": target.host,
        "port": target.port,
        "method": target.method,
        "path": target.path,
        "reason": verdict.reason,
        "why": _why(verdict),
        "rule": verdict.rule,
        "origins": list(answer.origins),
        "add": verdict.add,
        "bumped": answer.bumped,
        "injected": answer.injected,
    }


def check_lines(answer: Answer) -> str:
    """What the gate would answer, and why, in the form of the printed policy."""
    target, verdict = answer.target, answer.verdict
    pairs = {
        "add": f"--allow {quote(verdict.add)}" if verdict.add else "",
        "bumped": "yes" if answer.bumped else "no",
        "decision": "allow" if verdict.allowed else "deny",
        "host": target.host,
        "injected": "yes" if answer.injected else "no",
        "method": target.method,
        "path": target.path,
        "port": str(target.port),
        "reason": verdict.reason,
        "rule": verdict.rule,
        "why": _why(verdict),
    }
    pairs |= {f"origin.{index}": origin for index, origin in enumerate(answer.origins)}
    return _lines({key: value for key, value in pairs.items() if value})


def _why(verdict: Verdict) -> str:
    return "" if verdict.allowed else verdict.detail or SENTENCES.get(verdict.reason, "")


def _lines(pairs: dict[str, str]) -> str:
    return "".join(f"{key}={_one_line(pairs[key])}\n" for key in sorted(pairs, key=_natural))


def _rules(policy: Policy) -> Iterator[tuple[str, str]]:
    """Each rule of each host in the order in which it is asked; the last one that matches counts."""
    written = {host.host: host.origin for host in policy.hosts}
    for host in policy.egress.rules:
        if not host.rules:
            yield f"{host.host} denies everything", written[host.host]
        for number, (rule, origin) in enumerate(zip(host.rules, policy.gathered.origins[host.host], strict=True), 1):
            yield f"{host.host} rule {number}: {rule.text()}", origin


def _numbered(key: str, items: Iterable[tuple[str, str]], second: str = "origin") -> dict[str, str]:
    pairs: dict[str, str] = {}
    for index, (value, more) in enumerate(items):
        pairs |= {f"{key}.{index}": value, f"{key}.{index}.{second}": more}
    return pairs


def _by_host(items: Iterable[AllowItem]) -> dict[str, list[NameEntry]]:
    """The name entries by their hosts: of thousands, each is compared with those above it alone."""
    found: dict[str, list[NameEntry]] = {}
    for item in items:
        if isinstance(item.entry, NameEntry):
            found.setdefault(item.entry.host, []).append(item.entry)
    return found


def _what_covers(entry: NameEntry, by_host: Mapping[str, list[NameEntry]]) -> list[str]:
    """The other entries that allow all that this one does, as they were written; none where it adds something."""
    near = (other for host in (entry.host, *parents_of(entry.host)) for other in by_host.get(host, ()))
    wider = [other for other in dict.fromkeys(near) if other != entry and _covers(other, entry)]
    ports = {port for one in wider for port in one.ports}
    return sorted(one.text() for one in wider) if ports.issuperset(entry.ports) else []


def _covers(wide: NameEntry, narrow: NameEntry) -> bool:
    """Whether each name of `narrow` is one of `wide`, on a port at least."""
    if not set(wide.ports) & set(narrow.ports):
        return False
    if wide.host == narrow.host:
        return wide.match not in (EXACT, BELOW) or wide.match == narrow.match
    return wide.match != EXACT and narrow.host.endswith(f".{wide.host}")


def _natural(key: str) -> tuple[tuple[int, int, str], ...]:
    return tuple((1, int(part), "") if part.isdecimal() else (0, 0, part) for part in key.split("."))


def _one_line(value: str) -> str:
    if value.isprintable() and "%" not in value:
        return value
    return "".join(
        character if character.isprintable() and character != "%" else _percent(character) for character in value
    )


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogateescape"))
