"""
Small clients, one for each program and library that agents use: for every URL a line, the page or "denied".

None of them knows of a sandbox. A refusal that takes a second or more, three times in a row, is "late".
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
        said=$(get "$1" 2>&1) && break
        waited=$(($(now) - started))
        if [ $waited -lt 1000 ]; then said=denied; break; fi
        said="late, $waited ms: $said"
    done
    echo "$said"
}
for url; do outcome "$url"; done
"""

_CURL = 'curl --silent --show-error --fail --max-time 5 "$1"'
_WGET = 'wget --quiet --output-document=- --timeout=5 --tries=1 "$1"'
# Of a repository a file is shown.
_GIT = 'copy=$(mktemp -d) && git clone --quiet "$1/repo.git" "$copy" && cat "$copy/README"'

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
    print(outcome(url))
"""

_URLLIB = """
from urllib.request import urlopen
def get(url):
    return urlopen(url, timeout=5).read().decode()
"""

_REQUESTS = """
import requests
def get(url):
    answer = requests.get(url, timeout=5)
    answer.raise_for_status()
    return answer.text
"""

_HTTPX = """
import httpx
def get(url):
    return httpx.get(url, timeout=5).raise_for_status().text
"""

_AIOHTTP = """
import aiohttp, asyncio
async def fetch(url):
    async with aiohttp.ClientSession(%s) as session, session.get(url, raise_for_status=True) as answer:
        return await answer.text()
def get(url):
    return asyncio.run(asyncio.wait_for(fetch(url), 5))
"""

_FETCH = """
const outcome = async (url) => {
    let said;
    for (let tries = 0; tries < 3; tries++) {
        const started = performance.now();
        try {
            const answer = await fetch(url, { signal: AbortSignal.timeout(5000) });
            said = answer.ok ? (await answer.text()).trim() : undefined;
            if (answer.ok) return said;
        } catch (error) {
            said = error.cause ?? error;
        }
        if (performance.now() - started < 1000) return "denied";
    }
    return `late: ${said}`;
};
(async () => { for (const url of process.argv.slice(1)) console.log(await outcome(url)); })();
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

PACKAGES = "python3-requests,python3-httpx,python3-aiohttp"
"""What `--install` adds for them."""
