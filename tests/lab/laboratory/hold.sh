#!/bin/sh -eu
# In a fresh mount namespace, make the view that one host of the laboratory has, and hold it until killed.
# Nothing here touches a mount of the machine: the namespace is private.
#
#   hold.sh ROOT HOME_SOURCE HOME UID GID NAMESERVER BUNDLE [PATH...]
#
# ROOT        / for the machine's own system, or a folder with another one
# HOME_SOURCE directory that becomes HOME
# BUNDLE      the machine's CA bundle, seen at the same path
# PATH        further files and directories of the machine, seen read-only at the same path
root=$1 home_source=$2 home=$3 uid=$4 gid=$5 nameserver=$6 bundle=$7
shift 7

# Bind SOURCE to TARGET, making TARGET first: a directory or a file, as SOURCE is.
bind() {
    if [ -d "$1" ]; then
        mkdir -p "$2"
    else
        mkdir -p "$(dirname "$2")"
        [ -e "$2" ] || : >"$2"
    fi
    mount --rbind "$1" "$2"
}

if [ "$root" != / ]; then
    mount --bind "$root" "$root"
    for directory in proc sys dev; do
        mount --rbind "/$directory" "$root/$directory"
    done
    for path in "$bundle" "$@"; do
        bind "$path" "$root$path"
    done
fi
mkdir -p "$root$home"
mount --bind "$home_source" "$root$home"
if [ "$root" != / ]; then
    # pivot_root, not chroot: in a chroot the kernel refuses user namespaces.
    cd "$root"
    mkdir -p oldroot
    pivot_root . oldroot
    cd /
    umount -l /oldroot
    rmdir /oldroot
fi

# The account's containers must not meet the machine's runtime files, nor share podman's locks in /dev/shm.
mount -t tmpfs -o mode=0755 tmpfs /run
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mkdir -p "/run/user/$uid" /run/lock
chown "$uid:$gid" "/run/user/$uid"
chmod 0700 "/run/user/$uid"

# crun refuses the hybrid layout (version 1 with version 2 at `unified`): this host has version 2 alone.
umount -l /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup

echo "nameserver $nameserver" >/run/resolv.conf
resolv=$(readlink -m /etc/resolv.conf)
mkdir -p "$(dirname "$resolv")"
[ -e "$resolv" ] || : >"$resolv"
mount --bind /run/resolv.conf "$resolv"

mount --make-rshared /
ip link set lo up
echo ready
exec sleep infinity
