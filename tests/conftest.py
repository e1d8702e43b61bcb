"""What every process that runs tests loads."""

from __future__ import annotations

import pytest
from hypothesis import settings

# the same examples in every run: a red run is the change's doing. Others: pytest --hypothesis-profile=search
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("search", max_examples=1000, deadline=None)
settings.load_profile("same")


def pytest_configure(config: pytest.Config) -> None:
    """But one that hands tests out to others (`-n 2`): to load the library takes seconds, in which those wait."""
    if not getattr(config.option, "numprocesses", None) or hasattr(config, "workerinput"):
        for name in ("found_parts", "cli_commands", "chromium"):
            config.pluginmanager.import_plugin(name)
