"""
Small clients, one for each program and library that agents use: for every URL a line, the page or "denied".

None of them knows of a sandbox. A refusal that takes a second or more, three times in a row, is "late", and the last.
"""

from __future__ import annotations

# A busy machine may be late once; what waits for a time-out is late each time.
_SHELL = """
get() {
    %s
}
now() { echo $(($(date +%%s%%N) / 1000000)); }
outcome() {
    for _ in 1 2 3; do
        started=$(now)
        if said=$(get "$1" 2>&1); then echo "$said"; return; fi
        waited=$(($(now) - started))
        if [ $waited -lt 1000 ]; then echo denied; return; fi
    done
    echo "late, $waited ms: $said"
    exit
}
for url; do outcome "$url"; done
"""

_CURL = 'curl --silent --show-error --fail --max-time 3 "$1"'
_WGET = 'wget --quiet --output-document=- --timeout=3 --tries=1 "$1"'
# Of a repository a file is shown.
_GIT = 'copy=$(mktemp -d) && timeout 5 git clone --quiet "$1/repo.git" "$copy" && cat "$copy/README"'

_PYTHON = """
import sys, time
%s
def outcome(url):
    for _ in range(3):
        started = time.monotonic()
        try:
            return get(url).strip()
        except Exception as error:
            if time.monotonic() - started < 1:
                return "denied"
            said = f"late: {error!r}"
    return said
for url in sys.argv[1:]:
    said = outcome(url)
    print(said)
    if said.startswith("late"):
        break
"""

_URLLIB = """
from urllib.request import urlopen
def get(url):
    return urlopen(url, timeout=3).read().decode()
"""

_REQUESTS = """
import requests
def get(url):
    answer = requests.get(url, timeout=3)
    answer.raise_for_status()
    return answer.text
"""

_HTTPX = """
import httpx
def get(url):
    return httpx.get(url, timeout=3).raise_for_status().text
"""

_AIOHTTP = """
import aiohttp, asyncio
async def fetch(url):
    async with aiohttp.ClientSession(%s) as session, session.get(url, raise_for_status=True) as answer:
        return await answer.text()
def get(url):
    return asyncio.run(asyncio.wait_for(fetch(url), 3))
"""

_FETCH = """
const outcome = async (url) => {
    let said;
    for (let tries = 0; tries < 3; tries++) {
        const started = performance.now();
        try {
            const answer = await fetch(url, { signal: AbortSignal.timeout(3000) });
            said = answer.ok ? (await answer.text()).trim() : undefined;
            if (answer.ok) return said;
        } catch (error) {
            said = error.cause ?? error;
        }
        if (performance.now() - started < 1000) return "denied";
    }
    return `late: ${said}`;
};
(async () => {
    for (const url of process.argv.slice(1)) {
        const said = await outcome(url);
        console.log(said);
        if (said.startsWith("late")) break;
    }
})();
"""

CLIENTS: dict[str, tuple[str, ...]] = {
    "curl": ("sh", "-c", _SHELL % _CURL, "curl"),
    "wget": ("sh", "-c", _SHELL % _WGET, "wget"),
    "git": ("sh", "-c", _SHELL % _GIT, "git"),
    "fetch": ("node", "-e", _FETCH),
    "urllib": ("python3", "-c", _PYTHON % _URLLIB),
    "requests": ("python3", "-c", _PYTHON % _REQUESTS),
    "httpx": ("python3", "-c", _PYTHON % _HTTPX),
    "aiohttp": ("python3", "-c", _PYTHON % (_AIOHTTP % "")),
    "aiohttp, trusting": ("python3", "-c", _PYTHON % (_AIOHTTP % "trust_env=True")),
}
"""Each takes URLs as arguments."""

PACKAGES = "python3-requests,python3-httpx,python3-aiohttp,python3-pip,python3-venv,postgresql-client"
"""What `--install` adds for them, and for the programs of test_programs.py: one image serves both."""
