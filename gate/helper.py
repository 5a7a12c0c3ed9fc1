"""
squid's helper: judges each request, name and hello by the gate's policy.

Started by squid as a file; everything else is in modules, which are compiled beforehand.
"""

import sys


def main() -> None:
    """Answer squid's lines until it closes the pipe."""
    from gate.judging import serve

    serve("/run/aisb", 0, 1)


if __name__ == "__main__":
    sys.path.insert(0, __file__.rpartition("/gate/")[0])
    main()
