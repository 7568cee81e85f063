"""The provider suites. What a shared check compares is shown when it fails, as in a test of its own."""

import pytest

pytest.register_assert_rewrite("tests.providers.conformance", "tests.providers.listings", "tests.providers.syncs")
