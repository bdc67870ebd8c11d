"""What is checked before a release is built."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "tools"))
import release


def git(folder, *line):
    me = ["-c", "user.name=Me", "-c", "user.email=me@example.org"]
    plain = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}  # a developer's may sign commits
    subprocess.run(["git", *me, *line], cwd=folder, env=plain, check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A checkout that is ready."""
    (tmp_path / "rda").mkdir()
    (tmp_path / "rda" / "__init__.py").write_text('__version__ = "1.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.0 (2026-12-01)\n\n- All.\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "All")
    monkeypatch.setattr(release, "ROOT", tmp_path)
    return tmp_path


def test_a_tree_that_is_ready(tree):
    assert release._version() == "1.2.0"
    release._check_ready("1.2.0")


def test_a_changelog_without_a_date(tree):
    (tree / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.0 (unreleased)\n")
    with pytest.raises(release.ReleaseError, match=r"'1\.2\.0 \(unreleased\)', not with 1\.2\.0"):
        release._check_ready("1.2.0")


def test_changes_that_are_not_committed(tree):
    (tree / "rda" / "more.py").write_text("")
    with pytest.raises(release.ReleaseError, match=r"not committed: rda/more\.py"):
        release._check_ready("1.2.0")


def test_a_version_that_was_released_before(tree):
    git(tree, "tag", "v1.2.0")
    with pytest.raises(release.ReleaseError, match="raise __version__"):
        release._check_ready("1.2.0")


@pytest.mark.parametrize(
    ("inside", "told"),
    [
        ([], r"rda/__init__\.py is missing in the wheel"),
        (["rda/__init__.py", "rda/secret.py"], r"rda/secret\.py is not in git, but in the wheel"),
    ],
)
def test_a_wheel_holds_what_is_in_git(tree, inside, told):
    wheel = tree / "rda_torch-1.2.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in [*inside, "rda_torch-1.2.0.dist-info/METADATA"]:
            archive.writestr(name, "")
    with pytest.raises(release.ReleaseError, match=told):
        release._check_wheel(wheel)
