"""Admission's process: HTTPS, certificates and the view of the cluster around the rules.

What is refused or defaulted is decided in `stromboli.admitting`; here is only what it takes to
answer an API server quickly and always. It writes nothing to Kubernetes, and reads one thing
there: a queue that it has not heard of yet.
"""
