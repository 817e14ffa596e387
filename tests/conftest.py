"""Every test may say which claim of the register it decides; wrong markers are errors when tests are collected."""

pytest_plugins = ["sumexp.companion.register.evidence", "sumexp.companion.build.keeper"]
