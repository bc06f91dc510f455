"""Real servers, clocks and waiting for tests: what a test of Stromboli stands on.

Nothing here imitates our own code. A server is a real process, a fault is a real signal,
and the only fakes are of time.
"""
