"""
aisb with another sandbox image than the plan's: IMAGE ARGUMENT...

Runs on a host. Nothing else is changed: the image is what a test has broken.
"""

from __future__ import annotations

import sys

from aisb.cli import main, run

image, *arguments = sys.argv[1:]
need_plan = run.need_plan
run.need_plan = lambda question, shop: need_plan(question, shop)._replace(sandbox_image=image)
sys.exit(main.main(arguments))
