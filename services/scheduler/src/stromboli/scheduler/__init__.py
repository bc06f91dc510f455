"""The scheduler's process: connections, leadership and health around `stromboli.scheduling`.

What the scheduler decides is in that library; here is only what it takes to run it.
"""
