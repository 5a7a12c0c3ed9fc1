"""passwd, group, hosts and resolv.conf of a sandbox, and the variables that its command gets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisb.errors import InternalError
from aisb.render.argv import HOME_TARGET

if TYPE_CHECKING:
    from collections.abc import Mapping

RESOLVER = "198.18.0.1"
PROXY = "http://127.0.0.1:3128"
# What is the sandbox's own, and what aisb itself leads to. Then the addresses that are made up for names: who has
# looked a name up and asks its proxy for the address alone (gRPC for Go 1.64 does) would be refused there.
NO_PROXY = "localhost,127.0.0.1,::1,0.0.0.0,host.aisb.internal,198.18.0.0/15"
CA_BUNDLE = "/run/user/1000/aisb/ca-bundle.pem"
# The launcher writes it beside the bundle: wget has a setting for certificates, and a variable for its settings alone.
WGETRC = "/run/user/1000/aisb/wgetrc"
PATH = "/home/sandbox/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
INHERITED = ("TERM", "LANG", "LC_ALL", "LC_CTYPE", "TZ")
CA_VARIABLES = (
    "CARGO_HTTP_CAINFO",
    "CURL_CA_BUNDLE",
    "DENO_CERT",
    "GIT_SSL_CAINFO",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_FILE",
)

# Of a name that does not resolve npm and pnpm make three tries, and wait for 10 and 60 seconds in between.
NPM_PATIENCE = {
    f"{program}_config_fetch_retry_{limit}": value
    for program in ("npm", "pnpm")
    for limit, value in (("mintimeout", "1000"), ("maxtimeout", "3000"))
}


def passwd(user: str) -> str:
    """Accounts by their numbers: the command's has the host user's name, so that `whoami` tells the truth."""
    return (
        "root:x:0:0:root:/root:/usr/sbin/nologin\n"
        "aisb-relay:x:999:999:relay:/nonexistent:/usr/sbin/nologin\n"
        f"{user}:x:1000:1000:{user}:{HOME_TARGET}:/bin/bash\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    )


def group(user: str) -> str:
    """Groups to go with `passwd`."""
    return f"root:x:0:\ntty:x:5:\naisb-relay:x:999:\n{user}:x:1000:\nnogroup:x:65534:\n"


def hosts() -> str:
    """Only the sandbox's own names: everything else is asked of the relay."""
    return "127.0.0.1 localhost sandbox\n::1 localhost ip6-localhost ip6-loopback\n"


def resolv_conf() -> str:
    """The address is redirected to the relay whatever it is; this one belongs to nobody."""
    return f"nameserver {RESOLVER}\noptions timeout:2 attempts:2\n"


def command_environment(
    *,
    user: str,
    net: str,
    inherited: Mapping[str, str],
    given: Mapping[bytes, bytes],
    extra_certificates: bool,
    agents: Mapping[str, str],
) -> dict[bytes, bytes]:
    """
    All variables of the command, and nothing else of the host's. What the user gave wins.

    `agents` are those that the image's agent is to have.
    """
    own = {
        "HOME": HOME_TARGET,
        "LANG": "C.UTF-8",
        "LOGNAME": user,
        "PATH": PATH,
        "SHELL": "/bin/bash",
        "USER": user,
        "XDG_RUNTIME_DIR": "/run/user/1000",
        **agents,
        # npm's own place for programs is root's; what `npm install --global` puts into this one is on PATH.
        "npm_config_prefix": f"{HOME_TARGET}/.local",
        # Node's headers are in the image: native modules are built without a download.
        "npm_package_config_node_gyp_nodedir": "/usr/local",
        **{name: inherited[name] for name in INHERITED if inherited.get(name)},
    }
    if net != "full":
        own |= NPM_PATIENCE
    if net == "allow":
        own |= dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), PROXY)
        own |= {"no_proxy": NO_PROXY, "NO_PROXY": NO_PROXY}
    if extra_certificates:
        own |= dict.fromkeys(CA_VARIABLES, CA_BUNDLE) | {"NODE_USE_SYSTEM_CA": "1", "SYSTEM_WGETRC": WGETRC}
    return {name.encode(): value.encode("utf-8", "surrogateescape") for name, value in own.items()} | dict(given)


def environment_block(environment: Mapping[bytes, bytes]) -> bytes:
    """The variables as they travel: `NAME=VALUE`, each ended by NUL, sorted by name. No value can add another one."""
    if any(b"\0" in name + value or b"=" in name or not name for name, value in environment.items()):
        raise InternalError("a variable that no environment can hold came this far")
    return b"".join(name + b"=" + environment[name] + b"\0" for name in sorted(environment))


def parse_block(block: bytes) -> dict[bytes, bytes]:
    """The variables of such a block."""
    return dict(entry.partition(b"=")[::2] for entry in block.split(b"\0")[:-1])
