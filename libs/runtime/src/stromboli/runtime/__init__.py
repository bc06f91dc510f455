"""What every service runs on: bus, leases, views, health, settings, logs, telemetry.

The only lib that imports nats, opentelemetry and structlog, so that what we have learnt
about them lives in one place. It decides nothing about jobs, queues or nodes.
"""
