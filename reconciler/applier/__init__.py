"""Apply a plan: check what it touches, change it, and keep a journal."""
