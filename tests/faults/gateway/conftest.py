"""Gateways that can be hurt."""

from stromboli.testkit.gateway_fixtures import cluster, join, start_gateway

__all__ = ["cluster", "join", "start_gateway"]
