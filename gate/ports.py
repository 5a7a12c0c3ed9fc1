"""
Where things listen on the gate's loopback; aisb/render/gate_files.py renders the same numbers.

squid is spoken to at three doors: absolute http:// URLs and raw tunnels, plain HTTP that was meant for one
name, and CONNECT to port 443.
"""

EXPLICIT = 3128
PLAIN = 3129
TLS = 3130
# The bridge's own: what `ok.aisb.internal` leads to, and where squid's log lines go. squid opens a tunnel to
# a peer only when the peer's port is the one that was asked for.
PROBE = 3131
PROBE_TLS = 443
LOG = 3132
