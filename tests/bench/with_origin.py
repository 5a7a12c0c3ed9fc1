#!/usr/bin/python3
"""
Runs a command while the bench's server is part of a laboratory host's fake internet. As root.

    tests/bench/with_origin.py HOST COMMAND [ARG...]

`ruled.bench.test`, `passed.bench.test` and `injected.bench.test` lead to it, on ports 443 and 5432. A call of `tests/lab/run` by the command finds it there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parent
sys.path.insert(0, str(BENCH.parent / "lab"))

from laboratory import world  # noqa: E402  # found by the path above
from laboratory.internet.authority import Authority  # noqa: E402
from laboratory.locks import locked  # noqa: E402
from laboratory.settings import need_host  # noqa: E402

ADDRESS = "198.51.100.64"
NAMES = ("ruled.bench.test", "passed.bench.test", "injected.bench.test")
PORT, ECHO_PORT = "9443", "9432"
# The fake internet's own servers have 443 of every address.
REDIRECT = f"""
table ip bench {{
    chain arrivals {{
        type nat hook prerouting priority dstnat;
        ip daddr {ADDRESS} tcp dport 443 redirect to :{PORT}
        ip daddr {ADDRESS} tcp dport 5432 redirect to :{ECHO_PORT}
    }}
}}
"""


def main() -> int:
    """See the module; the exit status is the command's."""
    host = need_host(sys.argv[1])
    internet = world.need(host).processes["internet"].pid
    inside = ("nsenter", "--target", str(internet), "--net")
    authority = host.cache / "authority"
    for name in NAMES:
        Authority(authority).context(name)
    made = host.cache / "names"
    before = made.read_text() if made.exists() else None
    subprocess.run([*inside, "nft", "destroy", "table", "ip", "bench"], check=False, stderr=subprocess.DEVNULL)
    with locked(host.use):
        subprocess.run([*inside, "nft", "-f", "-"], input=REDIRECT, text=True, check=True)
        made.write_text("".join(f"{name} A {ADDRESS}\n" for name in NAMES))
        origin = subprocess.Popen(
            [*inside, "/usr/bin/python3", str(BENCH / "origin.py"), str(authority), PORT, ECHO_PORT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            assert origin.stdout is not None
            if not origin.stdout.readline():
                sys.exit("the bench's server did not start")
            environment = os.environ | {"LAB_HOST": host.name, "LAB_HELD": "yes", "BENCH_ADDRESS": ADDRESS}
            return subprocess.run(sys.argv[2:], env=environment, check=False).returncode
        finally:
            origin.kill()
            origin.wait()
            subprocess.run([*inside, "nft", "delete", "table", "ip", "bench"], check=False)
            if before is None:
                made.unlink()
            else:
                made.write_text(before)


if __name__ == "__main__":
    sys.exit(main())
