"""Policies, one file each; `registry` is the list of them, `api` what they may decide."""
