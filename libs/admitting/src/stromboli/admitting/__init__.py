"""Admission's rules, pure: defaults, refusals and the words for them.

The webhooks of `services/admission` and every `--dry-run` ask here. Nothing in this package
waits, reads a clock or knows a network: what a rule must know about the cluster it asks of the
`Surroundings` that the caller hands in.
"""
