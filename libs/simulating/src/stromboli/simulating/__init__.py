"""A whole cluster in memory: the controllers' and the scheduler's own cores on virtual time.

What `vcctl simulate` shows is decided here, by the very code that decides in a real cluster.
Nothing in this package reads a file or looks at a clock: text comes in, results go out.
"""
