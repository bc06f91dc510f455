"""Fixtures for every kind of test come from the testkit's plugins."""

pytest_plugins = [
    "stromboli.testkit.nats_fixtures",
    "stromboli.testkit.api_fixtures",
    "stromboli.testkit.leaks",
    "stromboli.testkit.effort",
]
