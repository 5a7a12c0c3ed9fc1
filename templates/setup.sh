#!/bin/sh
# The steps of an image's build: `setup DIGEST STEP ARGUMENT...`, mounted for one RUN at a time, part of no image.
#
# What the host lends to a build (apt's sources and settings, npm's configuration, certificates) lies below
# /run/secrets while a step runs, and is used from there or from a tmpfs: no layer keeps a byte of it.
set -eu
umask 022

secrets=/run/secrets
archives=/run/aisb-archives
held=/run/aisb-build/held
scratch=/run/aisb-scratch

# Both kinds of line are read by aisb, in the build's output.
say() { printf 'aisb-step: %s\n' "$*"; }
fail() {
    printf 'aisb-fail: %s\n' "$*"
    exit 1
}

# aisb holds a lock on this file for as long as it wants the step to go on. podman would leave it running. A file
# that is not held any more ends everything in this container, and only there: process 1 is this very script.
watch_aisb() {
    grep -q aisb-build/setup /proc/1/cmdline || return 0
    while sleep 1; do
        flock --nonblock --shared "$held" true || continue
        kill -KILL -1
        exit 1
    done
}

# --- apt ------------------------------------------------------------------------------------------

need_apt() {
    for tool in apt-get dpkg; do
        command -v "$tool" >/dev/null || fail "the base image has no $tool: it has to be Debian, Ubuntu or a relative"
    done
}

# The host's mirror serves the base if both are of one distribution; otherwise the base's own sources hold.
host_sources() {
    [ -s "$secrets/aisb-apt-sources" ] || return 0
    # shellcheck source=/dev/null  # the base image's own file
    . /etc/os-release
    [ "$(head -n 1 "$secrets/aisb-apt-sources")" = "# $ID" ] || return 0
    [ -n "${VERSION_CODENAME:-}" ] || return 0
    mkdir -p "$scratch/sources"
    sed "s/@suite@/$VERSION_CODENAME/g" "$secrets/aisb-apt-sources" >"$scratch/sources/host.sources"
    for keyring in debian-archive-keyring.pgp debian-archive-keyring.gpg ubuntu-archive-keyring.gpg; do
        if [ -f "/usr/share/keyrings/$keyring" ]; then
            sed -i "/^URIs:/i Signed-By: /usr/share/keyrings/$keyring" "$scratch/sources/host.sources"
            break
        fi
    done
    printf 'Dir::Etc::SourceList "/dev/null";\nDir::Etc::SourceParts "%s";\n' "$scratch/sources"
}

configure_apt() {
    {
        [ ! -s "$secrets/aisb-apt-conf" ] || cat "$secrets/aisb-apt-conf"
        [ ! -s "$secrets/aisb-ca" ] || printf 'Acquire::https::CAInfo "%s";\n' "$secrets/aisb-ca"
        host_sources
        cat <<'CONF'
Acquire::Retries "3";
Acquire::Languages "none";
APT::Install-Recommends "false";
APT::Cmd::Pattern-Only "true";
APT::Update::Error-Mode "any";
DPkg::Use-Pty "0";
DPkg::Options {
    "--force-confdef"; "--force-confold";
    "--path-exclude=/usr/share/doc/*"; "--path-include=/usr/share/doc/*/copyright";
    "--path-exclude=/usr/share/info/*"; "--path-exclude=/usr/share/locale/*"; "--path-exclude=/usr/share/man/*";
    "--path-exclude=/usr/share/squid-langpack/*"; "--path-include=/usr/share/squid-langpack/templates/*";
};
CONF
    } >"$scratch/apt.conf"
}

apt() {
    DEBIAN_FRONTEND=noninteractive apt-get --config-file="$scratch/apt.conf" --quiet --yes "$@"
}

# shellcheck disable=SC2016  # apt's own variable
has_sources() { [ -n "$(apt indextargets --format '$(URI)')" ]; }

# apt tries again where a download fails, and not where a list and its index do not agree: those of a mirror that is
# just being renewed, or of a proxy that still has an old one.
update_lists() {
    apt update && return 0
    say "apt could not read its package lists; trying once more"
    sleep 5
    apt update
}

read_lists() {
    configure_apt
    if ! update_lists; then
        # The host's mirror may have another release only, or another architecture.
        sed -i '/^Dir::Etc::Source/d' "$scratch/apt.conf"
        { [ -d "$scratch/sources" ] && has_sources; } || fail "apt could not read its package lists"
        say "this machine's apt sources do not serve this base; trying its own"
        apt update || fail "apt could read the package lists of neither this machine's sources nor the base's own"
    fi
    has_sources || fail "there is no apt source for this base, neither in it nor on this machine"
}

install_packages() {
    read_lists
    apt upgrade || fail "apt could not bring the base up to date"
    apt install -- "$@" || fail "apt could not install: $*"
}

# No new privileges is always set in a sandbox, so a setuid bit gives nothing but a larger surface.
tidy() {
    apt-get clean
    rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /var/cache/ldconfig/aux-cache
    rm -rf /var/lib/dpkg/*-old /var/log/apt /var/log/*.log
    find / -xdev -type f -perm /6000 -exec chmod a-s {} +
}

step_packages() {
    generation=$1
    shift
    need_apt
    say "packages of the sandbox ($# and what they need, generation $generation)"
    install_packages "$@"
    ln -sf /usr/bin/fdfind /usr/local/bin/fd
    tidy
}

step_extra() {
    say "packages asked for by --install: $*"
    install_packages "$@"
    tidy
}

not_needed='perl|perl-modules-.*|libperl5.*|libdbi-perl|libgdbm.*|logrotate|libpopt0|cron|cron-daemon-common'
not_needed="$not_needed|systemd|libsystemd-shared|sensible-utils"

# squid's package needs perl and a log rotator with systemd behind it, for programs of its own that a gate never
# starts: two thirds of the image. They are taken out again, against the dependency, where the base did not have
# them before. Nothing is installed into this image afterwards.
step_gate_packages() {
    generation=$1
    shift
    need_apt
    say "packages of the gate ($# and what they need, generation $generation)"
    installed >"$scratch/before"
    install_packages "$@"
    say "taking out what squid does not need to run"
    unused=$(installed | grep -vxFf "$scratch/before" | grep -xE "$not_needed" || true)
    # shellcheck disable=SC2086  # package names, one word each
    [ -z "$unused" ] || dpkg --purge --force-depends $unused >/dev/null 2>&1 || fail "dpkg could not remove: $unused"
    rm -rf /usr/sbin/squid-gnutls /usr/lib/python3.*/pydoc_data /usr/lib/python3.*/test /usr/lib/python3.*/turtle.py
    rm -f /usr/lib/python3.*/__pycache__/turtle.* /usr/lib/python3.*/lib-dynload/_test*
    # A program in there that is never started can at most be misused: authentication, ping, rewriting.
    find /usr/lib/squid -type f ! -name security_file_certgen ! -name unlinkd -delete
    tidy
}

installed() { dpkg-query --show --showformat '${Package}\n' | LC_ALL=C sort -u; }

# --- Node and the agent ---------------------------------------------------------------------------

step_node() {
    version=$1
    origin=$2
    shift 2
    say "node $version"
    [ "$origin" = npm ] || [ "$origin" = tarball ] || fail "there is no source '$origin' of node"
    check_archive "$1" "$2"
    if [ "$origin" = npm ]; then
        check_archive "$3" "$4"
        mkdir -p "$scratch/node" /usr/local/lib/node_modules/npm
        tar -xzf "$archives/$1" -C /usr/local --strip-components=1 --no-same-owner package/bin package/include
        tar -xzf "$archives/$3" -C /usr/local/lib/node_modules/npm --strip-components=1 --no-same-owner
        ln -sf ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm
        ln -sf ../lib/node_modules/npm/bin/npx-cli.js /usr/local/bin/npx
    else
        tar -xJf "$archives/$1" -C /usr/local --strip-components=1 --no-same-owner \
            --exclude='*/corepack' --exclude='*/share' --exclude='*.md' --exclude='*/LICENSE'
    fi
    trim_headers
    chmod -R u=rwX,go=rX /usr/local/bin /usr/local/include /usr/local/lib/node_modules
    [ "$(node --version)" = "v$version" ] || fail "node says it is $(node --version), not v$version"
}

check_archive() {
    found=$(sha256sum "$archives/$1" | cut -d ' ' -f 1)
    [ "$found" = "$2" ] || fail "$1 has the sha256 $found, not $2"
}

# Node's headers carry OpenSSL's for every architecture there is, 54 MB; a native module needs those of this one.
trim_headers() {
    headers=/usr/local/include/node/openssl/archs
    [ -d "$headers" ] || return 0
    find "$headers" -mindepth 1 -maxdepth 1 ! -name "linux-$(uname -m)*" -exec rm -rf {} +
}

npm() {
    NODE_EXTRA_CA_CERTS=$certificates HOME=$scratch command npm --cache "$scratch/npm" --userconfig "$npm_configuration" \
        --ignore-scripts --no-fund --no-audit --no-update-notifier --loglevel warn "$@"
}

configure_npm() {
    certificates=''
    npm_configuration=/dev/null
    [ ! -s "$secrets/aisb-ca" ] || certificates=$secrets/aisb-ca
    [ ! -s "$secrets/aisb-npmrc" ] || npm_configuration=$secrets/aisb-npmrc
}

# In a container that is gone afterwards, for a host without npm.
step_fetch() {
    need_apt
    install_packages npm
    configure_npm
    npm pack "$@" || fail "npm could not fetch: $*"
}

# In a container of a finished image that is gone afterwards: what an update would bring. Nothing is installed.
step_newer() {
    if (read_lists); then
        printf 'aisb-lists: read\n'
        apt --simulate upgrade | sed -n 's/^Inst \([^ ]*\) \[\([^]]*\)\] (\([^ ]*\) .*/aisb-upgrade: \1 \2 \3/p'
        LC_ALL=C apt-cache --config-file="$scratch/apt.conf" policy squid-openssl |
            sed -n 's/^  Candidate: \([^ ]*\)$/aisb-squid: \1/p'
    fi
    configure_npm
    for package; do
        if found=$(npm view "$package" version --json); then
            printf 'aisb-latest: %s %s\n' "$package" "$(printf '%s' "$found" | tr -d '\n')"
        fi
    done
}

step_agent() {
    npm_version=$1
    package=$2
    version=$3
    configure_npm
    say "agent $package $version"
    if [ "$(npm --version)" != "$npm_version" ]; then
        # Beside the old one and then in its place: an npm that replaces itself may miss its own files half-way.
        npm install --global --prefix "$scratch/new" "npm@$npm_version" || fail "npm $npm_version could not be installed"
        rm -rf /usr/local/lib/node_modules/npm
        mv "$scratch/new/lib/node_modules/npm" /usr/local/lib/node_modules/npm
    fi
    npm install --global "$package@$version" || fail "npm could not install $package@$version"
    # A package that is a program and says so to nobody: npm links nothing of it.
    [ $# = 3 ] || ln -s "../lib/node_modules/$package/$5" "/usr/local/bin/$4"
    # Source maps serve whoever debugs these programs, and are a fifth of them: 34 MB.
    find /usr/local/lib/node_modules -name '*.map' -type f -delete
    chmod -R u=rwX,go=rX /usr/local/lib/node_modules
}

# --- what belongs to the sandbox ------------------------------------------------------------------

in_the_way() { awk -F : '$3 == 1000 || $1 == "sandbox" { print $1 }' "$@"; }

# Some bases (ubuntu:24.04) have a user 1000 of their own. Numbers are what counts: at run time /etc/passwd and
# /etc/group are mounted, with the host user's name for 1000 and the relay's for 999.
step_users() {
    say "the user"
    in_the_way /etc/passwd | while read -r user; do
        userdel --force --remove "$user" 2>/dev/null || true
    done
    in_the_way /etc/group | while read -r group; do
        groupdel --force "$group" 2>/dev/null || true
    done
    [ -z "$(in_the_way /etc/passwd /etc/group)" ] ||
        fail "the base has a user or group that cannot be removed: $(in_the_way /etc/passwd /etc/group)"
    groupadd --gid 1000 sandbox
    useradd --uid 1000 --gid 1000 --home-dir /home/sandbox --no-create-home --no-log-init --shell /bin/bash sandbox
    rm -f /etc/passwd- /etc/group- /etc/shadow- /etc/gshadow- /etc/subuid- /etc/subgid-
    install -d -m 0755 /project /run/aisb /run/user /etc/aisb
    install -d -m 0700 -o 1000 -g 1000 /home/sandbox /run/user/1000
}

# --- the end of both ------------------------------------------------------------------------------

need_tools() {
    for tool; do
        command -v "$tool" >/dev/null || fail "$tool is missing in this base and could not be added"
    done
}

need_setpriv() {
    setpriv --reuid=1000 --regid=1000 --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs -- /bin/true ||
        fail "this base's setpriv cannot drop everything: util-linux's is needed"
}

need_python() {
    python3 -I -S -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        fail "$(python3 --version) is too old: this base needs python3 3.11 or newer"
}

need_squid() {
    case $(squid -v) in
        *--with-openssl*) ;;
        *) fail "this base's squid was built without OpenSSL and cannot look at TLS" ;;
    esac
    [ -x /usr/lib/squid/security_file_certgen ] || fail "security_file_certgen is missing: this base's squid makes no certificates"
    getent passwd proxy >/dev/null || fail "this base's squid has no user 'proxy'"
}

# A pyc that is checked against its source by neither time nor hash: the source cannot change in a finished image.
compile_programs() {
    python3 -I -S -m compileall -q --invalidation-mode unchecked-hash /usr/libexec/aisb || fail "aisb's programs do not compile"
}

write_manifest() {
    install -d -m 0755 /etc/aisb
    {
        dpkg-query --show --showformat 'deb ${Package} ${Version}\n'
        [ ! -x /usr/local/bin/node ] || node_packages
    } | LC_ALL=C sort -u >/etc/aisb/manifest.txt
}

node_packages() {
    printf 'node node %s\n' "$(node --version | tr -d v)"
    # shellcheck disable=SC2016  # JavaScript's own template literals
    node -e '
        const { readdirSync, readFileSync, existsSync } = require("fs")
        const look = (folder) => {
            for (const name of existsSync(folder) ? readdirSync(folder) : []) {
                if (name.startsWith(".")) continue
                const path = `${folder}/${name}`
                if (name.startsWith("@")) { look(path); continue }
                const file = `${path}/package.json`
                if (!existsSync(file)) continue
                const { name: full, version } = JSON.parse(readFileSync(file, "utf8"))
                console.log(`npm ${full} ${version}`)
                look(`${path}/node_modules`)
            }
        }
        look("/usr/local/lib/node_modules")'
}

# Where secrets were mounted an empty folder is left.
leave_no_trace() {
    rm -rf /tmp/* /var/tmp/* /root/.npm /root/.cache
    [ ! -d "$secrets" ] || rmdir "$secrets" || fail "something was left in $secrets"
}

step_finish() {
    say "checking what is in it"
    compile_programs
    if [ "$1" = sandbox ]; then
        need_tools setpriv nft ip tini python3 git curl wget jq rg fd ssh cc make ps less node npm "$2"
        case "$(HOME=$scratch "$2" --version) " in
            "$3 "*) ;;
            *) fail "$2 does not say that it is $3" ;;
        esac
    else
        need_tools setpriv nft python3 openssl squid
        need_squid
    fi
    need_python
    need_setpriv
    write_manifest
    leave_no_trace
}

shift
step=$1
shift
if [ -f "$held" ]; then
    watch_aisb </dev/null >/dev/null 2>&1 &
fi
"step_$step" "$@"
