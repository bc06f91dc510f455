"""Controllers that can be hurt."""

from stromboli.testkit.controller_fixtures import cluster, gateway, start_controllers

__all__ = ["cluster", "gateway", "start_controllers"]
