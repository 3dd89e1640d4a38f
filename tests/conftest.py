"""What every test runs under."""

from __future__ import annotations

import os

from hypothesis import settings

# A busy machine makes any example slow; what an example costs is not what these tests are about.
settings.register_profile("sample", deadline=None, max_examples=100)
settings.register_profile("soak", deadline=None, max_examples=5_000, print_blob=True)
settings.load_profile("soak" if os.environ.get("LANCENS_SOAK") else "sample")
