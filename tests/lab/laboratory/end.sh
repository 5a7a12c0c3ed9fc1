#!/bin/sh -eu
# In a fresh mount namespace, end every process of a control group and remove the group.
#
#   end.sh GROUP
mount -t cgroup2 cgroup2 /sys/fs/cgroup
cd "/sys/fs/cgroup/$1" 2>/dev/null || exit 0
echo 1 >cgroup.kill
while grep -q 'populated 1' cgroup.events; do
    sleep 0.02
done
find . -depth -mindepth 1 -type d -exec rmdir {} +
cd ..
rmdir "$(basename "$1")"
