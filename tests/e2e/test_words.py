"""What a person and an agent read about a host that was refused, and about one that is allowed but not there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

# Nothing listens on port 81 of a host in the fake internet.
ASK = """
exec 2>&1
page() { curl -s -w '%{http_code} %{content_type}\\n' "$@"; }
page http://nowhere.test/
page --noproxy '*' http://nowhere.test/
page http://allowed.test:81/
curl -s --noproxy '*' http://allowed.test:81/ || echo "raw: nothing"
for way in '' '*'; do curl -s --noproxy "$way" https://nowhere.test/ && echo reached; done
curl -s -o /dev/null https://evil.test/ || echo "by proxy: $?"
curl -s --noproxy '*' https://evil.test/ || echo "without: $?"
"""
NEXT = "next: the policy allows it, so no entry would help: check the name, or ask whoever runs that host"
KIND = "text/plain; charset=utf-8"
UNRESOLVED = {
    "502": "reason: its name does not resolve, or it broke the connection off",
    "503": "reason: its name does not resolve: Name Error: The domain name does not exist.",
}


def test_what_is_allowed_but_not_there_is_told_from_what_is_refused(lab: Lab) -> None:
    """Over HTTP by a page in words, for each way out; over HTTPS by the last lines alone."""
    result = lab.run('aisb --allow nowhere.test --allow allowed.test:81 -- sh -c "$ASK"', env={"ASK": ASK})

    # Which of its addresses squid tries last is chance.
    text = re.sub(r"(?<=who: sandbox )[0-9a-f]{8}", "RUN", result.text)
    said = re.sub(r"(203\.0\.113\.10|2001:db8::10)(?= does)", "ADDRESS", text).splitlines()
    # What squid 5.7 and 6.13 call a name that does not resolve differs.
    code = said[6].partition(" ")[0]
    page = ["The gate cannot reach this host", "who: sandbox RUN"]
    unresolved = [*page, "host: nowhere.test", "port: 80", UNRESOLVED[code], NEXT, f"{code} {KIND}"]
    refused = "reason: ADDRESS does not take the connection: (111) Connection refused"
    unanswered = [*page, "host: allowed.test", "port: 81", refused, NEXT, f"503 {KIND}"]
    assert said == [*unresolved, *unresolved, *unanswered, "raw: nothing", "by proxy: 56", "without: 6"]
    # How often a name is asked for is the resolver's affair, and the more often the earlier it is named.
    ends = [line for line in result.errors.splitlines() if re.search("denied | is allowed, but", line)]
    assert {re.sub(r" \(\d+ times\)", "", line) for line in ends} == {
        "aisb: denied evil.test:443: no entry of the policy covers this host; to allow it, add: --allow evil.test",
        "aisb: denied evil.test: no entry of the policy covers this name; to allow it, add: --allow evil.test "
        "(it opens 80 and 443; for another port: evil.test:PORT)",
        "aisb: nowhere.test:80 is allowed, but its name does not resolve",
        "aisb: nowhere.test:443 is allowed, but its name does not resolve",
        "aisb: allowed.test:81 is allowed, but does not answer",
    }


def test_a_network_for_the_gate_that_is_not_there_is_one_sentence(lab: Lab) -> None:
    """69, with what to look at, and not podman's whole command line."""
    by_flag = lab.run("aisb --allow allowed.test --gate-network no-such-one -- true")
    by_variable = lab.run("aisb --allow allowed.test -- true", env={"AISB_GATE_NETWORK": "no-such-one"})

    for result, origin in ((by_flag, "--gate-network"), (by_variable, "AISB_GATE_NETWORK")):
        assert (result.code, result.text, result.errors) == (
            69,
            "",
            f"aisb: {origin} no-such-one: podman has no such network\naisb:   see: podman network ls\n",
        )
