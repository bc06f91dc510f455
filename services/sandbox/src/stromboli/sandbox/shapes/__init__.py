"""Which fields objects have and how their lists merge; see `kinds.shapes` for the facts."""
