"""The cache belongs to its user: where it is, who else could write there, what is swept."""

import ast
import os
import stat
import time
import warnings
from pathlib import Path

import pytest

from rda import files

ME, ROOT, OTHER = 1000, 0, 1001
FOLDER, FILE, LINK = stat.S_IFDIR, stat.S_IFREG, stat.S_IFLNK
SAFE_PATHS = {
    "a home": [(ROOT, FOLDER | 0o755), (ME, FOLDER | 0o755), (ME, FILE | 0o644)],
    "the system's": [(ROOT, FOLDER | 0o755), (ROOT, FOLDER | 0o755), (ROOT, FILE | 0o755)],
    "below /tmp": [(ROOT, FOLDER | 0o1777), (ME, FOLDER | 0o700), (ME, FILE | 0o600)],
    "a link of my own": [(ROOT, FOLDER | 0o755), (ME, LINK | 0o777), (ME, FILE | 0o600)],
    "below a folder that nobody else enters": [
        (ROOT, FOLDER | 0o755), (ME, FOLDER | 0o700), (ME, FOLDER | 0o775), (ME, FILE | 0o664),
    ],
}  # fmt: skip
UNSAFE_PATHS = {
    "another's file": ([(ROOT, FOLDER | 0o1777), (OTHER, FILE | 0o755)], 1, "uid 1001"),
    "another's folder": ([(OTHER, FOLDER | 0o755), (ME, FOLDER | 0o700)], 0, "uid 1001"),
    "another's link": ([(ROOT, FOLDER | 0o1777), (OTHER, LINK | 0o777)], 1, "uid 1001"),
    "another's file in my folder": ([(ME, FOLDER | 0o700), (OTHER, FILE | 0o600)], 1, "uid 1001"),
    "written by a group": ([(ROOT, FOLDER | 0o755), (ME, FOLDER | 0o775)], 1, "mode 775"),
    "written by all": ([(ROOT, FOLDER | 0o755), (ME, FILE | 0o666)], 1, "mode 666"),
    "sticky itself": ([(ROOT, FOLDER | 0o755), (ROOT, FOLDER | 0o1777)], 1, "mode 1777"),
    "a parent written by a group": ([(ME, FOLDER | 0o775), (ME, FOLDER | 0o755)], 0, "mode 775"),
    "open before it is sealed": (
        [(ROOT, FOLDER | 0o777), (ME, FOLDER | 0o700), (ME, FILE | 0o600)], 0, "mode 777",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SAFE_PATHS)
def test_code_that_only_i_and_root_can_write_is_used(name):
    assert files.weakness(SAFE_PATHS[name], ME) is None


@pytest.mark.parametrize("name", UNSAFE_PATHS)
def test_code_that_others_could_have_written_is_not_used(name):
    places, index, reason = UNSAFE_PATHS[name]
    found = files.weakness(places, ME)
    assert found is not None
    assert found[0] == index
    assert reason in found[1]


def test_a_folder_that_is_not_there_yet_may_be_made_below_a_sticky_one():
    assert files.weakness([(ROOT, FOLDER | 0o1777)], ME, ends=False) is None


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home of this user's own, and nothing else said about the cache."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("RDA_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    return tmp_path / "home"


@pytest.fixture
def shared(tmp_path, monkeypatch):
    """A cache that others can write, as a folder shared by a team is."""
    files._warn_once.cache_clear()
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    # The folder of each test lies in one that only this user can enter: open it.
    monkeypatch.setattr(files, "weakness", _unsealed(files.weakness))
    monkeypatch.setenv("RDA_CACHE", str(folder))
    return folder


def _unsealed(weakness):
    def look(places, user, *, ends=True):
        return weakness([(owner, mode | 0o011) for owner, mode in places], user, ends=ends)

    return look


@pytest.mark.parametrize("relative", [".cache", "cache/here", "~/cache"])
def test_a_relative_xdg_cache_home_is_ignored(relative, home, monkeypatch):
    """The XDG base directory specification: "consider the path invalid and ignore it"."""
    monkeypatch.setenv("XDG_CACHE_HOME", relative)
    assert files.cache_folder() == home / ".cache" / "rda-torch"
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert files.cache_folder() == Path("/somewhere/rda-torch")


def test_a_shared_cache_is_replaced_by_the_users_own_and_said_once(home, shared):
    with pytest.warns(files.CacheWarning, match="can be written by other users") as told:
        assert files.code_folder() == home / ".cache" / "rda-torch"
    assert str(shared) in str(told[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        files.code_folder()


def test_without_a_home_a_folder_among_the_temporary_files_is_private(
    home, shared, tmp_path, monkeypatch
):
    shared.chmod(0o777)  # without the sticky bit a folder below it can be replaced, too
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared))
    monkeypatch.setattr(files.tempfile, "tempdir", str(tmp_path))
    with pytest.warns(files.CacheWarning):
        folder = files.code_folder()
    assert folder == tmp_path / f"rda-torch-{os.getuid()}"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o777)  # as if another had made it
    files._warn_once.cache_clear()
    with pytest.warns(files.CacheWarning):
        passing = files.code_folder()
    assert passing != folder
    assert stat.S_IMODE(passing.stat().st_mode) == 0o700
    assert files.exposure(passing) is None


def test_a_cache_of_ones_own_is_used_as_it_is(home):
    assert files.code_folder() == home / ".cache" / "rda-torch"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_is_found_out(tmp_path):
    planted = tmp_path / "planted"
    planted.write_text("")
    os.chown(planted, OTHER, -1)
    assert files.exposure(planted) == f"{planted} belongs to another user (uid {OTHER})"


def test_every_folder_that_is_made_is_private_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        files.make_private(tmp_path / "a" / "b" / "c")
        files.write_atomically(tmp_path / "code", b"", mode=0o600)
    finally:
        os.umask(before)
    for name in ("a", "a/b", "a/b/c"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "code").stat().st_mode) == 0o600


def test_only_what_is_old_is_swept(tmp_path):
    for name in ("left-folder", "left-too", "other"):
        (tmp_path / name).mkdir()
    for name in ("left-folder/file", "left-file", "left-new"):
        (tmp_path / name).write_text("")
    an_hour_ago = time.time() - 3600
    for name in ("left-folder", "left-file", "other"):
        os.utime(tmp_path / name, (an_hour_ago, an_hour_ago))
    files.sweep(tmp_path, "left-*", seconds=1800)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["left-new", "left-too", "other"]


@pytest.fixture
def precious(tmp_path):
    """A file of this user's, to which somebody else's links lead."""
    path = tmp_path / "precious"
    path.write_text("precious")
    return path


def test_a_link_where_a_temporary_file_might_be_is_not_followed(tmp_path, precious, monkeypatch):
    foreseen = [str(os.getpid()), "01234567"]
    monkeypatch.setattr(files.secrets, "token_hex", lambda size: foreseen[1])
    links = [tmp_path / f".curves.png.{name}.tmp" for name in foreseen]
    for link in links:
        link.symlink_to(precious)
    with pytest.raises(FileExistsError):
        files.write_atomically(tmp_path / "curves.png", b"mine")
    monkeypatch.undo()
    files.write_atomically(tmp_path / "curves.png", b"mine")
    assert (tmp_path / "curves.png").read_bytes() == b"mine"
    assert precious.read_text() == "precious"
    assert all(link.is_symlink() for link in links)


def test_a_link_in_the_place_of_what_is_written_is_replaced_and_not_followed(tmp_path, precious):
    (tmp_path / "curves.png").symlink_to(precious)
    files.write_atomically(tmp_path / "curves.png", b"mine")
    assert not (tmp_path / "curves.png").is_symlink()
    assert (tmp_path / "curves.png").read_bytes() == b"mine"
    assert precious.read_text() == "precious"


@pytest.mark.parametrize("leads_to", ["pipe", "/dev/null", "/proc/self/fd/1"])
def test_no_file_takes_the_place_of_a_stream_such_as_standard_output(tmp_path, leads_to):
    os.mkfifo(tmp_path / "pipe")
    link = tmp_path / "stdout"
    link.symlink_to(leads_to)
    with pytest.raises(OSError, match="it is not a plain file"):
        files.write_atomically(link, b"mine")
    assert link.is_symlink()


def test_an_error_on_the_way_leaves_the_old_file_and_nothing_else(tmp_path):
    files.write_atomically(tmp_path / "table.csv", b"old")
    with (
        pytest.raises(ValueError, match="negative count"),
        files.replacing(tmp_path / "table.csv") as file,
    ):
        file.write(bytes(-1))
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


def test_files_are_made_as_the_umask_says_with_and_without_the_flag_for_links(
    tmp_path, monkeypatch
):
    before = os.umask(0o027)
    try:
        files.write_atomically(tmp_path / "here", b"x")
        for flag in ("NO_LINKS", "NO_WAITING"):  # Windows has neither
            monkeypatch.setattr(files, flag, 0)
        files.write_atomically(tmp_path / "windows", b"x")
    finally:
        os.umask(before)
    for name in ("here", "windows"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o640


def test_a_lock_behind_a_link_makes_no_file_elsewhere(tmp_path):
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="it is a link"), files.waiting_lock(tmp_path / "lock", print):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_neither_a_pipe_nor_a_device_is_read_or_written(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    for name in ("pipe", "endless"):
        with pytest.raises(OSError, match="it is not a plain file"):
            files.read_plain(tmp_path / name)
    with pytest.raises(OSError), files.waiting_lock(tmp_path / "pipe", print):  # noqa: PT011
        pass


WRITES_IN_A_FOLDER_OF_ITS_OWN = {"scan/cpu/build.py"}


def writes_by_itself(call):
    """Whether a call makes a file and could follow a link to do so."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    if name in ("write_text", "write_bytes", "touch"):
        return True
    if name != "open" or getattr(getattr(call.func, "value", None), "id", "") == "os":
        return False
    modes = [one.value for one in call.args if isinstance(one, ast.Constant)]
    writes = any(set(str(mode)) <= set("wax+bt") for mode in modes)
    return writes and "opener" not in [keyword.arg for keyword in call.keywords]


def test_the_whole_package_writes_through_these_functions():
    package = Path(files.__file__).parent
    found = [
        f"{path.relative_to(package)}:{node.lineno}"
        for path in sorted(package.rglob("*.py"))
        if str(path.relative_to(package)) not in WRITES_IN_A_FOLDER_OF_ITS_OWN
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and writes_by_itself(node)
    ]
    assert found == []
