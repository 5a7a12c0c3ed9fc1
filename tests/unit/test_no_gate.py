"""What a policy comes to without a gate, and which addresses of a name are pinned."""

from __future__ import annotations

import json
import struct
from ipaddress import ip_network

import pytest

from aisb.cli.request import read_request
from aisb.cli.splitter import split
from aisb.domain.addresses import AddressEntry
from aisb.domain.config_file import parse_config
from aisb.domain.egress import EgressPolicy, policy_json
from aisb.domain.gather import SourcedHost
from aisb.domain.layers import PROJECT, USER, Layer
from aisb.domain.names import EXACT, WEB_PORTS, NameEntry
from aisb.domain.no_gate import MOST_ADDRESSES, Pin, Pinned, pin
from aisb.domain.policy import Policy, parse_allow, with_presets, without_gate
from aisb.effects.no_gate import look_up_command, with_pins
from aisb.effects.plan import Plan
from aisb.effects.run import mounts_of, view_of
from aisb.effects.session import Session
from aisb.effects.shield import Shield
from aisb.errors import Unavailable, UsageError
from aisb.render.explain import policy_lines
from aisb.render.identity import command_environment
from aisb.render.lines import StartView, no_gate_lines, start_lines
from aisb.render.pins import pin_elements, pin_lines
from gate import dns
from gate.look_up import look_up
from gate.pins import read_table
from gate.resolver import PinnedResolver
from tests.fakes import FakeRunner, said
from tests.unit.jobs import JOB

VERBS = frozenset({"run", "learn"})
HOST = ("198.51.100.2", "2001:db8::2")


def policy_of(*allow: str, hosts: tuple[SourcedHost, ...] = (), no_gate: bool = True) -> Policy:
    return Policy(
        net="allow",
        allow=parse_allow("allow", [(text, "--allow") for text in allow]),
        hosts=hosts,
        environment=(),
        base_image="bootstrap:trixie",
        install=(),
        project="",
        home_volume="h",
        ca_bundle="",
        origins={"net": "built in", "no_gate": "--no-gate"},
        no_gate=no_gate,
    )


def egress(*names: str, ports: tuple[int, ...] = WEB_PORTS, addresses: tuple[str, ...] = ()) -> EgressPolicy:
    """Names at some ports, and networks at any (`10.0.0.0/8`) or one (`10.0.0.1/32 443`)."""
    pairs = (text.split(" ") for text in addresses)
    entries = (AddressEntry(ip_network(network), int(port[0]) if port else None) for network, *port in pairs)
    return EgressPolicy(tuple(NameEntry(name, EXACT, ports) for name in names), tuple(entries))


# --- entries --------------------------------------------------------------------------------------


def test_a_name_means_itself_alone_and_none_is_lost_in_another() -> None:
    """What a gate would find below `example.test` has to have an address of its own here."""
    kept = without_gate(
        policy_of("example.test", "api.example.test", "example.test:22", "10.1.2.3:5432", "10.2.0.0/16")
    )

    assert [item.entry.text() for item in kept.allow] == [
        "10.1.2.3:5432",
        "10.2.0.0/16",
        "exact:api.example.test",
        "exact:example.test",
        "exact:example.test:22",
    ]
    assert [(name.host, name.ports) for name in kept.egress.names] == [
        ("api.example.test", (80, 443)),
        ("example.test", (22, 80, 443)),
    ]
    assert kept.mode == "pinned"


def test_with_a_gate_nothing_changes() -> None:
    policy = policy_of("example.test", "below:x.test", "host:80", no_gate=False)

    assert (without_gate(policy), policy.mode) == (policy, "allow")


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("GET api.test/x", "methods and paths are read in a gate, and --no-gate has none"),
        ("host:11434", "a port of this host is reached through a gate, and --no-gate has none"),
        ("below:a.test", "nobody knows those below another"),
        ("a.test:53", "no question for a name leaves a sandbox, so port 53 leads nowhere"),
        ("10.1.2.3:53", "no question for a name leaves a sandbox, so port 53 leads nowhere"),
        ("10.0.2.2", "that is this host's loopback inside, which --no-gate never opens"),
        ("10.0.2.3:443", "that is this host's loopback inside"),
        ("169.254.1.2:80", "that is this host's loopback inside"),
        ("[fd00::2]:80", "that is this host's loopback inside"),
    ],
)
def test_what_takes_a_gate_is_refused_with_where_it_was_written(entry: str, why: str) -> None:
    with pytest.raises(UsageError, match=f"^--allow '.*': .*{why}"):
        without_gate(policy_of("ok.test", entry))


def test_what_stays_closed_of_a_network_is_said_once() -> None:
    """Also of the policy that is made once more when its presets are known."""
    policy = without_gate(without_gate(policy_of("10.0.2.2/31", "10.2.0.0/16", "10.0.0.0/14:80")))

    assert policy.notes == (
        "10.0.0.0/14:80: not 10.0.2.2 and 10.0.2.3, where a sandbox without a gate would find this host",
        "10.0.2.2/31: not 10.0.2.2 and 10.0.2.3, where a sandbox without a gate would find this host",
    )


def test_rules_of_a_file_are_refused_with_their_line() -> None:
    with pytest.raises(UsageError, match=r"^rules.yaml:3: api.test has rules, which are read in a gate"):
        without_gate(policy_of("ok.test", hosts=(SourcedHost("api.test", (), "rules.yaml:3"),)))


def test_a_presets_entries_are_kept_alone_too() -> None:
    kept = with_presets(policy_of("@github"), dict)

    assert {item.entry.match for item in kept.allow if isinstance(item.entry, NameEntry)} == {EXACT}


def test_the_printed_policy_says_what_it_means() -> None:
    lines = policy_lines(without_gate(policy_of("example.test", "api.example.test"))).splitlines()

    assert [line for line in lines if "gate" in line or "merged" in line or line.startswith("allow.1")] == [
        "allow.1=exact:example.test",
        "allow.1.origin=--allow",
        "allow.1.ports=80,443",
        "no_gate=each name is looked up once, when a run starts; any site at its addresses can be reached, "
        "under any name; nothing is recorded",
        "no_gate.origin=--no-gate",
    ]


# --- who may ask for it ---------------------------------------------------------------------------


def request(*words: str, layers: tuple[Layer, ...] = (), environ: dict[str, str] | None = None) -> bool:
    return read_request(split(list(words), VERBS), environ or {}, layers).wanted.no_gate


def test_flag_variable_and_the_users_file_ask_for_it_and_the_stronger_takes_it_back() -> None:
    ours = parse_config(b"no-gate: 1\n", "config.yaml", USER)

    assert [
        request(),
        request("--no-gate"),
        request(environ={"AISB_NO_GATE": "1"}),
        request(layers=(ours,)),
        request(layers=(ours,), environ={"AISB_NO_GATE": "0"}),
        # There is nothing to leave out.
        request("--net", "none", layers=(ours,)),
    ] == [False, True, True, True, False, False]


@pytest.mark.parametrize("value", ["0", "1"])
def test_a_project_never_says_a_word_about_it(value: str) -> None:
    with pytest.raises(UsageError, match=r"config.yaml:1: 'no-gate' is not for a project to set"):
        parse_config(f"no-gate: {value}\n".encode(), ".ai-sandbox/config.yaml", PROJECT)


@pytest.mark.parametrize(
    ("words", "environ", "what", "hint"),
    [
        (["--net", "none", "--no-gate"], {}, "--no-gate has no meaning under --net none", "leave one of the two out"),
        (["--net", "full", "--no-gate"], {}, "--no-gate has no meaning under --net full", "leave one of the two out"),
        (
            ["--no-gate"],
            {"AISB_PROXY": "http://p.test:1"},
            "AISB_PROXY is a gate's way out, and --no-gate has none",
            "leave one of the two out",
        ),
        (
            ["--proxy", "http://p.test:1"],
            {"AISB_NO_GATE": "1"},
            "--proxy is a gate's way out, and AISB_NO_GATE has none",
            "add in front: AISB_NO_GATE=0",
        ),
        (
            ["--no-gate", "--gate-network", "n"],
            {},
            "--gate-network is what a gate joins, and --no-gate has none",
            "leave one of the two out",
        ),
        (
            ["learn", "--no-gate", "--", "true"],
            {},
            "aisb learn takes a gate, which sees what is reached; --no-gate has none",
            "leave one of the two out",
        ),
    ],
)
def test_it_excludes_what_only_a_gate_does(words: list[str], environ: dict[str, str], what: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_request(split(words, VERBS), environ)

    assert (caught.value.message, caught.value.hint) == (what, hint)


# --- pins -----------------------------------------------------------------------------------------


def test_every_public_address_of_a_name_is_open_at_its_ports() -> None:
    found = {"a.test": ["203.0.113.10", "2001:db8:0::10", "203.0.113.10"], "b.test": ["203.0.113.10"]}

    pinned = pin(egress("a.test", "b.test"), found, HOST)

    assert pinned == Pinned(
        names=(Pin("a.test", ("203.0.113.10", "2001:db8::10")), Pin("b.test", ("203.0.113.10",))),
        opened=(("2001:db8::10", 80), ("2001:db8::10", 443), ("203.0.113.10", 80), ("203.0.113.10", 443)),
        notes=(),
    )
    assert pin_lines(pinned) == "a.test 203.0.113.10 2001:db8::10\nb.test 203.0.113.10\n"
    assert pin_elements(pinned) == (
        "add element inet aisb pinned4 { 203.0.113.10 . 80, 203.0.113.10 . 443 }\n"
        "add element inet aisb pinned6 { 2001:db8::10 . 80, 2001:db8::10 . 443 }\n"
    )


@pytest.mark.parametrize(
    ("address", "ending"),
    [
        ("127.0.0.1", "no entry is proposed for this"),
        ("::1", "no entry is proposed for this"),
        ("0.0.0.0", "no entry is proposed for this"),
        ("10.0.0.5", "to allow it, add: --allow '10.0.0.5:443'"),
        ("100.64.0.1", "to allow it, add: --allow '100.64.0.1:443'"),
        ("169.254.169.254", "no entry is proposed for this"),
        ("fd00:ec2::254", "no entry is proposed for this"),
        ("fe80::1%eth0", "to allow it, add: --allow '[fe80::1]:443'"),
        ("::ffff:203.0.113.10", "no entry is proposed for this"),
        ("198.51.100.2", "to allow it, add: --allow '198.51.100.2:443'"),
        ("2001:db8::2", "to allow it, add: --allow '[2001:db8::2]:443'"),
        ("10.0.2.2", "no entry is proposed for this"),
        ("169.254.1.2", "no entry is proposed for this"),
        ("192.0.2.1", "no entry is proposed for this"),
    ],
)
def test_an_address_that_is_private_or_this_hosts_is_left_out_and_named(address: str, ending: str) -> None:
    """The other addresses of the name stay. (A36)"""
    pinned = pin(egress("a.test"), {"a.test": [address, "203.0.113.10"]}, HOST)
    plain = str(ip_network(address.partition("%")[0]).network_address)

    assert (pinned.names, {open_ for open_, _ in pinned.opened}) == (
        (Pin("a.test", ("203.0.113.10",)),),
        {"203.0.113.10"},
    )
    assert pinned.notes == (f"denied a.test at {plain}: private-address; {ending}",)


@pytest.mark.parametrize(
    ("entry", "address", "is_open"),
    [
        ("10.0.0.5/32 443", "10.0.0.5", True),
        ("10.0.0.0/8", "10.0.0.5", True),
        ("10.0.0.5/32 22", "10.0.0.5", False),
        ("169.254.169.254/32", "169.254.169.254", True),
        ("fd00::/8", "fd00:ec2::254", False),
        ("198.51.100.2/32", "198.51.100.2", True),
        ("198.51.100.0/24", "198.51.100.2", False),
        ("10.0.0.0/8", "10.0.2.2", False),
    ],
)
def test_an_address_entry_opens_what_a_name_leads_to_as_the_ruleset_does(
    entry: str, address: str, is_open: bool
) -> None:
    """It is told inside, and nothing is pinned: the entry's own line in the ruleset says at which port."""
    pinned = pin(egress("a.test", addresses=(entry,)), {"a.test": [address]}, HOST)

    assert (pinned.names, pinned.opened) == ((Pin("a.test", (address,)),) if is_open else (), ())


def test_a_name_that_does_not_resolve_is_said_and_the_others_go_on() -> None:
    pinned = pin(egress("a.test", "gone.test"), {"a.test": ["203.0.113.10"], "gone.test": []}, HOST)

    assert [item.name for item in pinned.names] == ["a.test"]
    assert pinned.notes == ("gone.test does not resolve here: this run cannot reach it",)


def test_only_as_many_addresses_as_an_answer_holds_are_told_and_opened() -> None:
    """A client that met one more would be told of an address that is closed."""
    many = [f"203.0.113.{number}" for number in range(1, 30)]

    pinned = pin(egress("a.test"), {"a.test": [*many, "2001:db8::10"]}, HOST)

    assert pinned.names == (Pin("a.test", (*many[:MOST_ADDRESSES], "2001:db8::10")),)
    assert len(pinned.opened) == 2 * (MOST_ADDRESSES + 1)


def test_where_nothing_is_left_there_is_no_run() -> None:
    with pytest.raises(Unavailable, match=r"nothing that is allowed can be reached: gone.test does not resolve here"):
        pin(egress("gone.test", "in.test"), {"in.test": ["10.0.0.5"]}, HOST)
    with pytest.raises(UsageError, match=r"can be reached: denied in.test at 10.0.0.5: private-address"):
        pin(egress("in.test"), {"in.test": ["10.0.0.5"]}, HOST)
    # Of ten thousand names five are named.
    with pytest.raises(Unavailable, match=r"; ... and 9995 more$"):
        pin(egress(*(f"n{number}.test" for number in range(10_000))), {}, HOST)
    assert pin(egress("gone.test", addresses=("10.0.0.5/32",)), {}, HOST).names == ()


# --- answers --------------------------------------------------------------------------------------


def answer_to(name: str, kind: int) -> tuple[int, int, int]:
    """Code, number of answers, and length of what the table of a test answers."""
    eight = (
        " ".join(f"203.0.113.{number}" for number in range(1, 9))
        + " "
        + " ".join(f"2001:db8::{number}" for number in range(1, 9))
    )
    answers: list[bytes] = []
    resolver = PinnedResolver(read_table(f"a.test 203.0.113.10\n{LONGEST} {eight}\n"))
    assert resolver.respond(dns.ask(7, name, kind), answers.append)
    flags, _, count = struct.unpack_from("!HHH", answers[0], 2)
    return flags & 0xF, count, len(answers[0])


LONGEST = ".".join(("a" * 63, "b" * 63, "c" * 63, "d" * 56, "test"))


def test_names_of_the_table_have_its_addresses_and_no_other_exists() -> None:
    """Neither what is below nor what is above; other types of a name that is there are empty."""
    assert [answer_to(name, dns.TYPE_A)[:2] for name in ("a.test", "A.test", "x.a.test", "test", "b.test")] == [
        (dns.NO_ERROR, 1),
        (dns.NO_ERROR, 1),
        (dns.NO_SUCH_NAME, 0),
        (dns.NO_SUCH_NAME, 0),
        (dns.NO_SUCH_NAME, 0),
    ]
    assert [answer_to("a.test", kind)[:2] for kind in (dns.TYPE_AAAA, 16, 255)] == [(dns.NO_ERROR, 0)] * 3
    assert answer_to("localhost", dns.TYPE_AAAA)[:2] == (dns.NO_ERROR, 1)


def test_the_longest_answer_fits_into_a_packet_of_old() -> None:
    """Of the longest name with all its addresses: nobody has to ask again over TCP."""
    assert [answer_to(LONGEST, kind) for kind in (dns.TYPE_A, dns.TYPE_AAAA)] == [
        (dns.NO_ERROR, MOST_ADDRESSES, 399),
        (dns.NO_ERROR, MOST_ADDRESSES, 495),
    ]


@pytest.mark.parametrize("text", [" \n", "a.test 1.2.3\n", "a.test  1.2.3.4\n", "a.test x\n"])
def test_what_is_no_table_is_none(text: str) -> None:
    with pytest.raises((ValueError, OSError)):
        read_table(text)


def test_the_probe_takes_nothing_but_a_refusal_for_one() -> None:
    question = dns.ask(7, "denied.aisb.internal")
    query = dns.parse_query(question)
    assert query is not None
    right = dns.answer(query, dns.NO_SUCH_NAME)
    wrong = [dns.answer(query, dns.NO_ERROR), dns.answer(query, dns.SERVER_FAILURE), right[:-1], question, b""]
    wrong += [dns.answer(query, dns.NO_SUCH_NAME, b"\0\0\0\0"), b"\0\0" + right[2:]]

    assert dns.is_no_such_name(right, question)
    assert [dns.is_no_such_name(answer, question) for answer in wrong] == [False] * len(wrong)


# --- a plan ---------------------------------------------------------------------------------------


def plan_of(**changes: object) -> Plan:
    plan = Plan(
        net="pinned",
        user="ada",
        home_volume="h",
        policy_lines="",
        names=2,
        addresses=0,
        host_ports=(),
        sandbox_image="sandbox",
        gate_image="gate",
        seccomp="{}",
        session_files={"policy.json": policy_json(egress("a.test", "gone.test")), "sandbox.nft": "rules\n", "pins": ""},
        gate_files={},
        gate_key="",
        origins="",
        learn=False,
        notes=("before",),
    )
    return plan._replace(**changes)  # type: ignore[arg-type]  # each test names fields of the plan


def test_a_plan_is_completed_with_what_the_names_lead_to_now() -> None:
    runner = FakeRunner(said(json.dumps({"a.test": ["203.0.113.10"], "gone.test": []})))

    plan = with_pins(plan_of(), runner)

    assert runner.argvs == [look_up_command(("a.test", "gone.test")).argv]
    assert plan.session_files["pins"] == "a.test 203.0.113.10\n"
    assert plan.session_files["sandbox.nft"] == (
        "rules\nadd element inet aisb pinned4 { 203.0.113.10 . 80, 203.0.113.10 . 443 }\n"
    )
    assert (plan.names, plan.notes) == (1, ("before", "gone.test does not resolve here: this run cannot reach it"))


def test_a_plan_with_a_gate_looks_nothing_up() -> None:
    plan = plan_of(net="allow")

    assert with_pins(plan, FakeRunner()) == plan


@pytest.mark.parametrize("text", ["", "[]", '{"a.test": 1}', "null"])
def test_an_answer_that_cannot_be_read_opens_nothing(text: str) -> None:
    with pytest.raises(Unavailable):
        with_pins(plan_of(), FakeRunner(said(text)))


def test_names_are_asked_for_as_they_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the dot at the end: no domain that this host searches is added to one that does not exist."""
    asked: list[str] = []

    def getaddrinfo(name: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        asked.append(name)
        if name != "a.test.":
            raise OSError
        return [(2, 1, 6, "", ("203.0.113.10", 0)), (2, 2, 17, "", ("203.0.113.10", 0))]

    monkeypatch.setattr("socket.getaddrinfo", getaddrinfo)

    assert look_up(["a.test", "gone.test"], 10) == {"a.test": ["203.0.113.10"], "gone.test": []}
    assert sorted(asked) == ["a.test.", "gone.test."]


@pytest.mark.parametrize(
    ("network", "options"),
    [
        ("pasta", "pasta:--no-map-gw,-t,none,-u,none,-T,none,-U,none"),
        ("slirp4netns", "slirp4netns:allow_host_loopback=false,enable_ipv6=true"),
    ],
)
def test_the_sandbox_has_the_network_of_full_access_and_a_resolver_of_its_own(network: str, options: str) -> None:
    job = JOB._replace(network=network, gate_network="other", home_volume="h", stdin=True)
    session = Session("1", "/r/r/1")

    assert view_of(job, plan_of(), session, (), Shield()).network == options
    targets = [mount.target for mount in mounts_of(job, session, "pinned", Shield())]
    assert "/etc/resolv.conf" in targets
    assert "/run/aisb/gate" not in targets


def test_no_variable_names_a_proxy() -> None:
    environment = command_environment(
        user="u", net="pinned", inherited={}, given={}, extra_certificates=False, agents={}
    )

    assert [name for name in environment if b"proxy" in name.lower()] == []


def test_the_start_says_what_is_open() -> None:
    view = StartView("", "", "", "h", "pinned", 1, 2, 0, "", warm=False)

    assert start_lines(view)[1] == (
        "WARNING: --no-gate: allow 1 name, 2 addresses; nothing is judged by name, and nothing is recorded"
    )
    assert all(line.startswith("WARNING: ") for line in no_gate_lines())


def test_settings_are_read_like_those_of_every_flag() -> None:
    with pytest.raises(UsageError, match="AISB_NO_GATE='maybe' is neither on nor off"):
        request(environ={"AISB_NO_GATE": "maybe"})
