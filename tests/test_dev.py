"""`./dev` on simulated machines, each a folder of programs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
#: Programs of any Debian machine that the script may use before it has a Python.
PLAIN = ("sh", "dirname", "basename", "cat", "cksum", "env")


class Machine:
    """A checkout in a folder with a space in its name, and a PATH of its own."""

    def __init__(self, folder: Path) -> None:
        self.programs = folder / "bin"
        self.checkout = folder / "a checkout"
        self.programs.mkdir()
        self.checkout.mkdir()
        shutil.copy(ROOT / "dev", self.checkout / "dev")
        for name in PLAIN:
            found = shutil.which(name)
            assert found is not None
            (self.programs / name).symlink_to(found)
        self.program("id", "echo 1000")

    def program(self, name: str, text: str) -> None:
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def dev(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.checkout / "dev"), *arguments],
            env={"PATH": str(self.programs)},
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


#: As in Debian without python3-venv.
WITHOUT_VENV = "case $2 in *ensurepip*) exit 1 ;; *print*) echo python3.11-venv ;; esac"


def test_help_needs_nothing(machine: Machine) -> None:
    done = machine.dev("help")
    assert done.returncode == 0
    assert "./dev demo" in done.stdout
    assert machine.dev().stdout == done.stdout


def test_an_unknown_command_is_refused_with_those_that_exist(machine: Machine) -> None:
    done = machine.dev("tests")
    assert done.returncode == 1
    assert "unknown command: tests" in done.stderr
    assert "./dev test " in done.stderr


def test_a_missing_python_is_named_with_the_package_to_install(machine: Machine) -> None:
    done = machine.dev("test")
    assert done.returncode == 1
    assert "Python 3.11 or newer is missing" in done.stderr
    assert "apt-get install python3 python3-venv" in done.stderr


def test_a_python_that_is_too_old_does_not_count(machine: Machine) -> None:
    machine.program("python3", "exit 1")
    assert "Python 3.11 or newer is missing" in machine.dev("test").stderr


@pytest.mark.parametrize(
    ("name", "package"), [("python3", "python3-venv"), ("python3.11", "python3.11-venv")]
)
def test_a_missing_venv_module_is_named_with_the_package_to_install(
    name: str, package: str, machine: Machine
) -> None:
    machine.program(name, WITHOUT_VENV)
    done = machine.dev("test")
    assert done.returncode == 1
    assert f"venv module is missing. Install it first: sudo apt-get install {package}" in (
        done.stderr
    )


@pytest.mark.parametrize("privilege", ["root", "sudo"])
def test_the_missing_package_is_installed_where_that_is_allowed(
    privilege: str, machine: Machine, tmp_path: Path
) -> None:
    installed = tmp_path / "installed"
    machine.program("python3", WITHOUT_VENV)
    machine.program("apt-get", f'[ "$1" = update ] || echo "$@" >>"{installed}"')
    if privilege == "root":
        machine.program("id", "echo 0")
    else:
        machine.program("sudo", 'shift; exec "$@"')
        machine.program("true", "exit 0")
    done = machine.dev("test")
    assert installed.read_text().split()[-1] == "python3-venv"
    assert "installing Debian packages: python3-venv" in done.stderr


def test_a_package_that_can_not_be_installed_ends_it(machine: Machine) -> None:
    machine.program("python3", WITHOUT_VENV)
    machine.program("apt-get", "exit 100")
    machine.program("id", "echo 0")
    done = machine.dev("test")
    assert done.returncode == 1
    assert "installing python3-venv failed" in done.stderr


# --------------------------------------------------------------------------- Java, for Spark

JAVA = "openjdk-17-jre-headless"


@pytest.fixture
def prepared(machine: Machine) -> Machine:
    """Return a machine with its virtual environment, whose Python prints its arguments."""
    python = machine.checkout / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\ncase "$*" in *examples*) echo "runs $*" ;; esac\n')
    python.chmod(0o755)
    for name in ("sed", "chmod"):
        (machine.programs / name).symlink_to(shutil.which(name) or name)
    return machine


def java(version: str) -> str:
    return f"echo 'openjdk version \"{version}\" 2025-04-15' >&2"


def test_a_java_that_is_new_enough_is_left_as_it_is(prepared: Machine) -> None:
    prepared.program("java", java("21.0.1"))
    prepared.program("apt-get", "exit 100")
    prepared.program("id", "echo 0")
    done = prepared.dev("demo", "--limit", "9")
    assert done.returncode == 0
    assert done.stdout == "runs -m examples.demo --limit 9\n"
    assert "Java" not in done.stderr and JAVA not in done.stderr


@pytest.mark.parametrize("command", ["demo", "roaming"])
@pytest.mark.parametrize("before", ["", "11.0.2", "1.8.0_402"], ids=["none", "11", "8"])
def test_a_missing_java_is_installed_where_that_is_allowed(
    prepared: Machine, command: str, before: str
) -> None:
    if before:
        prepared.program("java", java(before))
    made = prepared.programs / "java"
    prepared.program("new-java", java("17.0.15"))
    prepared.program(
        "apt-get",
        f'case "$*" in *"{JAVA}"*) cat "{prepared.programs}/new-java" >"{made}"; '
        f'chmod 755 "{made}" ;; esac',
    )
    prepared.program("id", "echo 0")
    done = prepared.dev(command)
    assert done.returncode == 0
    assert "runs " in done.stdout
    assert f"installing Debian packages: {JAVA}" in done.stderr
    assert "not by Spark" not in done.stderr


def test_where_java_may_not_be_installed_that_is_said_and_python_serves(prepared: Machine) -> None:
    done = prepared.dev("roaming")
    assert done.returncode == 0
    assert f"Java 17 or newer is missing (sudo apt-get install {JAVA})" in done.stderr
    assert "replayed by pure Python, not by Spark" in done.stderr
    assert done.stdout == "runs -m examples.roaming\n"


def test_where_installing_java_fails_that_is_said_and_python_serves(prepared: Machine) -> None:
    prepared.program("apt-get", "exit 100")
    prepared.program("id", "echo 0")
    done = prepared.dev("demo")
    assert done.returncode == 0
    assert f"installing {JAVA} failed" in done.stderr
    assert "replayed by pure Python, not by Spark" in done.stderr
    assert done.stdout == "runs -m examples.demo\n"


# --------------------------------------------------------------------------- packages for the tests


def test_missing_packages_of_the_tests_are_installed_where_that_is_allowed(
    machine: Machine, tmp_path: Path
) -> None:
    (machine.programs / "sed").symlink_to(shutil.which("sed") or "sed")
    for name in ("ip", "xmllint", "shellcheck"):
        machine.program(name, "exit 0")
    machine.program("java", java("17.0.15"))
    done = machine.dev("packages")
    assert done.returncode == 0
    assert "some tests will be skipped (sudo apt-get install nftables)" in done.stderr

    installed = tmp_path / "installed"
    machine.program("apt-get", f'[ "$1" = update ] || echo "$@" >>"{installed}"')
    machine.program("id", "echo 0")
    machine.program("java", java("11.0.2"))
    assert machine.dev("packages").returncode == 0
    assert installed.read_text().split()[-2:] == ["nftables", JAVA]

    machine.program("nft", "exit 0")
    machine.program("java", java("21.0.1"))
    assert "all Debian packages for the tests are there" in machine.dev("packages").stderr
