"""
The servers of the fake internet and the canaries on the host: whatever reaches one of them is recorded.
"""
