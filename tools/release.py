"""Builds what goes to a package index, and tries it as its users will.

    python tools/release.py          a release: the tree is committed, the changelog has its date
    python tools/release.py --try    the same for a tree that is not ready yet

Into dist/ come the source distribution and the wheel. They must be the same to the byte when built
again, and a wheel that is made from the source distribution must be the same too. The wheel holds
every file of the package and nothing else, and the index can show its description. In a fresh
environment outside of the checkout the first example, the command and the model of text must work,
with and without the extras; for these it needs the registry. Nothing is uploaded.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ("build", "twine")
NAME = "rda_torch"


class ReleaseError(Exception):
    """What is wrong, in one line."""


def main() -> int:
    """Build, check, and say what to do next."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--try", dest="trial", action="store_true", help="a tree that is not ready")
    trial = parser.parse_args().trial
    try:
        version = _version()
        if not trial:
            _step("the tree is ready", lambda: _check_ready(version))
        with tempfile.TemporaryDirectory() as folder:
            made = _release(version, Path(folder))
            shutil.rmtree(ROOT / "dist", ignore_errors=True)
            shutil.copytree(made, ROOT / "dist")
    except ReleaseError as error:
        print(f"not released: {error}", file=sys.stderr)
        return 1
    publish = f"to publish it: git tag v{version}, then twine upload dist/*"
    print(f"dist/ holds {version}; {'tried, and not for publishing' if trial else publish}")
    return 0


def _release(version: str, folder: Path) -> Path:
    """The folder with all that was built and tried."""
    tools = _environment(folder / "tools")
    _step("tools installed", lambda: _run(tools, "-m", "pip", "install", "-q", *TOOLS))
    dist = folder / "dist"
    _step("built", lambda: _build(tools, ROOT, dist))
    sdist, wheel = dist / f"{NAME}-{version}.tar.gz", dist / f"{NAME}-{version}-py3-none-any.whl"
    _step("the same when built again", lambda: _check_again(tools, dist, folder / "again"))
    _step("the wheel holds the package", lambda: _check_wheel(wheel))
    _step("the description can be shown", lambda: _check_description(tools, sdist, wheel))
    _step("the same wheel from the source", lambda: _check_source(tools, sdist, wheel, folder))
    users = _environment(folder / "users")
    _step("installed without extras", lambda: _install(users, str(wheel)))
    _step("the first example runs", lambda: _check_example(users, folder))
    _step("the command says what it needs", lambda: _check_bare_command(users, folder))
    _step("installed with the command", lambda: _install(users, f"{wheel}[cli]"))
    _step("the command and the model work", lambda: _check_command(users, folder))
    return dist


def _step(what: str, do: Callable[[], object]) -> None:
    start = time.monotonic()
    print(f"{what} ...", end=" ", flush=True)
    do()
    print(f"{time.monotonic() - start:.0f} s", flush=True)


def _version() -> str:
    found = re.search(r'^__version__ = "(.+)"$', (ROOT / "rda/__init__.py").read_text(), re.M)
    if found is None:
        raise ReleaseError("rda/__init__.py has no __version__")
    return found[1]


def _check_ready(version: str) -> None:
    heading = re.search(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    if heading is None or not re.fullmatch(
        rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", heading[1]
    ):
        told = heading[1] if heading else "nothing"
        raise ReleaseError(f"the changelog begins with {told!r}, not with {version} and a date")
    changed = _output("git", "status", "--porcelain")
    if changed:
        raise ReleaseError(f"the tree has changes that are not committed: {changed.split()[1]}")
    if f"v{version}" in _output("git", "tag").split():
        raise ReleaseError(f"there is a tag v{version} already: raise __version__")


def _output(*line: str) -> str:
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def _environment(folder: Path) -> Path:
    """The Python of a fresh virtual environment."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    return folder / "bin" / "python"


def _done(python: Path, *line: str, where: Path) -> subprocess.CompletedProcess[str]:
    """Run Python as somebody who has nothing of ours: no settings, no cache, no runs."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if name != "PYTHONPATH" and not name.startswith("RDA_")
    }
    clean["RDA_CACHE"] = str(where / "cache")
    return subprocess.run(
        [str(python), *line], cwd=where, env=clean, capture_output=True, text=True
    )


def _run(python: Path, *line: str, where: Path = ROOT) -> str:
    """What a command prints; it must end well."""
    done = _done(python, *line, where=where)
    if done.returncode:
        told = (done.stderr or done.stdout).strip().splitlines()
        raise ReleaseError(f"python {' '.join(line)}: {told[-1] if told else 'failed'}")
    return done.stdout


def _build(python: Path, source: Path, to: Path) -> None:
    when = _output("git", "log", "-1", "--format=%ct").strip()
    os.environ["SOURCE_DATE_EPOCH"] = when  # the time of all files in the archives
    # Both from the tree: without the options the wheel would be made from the source distribution.
    _run(python, "-m", "build", "-q", "--sdist", "--wheel", "--outdir", str(to), str(source))


def _check_again(python: Path, dist: Path, again: Path) -> None:
    _build(python, ROOT, again)
    for path in dist.iterdir():
        if _digest(path) != _digest(again / path.name):
            raise ReleaseError(f"{path.name} is another file when it is built again")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _check_wheel(wheel: Path) -> None:
    tracked = set(_output("git", "ls-files", "rda").splitlines())
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    inside = {name for name in names if not name.startswith(f"{NAME}-")}
    for name in sorted(tracked ^ inside):
        where = "missing in" if name in tracked else "not in git, but in"
        raise ReleaseError(f"{name} is {where} the wheel")


def _check_description(python: Path, *files: Path) -> None:
    _run(python, "-m", "twine", "check", "--strict", *map(str, files))


def _check_source(python: Path, sdist: Path, wheel: Path, folder: Path) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "source", filter="data")
    (source,) = (folder / "source").iterdir()
    _run(python, "-m", "build", "-q", "--wheel", "--outdir", str(folder / "made"), str(source))
    if _digest(folder / "made" / wheel.name) != _digest(wheel):
        raise ReleaseError("a wheel made from the source distribution is another one")


def _install(python: Path, what: str) -> None:
    _run(python, "-m", "pip", "install", "-q", "-c", str(ROOT / "constraints.txt"), what)


def _check_example(python: Path, folder: Path) -> None:
    """The Python of the description, with the C++ engine compiled as a user's would be."""
    example = re.findall(r"```python\n(.*?)```", (ROOT / "docs/package.md").read_text(), re.DOTALL)
    told = "print(rda.__file__, rnn.engine_for(x))"
    file, engine = _run(python, "-c", "\n".join([*example, told]), where=folder).split()
    if not Path(file).is_relative_to(folder) or engine == "eager":
        raise ReleaseError(f"the example ran with the engine {engine!r} of {file}")


def _check_bare_command(python: Path, folder: Path) -> None:
    done = _done(python, "-m", "rda", "train", "multicopy", "RDA", "--small", where=folder)
    lines = done.stderr.strip().splitlines()
    if done.returncode != 2 or len(lines) != 1 or "rda-torch[cli]" not in lines[0]:
        raise ReleaseError(f"without its packages the command says: {done.stderr.strip()}")


def _check_command(python: Path, folder: Path) -> None:
    for line in (
        "--version",
        "doctor",
        "train multicopy RDA-exp-tanh --small --steps 10 --stop-at never --name first",
        "show first",
        "generate --prompt The --length 100 --seed 1",
    ):
        _run(python, "-m", "rda", *line.split(), where=folder)


if __name__ == "__main__":
    sys.exit(main())
