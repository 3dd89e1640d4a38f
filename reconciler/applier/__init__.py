"""Apply a plan: check that nothing has moved, carry out the changes, and keep a journal."""
