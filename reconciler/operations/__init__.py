"""The use cases: plan, apply, release, doctor, and what each reads before it starts."""
