"""The bus: everything that touches NATS, and the pure parts that make it trustworthy.

nats-py gives us the connection and the wire protocol. Publishing with a window, reading a
log from a known position and leases are our own, because the library's versions lose or
delay messages under the faults we care about; `docs/adr/0002-own-reader-and-publisher.md` says
which and how it was measured.
"""
