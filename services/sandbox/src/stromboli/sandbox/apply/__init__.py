"""Server-side apply: who owns which field, and what a manager's new wishes change."""
