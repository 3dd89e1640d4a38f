"""The use cases: plan, apply, release, and what each needs to have opened and asked before it can start."""
