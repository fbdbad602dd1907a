"""The process from which Spark forks Python workers on a local master.

Spark stops idle workers. The imports here keep new ones fast.
"""

from __future__ import annotations

import broker.replay.engine.spark_task  # noqa: F401
from broker.replay.garbage_collection import tune_garbage_collector

if __name__ == "__main__":
    from pyspark.daemon import manager

    tune_garbage_collector()
    manager()
