"""What can be posted to a part of an object: binding, eviction, finalize."""
