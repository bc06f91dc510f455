"""All of Stromboli on one machine, as separate processes over a real NATS server.

The launcher decides nothing about jobs: it writes configuration, starts the same commands
that a deployment starts, watches over them, and stops them in order.
"""
