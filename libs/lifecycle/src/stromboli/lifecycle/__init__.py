"""The controllers' decisions: jobs, queues, gangs, schedules, flows, and what ended long ago.

Pure: a function of facts and time (`core.LifecycleCore.handle`). Nothing here waits, logs,
looks at a clock or knows that there is a bus.
"""
