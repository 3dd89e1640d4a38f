"""Applying a plan: check that nothing moved, then carry out its changes and keep a journal of them."""
