"""Pod templates: the rules of the core API that a job's author should hear of at once.

Without them a job with a bad template is accepted, and its pods are refused one by one.
"""
