"""The secrets of the job's environment, which nothing that the Action shows or keeps may hold.

The runner masks secrets in logs, but not in comments, summaries and artifacts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from reconciler.action.failures import FailureReason, RefusedError
from reconciler.model.redaction import is_sensitive_key, scrub
from reconciler.planner.plan import Plan

# A shorter one would be found in plans that do not have it, and stop them.
_SHORTEST_SECRET = 8
# The shell's current and previous folder, where a relative `root` of a manifest is.
_FOLDERS = frozenset({"PWD", "OLDPWD"})
# Where a secret is kept is none: AWS_WEB_IDENTITY_TOKEN_FILE, CLOUDSDK_AUTH_CREDENTIAL_FILE_OVERRIDE, TOKEN_PATH.
_PLACE = re.compile(r".*_(?:FILE|FILES|PATH|DIR|SOCK)(?:_OVERRIDE)?|GOOGLE_APPLICATION_CREDENTIALS", re.IGNORECASE)


class Secrets:
    """The values of the environment variables that are named like secrets, such as ``DB_PASSWORD``."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._names = {
            value: name
            for name, value in environment.items()
            if is_sensitive_key(name)
            and name not in _FOLDERS
            and not _PLACE.fullmatch(name)
            and len(value) >= _SHORTEST_SECRET
        }

    def scrub(self, text: str) -> str:
        """Return ``text`` without them."""
        return scrub(text, self._names)

    def check(self, plan: Plan) -> None:
        """Refuse a plan that would show one.

        Raises:
            RefusedError: naming the variable, not its value.
        """
        self.check_document("the plan", plan.to_json())

    def check_document(self, what: str, document: str) -> None:
        """Refuse to show ``document``, which is JSON, if one is in it; ``what`` is what it is called.

        Raises:
            RefusedError: naming the variable, not its value.
        """
        for value, name in self._names.items():
            if any(json.dumps(value, ensure_ascii=escaped)[1:-1] in document for escaped in (False, True)):
                raise RefusedError(
                    FailureReason.REFUSED,
                    f"{what} would show the value of the environment variable {name}. Secrets belong in a "
                    "catalog's `config` or in a property whose key says so, such as `password`. Nothing was shown or "
                    "changed.",
                )
