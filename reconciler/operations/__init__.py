"""The use cases: plan, apply, import, and what each needs to have opened and asked before it can start."""
