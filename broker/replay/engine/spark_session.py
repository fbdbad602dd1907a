"""Start and stop of a Spark session."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

import broker
from broker.errors import EngineUnavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Needed by Spark 4.
_MIN_JAVA: Final = 17
_VERSION: Final = re.compile(r'version "(\d+)')
_JAVA_VERSION_SECONDS: Final = 20.0
_JVM_EXIT_SECONDS: Final = 1.0
_PACKAGES: Final = Path(broker.__file__).resolve().parents[1]


@attrs.frozen
class SparkSettings:
    master: str = "local[*]"
    """`local[n]`, `spark://...`, `yarn`, `k8s://...`."""
    memory: str = "1g"
    """Memory of the JVM, without the Python processes."""
    folder: Path | None = None
    overrides: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def is_local(self) -> bool:
        """True if workers see this machine's files."""
        return re.match(r"local(\[|$)", self.master) is not None


def check_java() -> None:
    """Raise `EngineUnavailable`, with the package to install, if Spark cannot run."""
    java_home = os.environ.get("JAVA_HOME")
    java = str(Path(java_home, "bin", "java")) if java_home else shutil.which("java")
    advice = (
        f"Spark needs Java {_MIN_JAVA} or newer: install Debian's openjdk-{_MIN_JAVA}-jre-headless"
    )
    if java is None:
        raise EngineUnavailable(f"Java is not installed; {advice}")
    try:
        output = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_JAVA_VERSION_SECONDS
        ).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineUnavailable(f"{java} does not run: {error}; {advice}") from None
    found = _VERSION.search(output)
    if found is None or int(found[1]) < _MIN_JAVA:
        raise EngineUnavailable(f"{java} is {output.splitlines()[:1]}; {advice}")


def start_session(settings: SparkSettings) -> SparkSession:
    """Takes seconds. Raises `EngineUnavailable` if PySpark or Java is missing, or the JVM does not
    start."""
    check_java()
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise EngineUnavailable(
            f"PySpark is not installed ({error}): pip install 'xmlbroker[spark]'"
        ) from None
    builder: Any = SparkSession.builder
    for name, value in {**_spark_options(settings), **settings.overrides}.items():
        builder = builder.config(name, value)
    try:
        with _worker_environment():
            session: SparkSession = builder.getOrCreate()
    except Exception as error:
        # Exceptions come from the launcher and, through py4j, from Java.
        reset_pyspark()
        raise EngineUnavailable(f"Spark does not start: {_first_line(error)}") from error
    session.sparkContext.setLogLevel("ERROR")
    if not settings.is_local:
        session.sparkContext.addPyFile(str(_zip_packages(settings)))
    return session


def stop_session(session: SparkSession) -> None:
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    with suppress(Exception):
        # A dead JVM cannot be stopped.
        session.stop()
    if gateway is not None:
        with suppress(Exception):
            gateway.shutdown()
        if gateway.proc is not None:
            if gateway.proc.stdin is not None:
                # The JVM ends when its standard input closes.
                gateway.proc.stdin.close()
            gateway.proc.kill()
            gateway.proc.wait()
    reset_pyspark()


def reset_pyspark() -> None:
    """Otherwise PySpark would use a dead JVM again."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    for owner, name in (
        (SparkContext, "_active_spark_context"),
        (SparkContext, "_gateway"),
        (SparkContext, "_jvm"),
        (SparkSession, "_instantiatedSession"),
        (SparkSession, "_activeSession"),
    ):
        if hasattr(owner, name):
            setattr(owner, name, None)


def is_alive() -> bool:
    """Errors may arrive before a dying JVM exits, so this waits a moment."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    if gateway is None:
        return False
    try:
        gateway.proc.wait(_JVM_EXIT_SECONDS)
    except subprocess.TimeoutExpired:
        return True
    return False


def _spark_options(settings: SparkSettings) -> dict[str, str]:
    found = {
        "spark.master": settings.master,
        "spark.app.name": "xmlbroker replay",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": settings.memory,
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Reused workers keep their matchers.
        "spark.python.worker.reuse": "true",
        # Remote workers may find another Python.
        "spark.pyspark.python": sys.executable if settings.is_local else Path(sys.executable).name,
        "spark.pyspark.driver.python": sys.executable,
        "spark.executorEnv.PYTHONPATH": str(_PACKAGES) if settings.is_local else "",
    }
    if settings.is_local:
        found |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        # Else each user of this machine could talk to it. Spark makes the secret itself.
        found["spark.authenticate"] = "true"
        found["spark.python.daemon.module"] = "broker.replay.engine.spark_daemon"
    if settings.folder is not None:
        found["spark.local.dir"] = str(settings.folder)
        found["spark.sql.warehouse.dir"] = str(settings.folder / "warehouse")
    return found


@contextmanager
def _worker_environment() -> Iterator[None]:
    """Set the environment that local workers inherit from the JVM."""
    before = {name: os.environ.get(name) for name in ("PYTHONPATH", "PYSPARK_PYTHON")}
    paths = [str(_PACKAGES), *filter(None, [before["PYTHONPATH"]])]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _zip_packages(settings: SparkSettings) -> Path:
    """Remote workers must have the dependencies."""
    path = (settings.folder or Path.cwd()) / "xmlbroker.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted((_PACKAGES / "broker").rglob("*.py")):
            archive.write(file, file.relative_to(_PACKAGES))
    return path


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
