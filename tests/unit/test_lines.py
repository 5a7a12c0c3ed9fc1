"""What aisb says at the start and at the end of a run."""

from __future__ import annotations

import json

import pytest

from aisb.domain.rules import PROBED, SENTENCES, Failure, Reason
from aisb.render.denials import denial_lines
from aisb.render.lines import StartView, start_lines, timing_lines
from gate import probe

VIEW = StartView(
    project="/home/ada/src/billing",
    named="/home/ada/src/billing",
    user_home="/home/ada",
    home_volume="aisb-home-billing-3f2a19",
    net="allow",
    names=2,
    addresses=0,
    host_ports=0,
    gate="7f3c1a902b44",
    warm=True,
)


@pytest.mark.parametrize(
    ("view", "lines"),
    [
        pytest.param(
            VIEW,
            (
                "~/src/billing -> /project (rw), home aisb-home-billing-3f2a19",
                "allow 2 names, 0 addresses; gate 7f3c1a902b44 warm",
            ),
            id="allow",
        ),
        pytest.param(
            VIEW._replace(names=1, addresses=1, warm=False, project="/srv/x", named="/srv/x"),
            (
                "/srv/x -> /project (rw), home aisb-home-billing-3f2a19",
                "allow 1 name, 1 address; gate 7f3c1a902b44 started",
            ),
            id="a cold gate",
        ),
        pytest.param(
            VIEW._replace(names=0, host_ports=2),
            (
                "~/src/billing -> /project (rw), home aisb-home-billing-3f2a19",
                "allow 0 names, 0 addresses, 2 ports of this host; gate 7f3c1a902b44 warm",
            ),
            id="ports of the host",
        ),
        pytest.param(
            VIEW._replace(project="/data/p", named="/home/ada/p"),
            (
                "~/p -> /data/p -> /project (rw), home aisb-home-billing-3f2a19",
                "allow 2 names, 0 addresses; gate 7f3c1a902b44 warm",
            ),
            id="a project by a link",
        ),
        pytest.param(
            VIEW._replace(net="none", project="", named=""),
            ("no project mounted, home aisb-home-billing-3f2a19", "no network"),
            id="none",
        ),
    ],
)
def test_two_lines_at_the_start_say_what_is_mounted_and_what_can_be_reached(
    view: StartView, lines: tuple[str, str]
) -> None:
    assert start_lines(view) == lines


def test_full_is_a_warning() -> None:
    assert start_lines(VIEW._replace(net="full"))[1].startswith("WARNING: --net full")


def record(host: str, port: int, reason: str, decision: str = "deny") -> str:
    return json.dumps({"host": host, "port": port, "reason": reason, "decision": decision})


def test_each_refused_destination_is_said_once_with_the_entry_that_would_allow_it() -> None:
    audit = [
        record("allowed.test", 443, "", "allow"),
        record("evil.test", 443, "not-listed"),
        record("evil.test", 443, "not-listed"),
        record("allowed.test", 8443, "port"),
        record("2001:db8::11", 443, "direct-address"),
        record("x.evil.test", 0, "dns"),
        record("allowed.test", 443, "name-mismatch"),
        record("refused.aisb.internal", 443, "not-listed"),
        record("$(touch${IFS}/tmp/x;id)", 0, "dns"),
        *(record(host, 443, "direct-address") for host in PROBED),
        "half a line {",
        "[]",
    ]

    assert denial_lines(audit) == [
        "denied evil.test:443 (2 times): no entry of the policy covers this host; to allow it, add: --allow evil.test",
        "denied allowed.test:8443: the host is allowed, but not on this port; "
        "to allow it, add: --allow allowed.test:8443",
        "denied [2001:db8::11]:443: no entry of the policy covers this address; to allow it, add: --allow '[2001:db8::11]:443'",
        "denied x.evil.test: no entry of the policy covers this name; to allow it, add: --allow x.evil.test "
        "(it opens 80 and 443; for another port: x.evil.test:PORT)",
        "denied allowed.test:443: the names in the request are not one and the same; no entry is proposed for this",
        "denied refused.aisb.internal:443: no entry of the policy covers this host; no entry is proposed for this",
        "denied $(touch${IFS}/tmp/x;id): no entry of the policy covers this name; no entry is proposed for this",
    ]


def test_a_refused_method_or_path_is_said_with_the_rule_that_would_allow_it() -> None:
    """As the gate wrote it down: what was asked for is nowhere else. It may be pasted into a shell."""
    denied = {"host": "a.test", "port": 443, "decision": "deny"}
    audit = [
        json.dumps(denied | {"reason": "path", "add": "GET a.test/it's"}),
        json.dumps(denied | {"reason": "method", "add": "PUT a.test/x"}),
        json.dumps(denied | {"reason": "method", "add": "PUT a.test/x"}),
        json.dumps(denied | {"reason": "path-form"}),
        json.dumps(denied | {"reason": "path", "add": "GET a.test/\x1b[2J"}),
    ]

    assert denial_lines(audit) == [
        "denied a.test:443 (2 times): the host and the path are allowed, but not with this method; "
        "to allow it, add: --allow 'PUT a.test/x'",
        "denied a.test:443: the host is allowed, but not this path; "
        """to allow it, add: --allow 'GET a.test/it'"'"'s'""",
        "denied a.test:443: the path is not in the one form that every server reads alike; no entry is proposed for this",
        "denied a.test:443: the host is allowed, but not this path; no entry is proposed for this",
    ]


def test_a_refusal_of_what_named_no_destination_says_so() -> None:
    assert denial_lines([record("", 0, "bad-request")]) == [
        "denied what was no request: the gate does not take a request in this form; no entry is proposed for this"
    ]


def test_every_reason_has_its_sentence() -> None:
    words = {value for kind in (Reason, Failure) for name, value in vars(kind).items() if name.isupper()}
    assert set(SENTENCES) == words


def test_what_was_allowed_and_came_to_nothing_is_said_after_the_refusals() -> None:
    """Over HTTPS the command has seen no more than a connection that ends."""
    audit = [
        json.dumps({"host": "gone.test", "port": 443, "reason": "", "decision": "allow", "failed": "unresolved"}),
        json.dumps({"host": "down.test", "port": 22, "reason": "", "decision": "allow", "failed": "unanswered"}),
        json.dumps({"host": "down.test", "port": 22, "reason": "", "decision": "allow", "failed": "unanswered"}),
        record("evil.test", 443, "not-listed"),
        record("allowed.test", 443, "", "allow"),
    ]

    assert denial_lines(audit) == [
        "denied evil.test:443: no entry of the policy covers this host; to allow it, add: --allow evil.test",
        "down.test:22 is allowed, but does not answer (2 times)",
        "gone.test:443 is allowed, but its name does not resolve",
    ]


@pytest.mark.parametrize(("failed", "is_said"), [("unresolved", True), ("unanswered", False)])
def test_name_servers_that_changed_are_named_where_a_name_did_not_resolve(failed: str, is_said: bool) -> None:
    """(C50) The gate of a run goes on asking those that were there at its start."""
    audit = [json.dumps({"host": "gone.test", "port": 443, "reason": "", "decision": "allow", "failed": failed})]
    stale = "the name servers of this machine have changed since this run began: a new run asks the new ones"

    assert denial_lines(audit, new_resolvers=True) == [*denial_lines(audit), *([stale] if is_said else [])]
    assert denial_lines([], new_resolvers=True) == []


def test_a_flood_of_destinations_is_summed_up() -> None:
    lines = denial_lines([record(f"{number}.evil.test", 443, "not-listed") for number in range(25)])

    assert (len(lines), lines[-1]) == (21, "... and 5 other destinations: aisb logs --summary")


def test_no_entry_is_proposed_that_would_be_refused() -> None:
    """Whoever can ask for names could lead the user to open a whole top-level name."""
    lines = denial_lines([record(host, 0, "dns") for host in ("com", "test", "co.uk", "github.io", "x.github.io")])

    assert [line.partition("; ")[2] for line in lines] == [
        *["no entry is proposed for this"] * 4,
        "to allow it, add: --allow x.github.io (it opens 80 and 443; for another port: x.github.io:PORT)",
    ]


def test_a_record_that_is_full_is_said_before_all_else() -> None:
    audit = [record(f"{number}.evil.test", 443, "not-listed") for number in range(30)] * 2
    cut_off = json.dumps({"host": "", "port": 0, "method": "AUDIT", "reason": "limit", "decision": "deny"})

    first, *others = denial_lines([*audit, cut_off])
    assert first == "the record of this run is full: what came later is not in it, nor below"
    assert others == denial_lines(audit)


def test_what_the_start_probes_is_what_the_summary_leaves_out() -> None:
    assert set(PROBED) == {probe.DENIED_V4[0], probe.DENIED_V6[0], probe.DENIED_NAME}


def test_timings_are_differences() -> None:
    assert timing_lines([("start", 1.0), ("plan", 1.05), ("exec", 1.25)]) == [
        "plan        50.0 ms",
        "exec       200.0 ms",
    ]
