"""The gateway: facts from Kubernetes onto the bus, intents from the bus into Kubernetes.

It is the only service with Kubernetes rights, and it decides nothing: it translates, checks
and applies. One gateway leads; it publishes what it watches and applies what is allowed. A
standby reads along, so that it can take over where the leader stopped.
"""
