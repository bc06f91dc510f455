"""One controller per kind of decision, and the list of them that `--controllers` chooses from."""
