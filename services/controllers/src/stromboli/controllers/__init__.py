"""The controllers' process: connections, leadership and health around `stromboli.lifecycle`.

What the controllers decide is in that library; here is only what it takes to run it.
"""
