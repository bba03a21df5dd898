"""A study: its file, its plan, its search and the loop that drives it. Knows no database."""
