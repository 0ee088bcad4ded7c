"""Settings of all tests.

Random examples are the same in every run of the default profile, so that a failure is a fact about the
change and not about the day. The `long` profile looks further and at new examples each time.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# A loaded machine is slow at moments that say nothing about the code under test.
UNHURRIED = [HealthCheck.too_slow]

settings.register_profile(
    "default", derandomize=True, deadline=None, max_examples=100, suppress_health_check=UNHURRIED
)
settings.register_profile("long", deadline=None, max_examples=2000, suppress_health_check=UNHURRIED)
settings.load_profile(os.environ.get("COVEY_HYPOTHESIS_PROFILE", "default"))
