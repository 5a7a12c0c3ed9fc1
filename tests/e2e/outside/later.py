"""
aisb as it will be in DAYS days: DAYS ARGUMENT...

Runs on a host. Nothing else is changed: other programs see the time that it is.
"""

from __future__ import annotations

import sys
import time

from aisb.cli.main import main

days, *arguments = sys.argv[1:]
now = time.time
time.time = lambda: now() + int(days) * 86400
sys.exit(main(arguments))
