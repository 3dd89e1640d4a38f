"""The Python side of the GitHub Action, which ``action.yml`` starts.

Inputs arrive in environment variables (:mod:`~reconciler.action.inputs`), the runner describes the event
(:mod:`~reconciler.action.context`), and each command returns a :class:`~reconciler.action.outcome.StepOutcome`, which
becomes the step's outputs, summary and exit code.
"""
