# cpython-only: Arrow and Delta Lake
"""What the pipeline does with messages of all kinds, from the log to gold, in this process and
without Spark. The engines run the same functions: test_pipeline.py.
"""

import os

import pytest

try:
    # in several files, because there are many
    from pipeline_clock import *  # noqa: F403
    from pipeline_conflicts import *  # noqa: F403
    from pipeline_export import *  # noqa: F403
    from pipeline_features import *  # noqa: F403
    from pipeline_hostile import *  # noqa: F403
    from serial_engine import Serial
except ImportError as problem:
    if os.environ.get("CI") == "true":
        raise
    pytest.skip(f"missing: the pipeline's packages: {problem}", allow_module_level=True)


@pytest.fixture(scope="session")
def engine():
    return Serial()
