"""Jobs: what is filled in, what a new one must fulfil, and what may change later."""
