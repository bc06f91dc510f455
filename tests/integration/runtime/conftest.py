"""The bus as the tests of the runtime use it: a real server, and a member of the bus on it."""

from stromboli.testkit.bus_fixtures import bus

__all__ = ["bus"]
