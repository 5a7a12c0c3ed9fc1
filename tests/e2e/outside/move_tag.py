"""
Moves the tag of aisb-test-base:1 in the registry on 127.0.0.1:5000: the same image, its manifest written another way.

So it has another digest, and a build on it finds every layer.
"""

from __future__ import annotations

import json
import urllib.request

MANIFEST = "http://127.0.0.1:5000/v2/aisb-test-base/manifests/1"
KINDS = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"

with urllib.request.urlopen(urllib.request.Request(MANIFEST, headers={"Accept": KINDS})) as answer:
    manifest, kind = json.load(answer), answer.headers["Content-Type"]
moved = json.dumps(manifest, indent=7).encode()
put = urllib.request.Request(MANIFEST, data=moved, method="PUT", headers={"Content-Type": kind})
urllib.request.urlopen(put).close()
