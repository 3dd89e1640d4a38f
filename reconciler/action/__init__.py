"""The Python side of the GitHub Action: ``python -m reconciler.action``, started by ``action.yml``.

What the workflow asks for arrives in environment variables (:mod:`~reconciler.action.inputs`), where it runs is read
from the runner (:mod:`~reconciler.action.context`), and each command ends in an
:class:`~reconciler.action.outcome.Outcome`, which becomes the step's outputs, summary and exit code.
"""
