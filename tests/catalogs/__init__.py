"""Backends against what they talk to: real servers, and directories."""

import pytest

pytest.register_assert_rewrite("tests.catalogs.end_to_end")
