"""Structural schemas of custom resources: compiled once, then prune, default and validate."""

from stromboli.sandbox.schema.node import Node, compiled
from stromboli.sandbox.schema.shaping import defaulted, pruned
from stromboli.sandbox.schema.validation import validated

__all__ = ["Node", "compiled", "defaulted", "pruned", "validated"]
