"""The use cases: plan, apply, release and doctor."""
