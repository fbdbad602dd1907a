"""What Spark's Python workers are forked from, on a local master: all that they need is imported
once, here. Spark ends workers that were idle for a minute, and new ones would import it again.
"""

from __future__ import annotations

import broker.replay.engine.spark_task  # noqa: F401
from broker.replay.garbage_collection import tune_garbage_collector

if __name__ == "__main__":
    from pyspark.daemon import manager

    tune_garbage_collector()
    manager()
