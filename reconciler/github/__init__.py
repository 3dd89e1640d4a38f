"""The Python side of the GitHub Action: ``python -m reconciler.github``, started by ``action.yml``.

What the workflow asks for arrives in environment variables (:mod:`~reconciler.github.inputs`), where it runs is read
from the runner (:mod:`~reconciler.github.context`), and each command ends in an
:class:`~reconciler.github.outcome.Outcome`, which becomes the step's outputs, summary and exit code.
"""
