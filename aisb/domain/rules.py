"""
The engine: may this run reach that host and port, and may it say this there?

One pure judge for the bridge, the helper behind squid and the command line, so that they cannot disagree. The
gate's image carries this file and what it imports, so it needs nothing but the standard library. What is not
allowed by an entry or a rule is denied.
"""

from __future__ import annotations

from copy import copy
from ipaddress import ip_network
from typing import TYPE_CHECKING

from aisb.domain.addresses import AddressEntry, AddressTable
from aisb.domain.egress import VERSION, EgressPolicy, read_policy
from aisb.domain.hosts import canonical_host, canonical_name, is_address, parents_of
from aisb.domain.http_request import (
    HTTP,
    HttpRequest,
    body_fault,
    honest_request,
    method_fault,
    names_agree,
    upgrade_fault,
)
from aisb.domain.http_rules import HostPolicy, HostRules
from aisb.domain.live import ADDRESS, LiveEntry
from aisb.domain.names import (
    BELOW,
    EXACT,
    HOST_NAME,
    LOOPBACK,
    MATCHES,
    OWN_SUFFIX,
    PROBE_NAME,
    PROBED,
    TLS_PORT,
    TREE,
    WEB_PORTS,
    NameEntry,
)
from aisb.domain.proposals import entry_for, is_public
from aisb.domain.verdict import CLOSED, CUT_OFF, LEARNED, SENTENCES, Failure, Reason, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from aisb.domain.injection import Injection

# The engine and the words in which it is asked and answers.
__all__ = [
    "BELOW",
    "CLOSED",
    "CUT_OFF",
    "EXACT",
    "HOST_NAME",
    "LEARNED",
    "MATCHES",
    "OWN_SUFFIX",
    "PROBED",
    "PROBE_NAME",
    "SENTENCES",
    "TLS_PORT",
    "TREE",
    "VERSION",
    "WEB_PORTS",
    "AddressEntry",
    "EgressPolicy",
    "Engine",
    "Failure",
    "HostPolicy",
    "HttpRequest",
    "LiveEntry",
    "NameEntry",
    "Reason",
    "Verdict",
    "entry_for",
    "honest_request",
]


class Engine:
    """Judges by a policy that does not change, and by what was said of it since, where `with_live` adds it."""

    def __init__(
        self,
        names: Iterable[NameEntry] = (),
        addresses: Iterable[AddressEntry] = (),
        host_ports: Iterable[int] = (),
        rules: Iterable[HostPolicy] = (),
        learn: bool = False,
        injections: Iterable[Injection] = (),
    ) -> None:
        self._by_host: dict[str, list[NameEntry]] = {}
        for entry in (NameEntry(PROBE_NAME, EXACT, WEB_PORTS), *names):
            self._by_host.setdefault(entry.host, []).append(entry)
        self._addresses = AddressTable(addresses)
        self._host_ports = frozenset(host_ports)
        self._rules = {policy.host: HostRules(policy) for policy in rules}
        self._learn = learn
        self.injections = tuple(injections)
        self._injected = frozenset(item.host for item in self.injections)
        self._live: tuple[LiveEntry, ...] = ()

    @classmethod
    def from_json(cls, text: str) -> Engine:
        """The engine for a policy in its canonical JSON. Raises ValueError for anything else."""
        return cls(*read_policy(text))

    def apart(self) -> Engine:
        """The engine of one of the runs that share this policy, at whose cost no other run's requests are judged."""
        others = {host: own for host, rules in self._rules.items() if (own := rules.apart()) is not rules}
        changed = copy(self)
        changed._rules = self._rules | others if others else self._rules
        return changed

    def with_live(self, entries: Iterable[LiveEntry]) -> Engine:
        """The engine of a run whose user has said this meanwhile. This one stays as it is: others judge by it."""
        changed = copy(self)
        changed._live = tuple(entries)
        return changed

    @staticmethod
    def is_host(host: str) -> bool:
        """Whether this means the host's loopback, to which aisb itself leads: it is never squid's to dial."""
        try:
            return canonical_host(host) in (HOST_NAME, *LOOPBACK)
        except ValueError:
            return False

    @property
    def ports(self) -> frozenset[int]:
        """Every port that a name entry opens."""
        return frozenset(port for entries in self._by_host.values() for entry in entries for port in entry.ports)

    def live_fault(self, entry: LiveEntry) -> str:
        """Why this cannot be said while a run lasts, "" where it can."""
        if not entry.allows:
            return ""
        if entry.match != ADDRESS:
            has_rules = entry.match != BELOW and entry.host in self._rules
            return f"{entry.host} has method and path rules, and is judged by them alone" if has_rules else ""
        # To open another address would open it to every name of every run. What was denied meanwhile may come back,
        # whatever the policy is: no word opens an address, so this leaves what the run began with.
        if any(not said.allows and entry.settles(said) for said in self._live):
            return ""
        for covering in self._addresses.covering(ip_network(entry.host)):
            if covering.port is None or (covering.port,) == entry.ports:
                return ""
        return "an address is opened when a gate starts, and this gate did not start with it"

    def judge(self, host: str, port: int) -> Verdict:
        """
        Whether a connection to `host` (a name or an address) and `port` is allowed.

        To a host with rules that is the beginning: each request on it is put to `judge_request`.
        """
        verdict = self._judge_listed(host, port)
        return self._after_last_word(host, port, verdict) if self._live else verdict

    def _judge_listed(self, host: str, port: int) -> Verdict:
        """By the policy that the run began with."""
        if self.is_host(host):
            return self._judge_host_port(canonical_host(host), port)
        if is_address(host):
            return self._judge_address(host, port)
        try:
            name = canonical_name(host)
        except ValueError:
            return Verdict(allowed=False, reason=Reason.BAD_REQUEST)
        if name in self._rules:
            return _judge_port_of_rules(name, port)
        return self._judge_name_and_port(name, port)

    def judge_name(self, name: str) -> Verdict:
        """Whether `name` is one that may be resolved: some entry covers it on some port, or it has rules."""
        try:
            canonical = canonical_name(name)
        except ValueError:
            return Verdict(allowed=False, reason=Reason.DNS)
        if canonical == HOST_NAME:
            # Which port is meant nobody has said yet, so none is proposed.
            ports = sorted(self._host_ports)
            return Verdict(allowed=True, rule=f"host:{ports[0]}") if ports else Verdict(False, Reason.DNS)
        for port in self._ports_of(canonical):
            verdict = self.judge(canonical, port)
            if verdict.allowed:
                return verdict
        for said in reversed(self._live):
            if not said.allows and said.covers_host(canonical):
                return Verdict(allowed=False, reason=Reason.DNS, rule=said.rule(), detail=CLOSED)
        return Verdict(allowed=False, reason=Reason.DNS, add=entry_for(canonical, WEB_PORTS[-1]))

    def _ports_of(self, name: str) -> Iterator[int]:
        """Every port of a name that may be open."""
        if name in self._rules:
            yield from WEB_PORTS
        for entry in self._covering(name):
            yield from entry.ports
        for said in self._live:
            if said.allows and said.covers_host(name):
                yield from said.ports
        if self._learn:
            yield from WEB_PORTS

    @property
    def opens_tls(self) -> bool:
        """Whether there is a host to which TLS is opened."""
        return bool(self._rules or self._injected)

    def is_bumped(self, host: str) -> bool:
        """Whether TLS to this host is opened in the gate, because its requests have to be read."""
        try:
            name = canonical_name(host)
        except ValueError:
            return False
        return name in self._rules or name in self._injected

    def judge_tls(self, host: str, port: int, sni: str) -> Verdict:
        """Whether TLS meant for `host` may pass on unread with this SNI: only with that very name and without rules."""
        verdict = self.judge_hello(host, port, sni)
        if verdict.allowed and self.is_bumped(host):
            return Verdict(allowed=False, reason=Reason.PATH, detail="the requests to this host are read one by one")
        return verdict

    def judge_bump(self, host: str, port: int, sni: str) -> Verdict:
        """Whether TLS meant for `host` is opened in the gate: with that very name as SNI, and a reason to read it."""
        verdict = self.judge_hello(host, port, sni)
        if verdict.allowed and not self.is_bumped(host):
            return Verdict(allowed=False, reason=Reason.NOT_LISTED, detail="no rule asks to read this connection")
        return verdict

    def judge_hello(self, host: str, port: int, sni: str) -> Verdict:
        """Whether a TLS connection meant for `host` may go on with this SNI, read or unread."""
        verdict = self.judge(host, port)
        # An address entry says where bytes may go, not what they are: a hello need not name a host there.
        if not verdict.allowed or is_address(host):
            return verdict
        if not sni:
            return Verdict(allowed=False, reason=Reason.NOT_TLS)
        return verdict if _same_name(host, sni) else Verdict(allowed=False, reason=Reason.NAME_MISMATCH)

    def judge_request(self, request: HttpRequest) -> Verdict:
        """
        Whether a request may go on: one that the gate can read, over plain HTTP or inside TLS that it opened.

        Before anything else all names in it must be one, of hosts without rules too: squid dials what the URL
        says, or sends what it judged by one name over a tunnel to another.
        """
        verdict = self.judge(request.host, request.port)
        if not verdict.allowed:
            return verdict
        if not names_agree(request):
            return Verdict(allowed=False, reason=Reason.NAME_MISMATCH)
        if request.scheme == HTTP and request.port == TLS_PORT and not is_address(request.host):
            # Nothing but TLS goes to this port of a name, by whatever way.
            return Verdict(allowed=False, reason=Reason.NOT_TLS)
        if fault := method_fault(request) or upgrade_fault(request):
            return Verdict(allowed=False, reason=Reason.METHOD, detail=fault)
        rules = None if is_address(request.host) else self._rules.get(canonical_name(request.host))
        if rules is None:
            return verdict
        if fault := body_fault(request):
            return Verdict(allowed=False, reason=Reason.METHOD, detail=fault)
        return rules.judge(request.method, request.path)

    def _after_last_word(self, host: str, port: int, verdict: Verdict) -> Verdict:
        """The verdict after what the user has said since. No word opens an address, or leads past a host's rules."""
        try:
            canonical = canonical_host(host)
        except ValueError:
            return verdict
        for said in reversed(self._live):
            if not said.covers(canonical, port):
                continue
            if not said.allows:
                return Verdict(allowed=False, reason=Reason.NOT_LISTED, rule=said.rule(), detail=CLOSED)
            if verdict.allowed or is_address(canonical) or self.is_host(canonical) or canonical in self._rules:
                return verdict
            return Verdict(allowed=True, rule=said.rule())
        return verdict

    def _judge_host_port(self, host: str, port: int) -> Verdict:
        entry = f"host:{port}"
        if port in self._host_ports:
            return Verdict(allowed=True, rule=entry)
        reason = Reason.DIRECT_ADDRESS if is_address(host) else Reason.NOT_LISTED
        # Who says localhost means the sandbox's own as a rule: no invitation to open the host's.
        return Verdict(allowed=False, reason=reason, add=entry if host == HOST_NAME else "")

    def _judge_address(self, address: str, port: int) -> Verdict:
        covering = self._addresses.at(address)
        for entry in covering:
            if entry.port in (None, port):
                return Verdict(allowed=True, rule=entry.text())
        return self._learnt_or_denied(address, port, Reason.PORT if covering else Reason.DIRECT_ADDRESS)

    def _judge_name_and_port(self, name: str, port: int) -> Verdict:
        covering = list(self._covering(name))
        for entry in covering:
            if port in entry.ports:
                return Verdict(allowed=True, rule=entry.text())
        return self._learnt_or_denied(name, port, Reason.PORT if covering else Reason.NOT_LISTED)

    def _learnt_or_denied(self, host: str, port: int, reason: str) -> Verdict:
        if self._learn and is_public(host, port):
            return Verdict(allowed=True, rule=LEARNED)
        return Verdict(allowed=False, reason=reason, add=entry_for(host, port))

    def _covering(self, name: str) -> Iterator[NameEntry]:
        for candidate in (name, *parents_of(name)):
            for entry in self._by_host.get(candidate, ()):
                if entry.covers_name(name):
                    yield entry


def _judge_port_of_rules(name: str, port: int) -> Verdict:
    # Rules speak of requests: on another port nothing could be judged by them, wherever else the name is allowed.
    if port in WEB_PORTS:
        return Verdict(allowed=True, rule=_rules_of(name))
    return Verdict(allowed=False, reason=Reason.PORT, detail="a host with rules is reached on ports 80 and 443 only")


def _rules_of(name: str) -> str:
    return f"the rules of {name}"


def _same_name(one: str, other: str) -> bool:
    try:
        return canonical_name(one) == canonical_name(other)
    except ValueError:
        return False
