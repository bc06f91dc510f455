"""The scheduler's decisions: which pod goes where, and why the others wait.

A function of facts and time. Nothing in here waits, logs, looks at a clock or talks to anybody.
"""
