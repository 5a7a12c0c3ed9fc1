# Runs in a sandbox and leaves in the project what a shell, the loader, Python, Node or a search path would
# run by itself. Each thing notes who runs it, in a file that everybody can write.
set -eu
cd /project
mkdir bin
: >noted
chmod 666 noted

cat >x.c <<END
#include <stdio.h>
#include <string.h>
#include <unistd.h>
__attribute__((constructor)) static void note(void) {
    char line[200], capabilities[40] = "?";
    FILE *status = fopen("/proc/self/status", "r"), *noted = fopen("/project/noted", "a");
    while (status && fgets(line, sizeof line, status)) sscanf(line, "CapEff: %39s", capabilities);
    if (noted) fprintf(noted, "x.so %d %s\n", geteuid(), capabilities), fclose(noted);
    if (status) fclose(status);
}
END
gcc -shared -fPIC -o x.so x.c
mkdir gconv && cp x.so gconv/UTF-7.so

note='$(id -u) $(sed -n "s/^CapEff:\t//p" /proc/self/status)'
echo "echo x.sh $note >>/project/noted" >x.sh
for name in env id ip nft python3 sed setpriv sh tini true; do
    printf '#!/bin/sh\nPATH=/usr/sbin:/usr/bin\necho "bin %s" >>/project/noted\nexec %s "$@"\n' "$note" $name >bin/$name
done
chmod 755 bin/*
for name in sitecustomize usercustomize gate; do
    cat >$name.py <<END
import os
with open("/proc/self/status") as status, open("/project/noted", "a") as noted:
    capabilities = [line.split()[1] for line in status if line.startswith("CapEff")][0]
    noted.write(f"$name.py {os.geteuid()} {capabilities}\n")
END
done
