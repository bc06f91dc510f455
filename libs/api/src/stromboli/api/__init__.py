"""Kubernetes and Volcano objects as immutable types, and the small languages inside them.

Pure: nothing here does I/O, reads a clock or draws a random number. Start at `kinds` (which
objects there are), `wire` (to and from the API server) and `projections` (on the bus);
`quantity`, `durations`, `timestamps` and `selectors` read the texts that objects carry;
`crds` prints the manifests of our own kinds from their types.
"""
