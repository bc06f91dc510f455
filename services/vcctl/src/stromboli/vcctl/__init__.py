"""vcctl: what people type to run, see and stop jobs, with Volcano's own words and tables.

It decides nothing: it asks the Kubernetes API server and prints the answer. Only `bus tail`
looks at the bus, and it only listens.
"""
