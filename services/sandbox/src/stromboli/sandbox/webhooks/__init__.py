"""Admission webhooks: who asked to be asked, what they are told, and what their answers do."""
