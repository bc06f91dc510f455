"""The controllers' decisions: what objects a Job needs, and which phase it is in.

Pure: a function of facts and time (`core.LifecycleCore.handle`). Nothing here waits, logs,
looks at a clock or knows that there is a bus.
"""
