"""Queues: their shares, their tree, and who may delete them."""
