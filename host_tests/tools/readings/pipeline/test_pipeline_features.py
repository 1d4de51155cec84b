# cpython-only: Arrow and Delta Lake
"""What the pipeline does with messages of all kinds, from the log to gold, in this process and
without Spark. The engines run the same functions: test_pipeline.py.
"""

import pytest

from optional_packages import needed

with needed("the pipeline's packages"):
    # in several files, because there are many
    from pipeline_clock import *  # noqa: F403
    from pipeline_conflicts import *  # noqa: F403
    from pipeline_export import *  # noqa: F403
    from pipeline_features import *  # noqa: F403
    from pipeline_hostile import *  # noqa: F403
    from serial_engine import Serial


@pytest.fixture(scope="session")
def engine():
    return Serial()
