"""A download ends with the right bytes under the final name, or with nothing there."""

import errno
import threading
from pathlib import Path

import pytest
from mirror import CONTENT, IMAGES, PACKED, Page, file_of

from rda.data import archive, download, patience
from rda.data.errors import DataError, DataWarning
from rda.files import waiting_lock

BODY = PACKED[".gz"]
NAME = f"{IMAGES}.gz"
CLOSED_PORT = "http://127.0.0.1:9/"


@pytest.fixture
def file(mirror):
    """One file on three mirrors; only the last has it, until a test says otherwise."""
    mirror.pages[f"/last/{NAME}"] = Page(BODY)
    return file_of(IMAGES, CONTENT, *(f"{mirror.url}{name}/{NAME}" for name in ("a", "b", "last")))


@pytest.fixture
def lone(mirror):
    """One file on one mirror."""
    return file_of(IMAGES, CONTENT, f"{mirror.url}{NAME}")


def assert_good(path, folder):
    assert path == folder / NAME
    assert path.read_bytes() == BODY
    assert sorted(child.name for child in folder.iterdir()) == [NAME]


def failure(file, folder):
    """The one line that says why the file cannot be had, with nothing under the final name."""
    with pytest.raises(DataError) as failed:
        download.download(file, folder)
    told = str(failed.value)
    assert "\n" not in told
    assert file.name in told
    assert "--data-dir" in told
    assert not (folder / NAME).exists()
    return told


def test_a_download_is_whole_and_reports_its_progress(mirror, lone, tmp_path, monkeypatch):
    monkeypatch.setattr(download, "CHUNK", 8000)
    mirror.pages[f"/{NAME}"] = Page(BODY)
    told = []
    folder = tmp_path / "not" / "there" / "yet"
    assert_good(download.download(lone, folder, lambda *step: told.append(step)), folder)
    total = len(BODY)
    assert told == [(IMAGES, done, total) for done in (8000, 16000, total)]


@pytest.mark.parametrize("framing", ["none", "chunked"])
def test_a_server_that_does_not_say_how_much_it_sends_will_do(framing, mirror, lone, tmp_path):
    mirror.pages[f"/{NAME}"] = Page(BODY, framing=framing)
    told = []
    assert_good(download.download(lone, tmp_path, lambda *step: told.append(step)), tmp_path)
    assert told == [(IMAGES, len(BODY), None)]


def test_a_zip_keeps_its_packing(mirror, tmp_path):
    mirror.pages["/dc/data.zip"] = Page(PACKED[".zip"])
    file = file_of(IMAGES, CONTENT, f"{mirror.url}dc/data.zip")
    assert download.download(file, tmp_path) == tmp_path / f"{IMAGES}.zip"


def test_a_killed_download_goes_on_where_it_was(mirror, lone, tmp_path, monkeypatch):
    monkeypatch.setattr(download, "CHUNK", 8000)
    mirror.pages[f"/{NAME}"] = Page(BODY, breaks_off_after=9000)

    def kill(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download.download(lone, tmp_path, kill)
    assert not (tmp_path / NAME).exists()
    mirror.pages[f"/{NAME}"] = Page(BODY)
    assert_good(download.download(lone, tmp_path), tmp_path)
    assert mirror.asked == [(f"/{NAME}", None), (f"/{NAME}", "bytes=8000-")]
    assert mirror.bytes_sent < 2 * len(BODY)


def test_a_connection_that_keeps_breaking_is_taken_up_again(mirror, lone, tmp_path):
    mirror.pages[f"/{NAME}"] = Page(BODY, breaks_off_after=9000)
    assert_good(download.download(lone, tmp_path), tmp_path)
    assert [wanted for _, wanted in mirror.asked] == [None, "bytes=9000-", "bytes=18000-"]
    assert mirror.bytes_sent == len(BODY)


def test_a_connection_that_never_stops_breaking_is_given_up(mirror, lone, tmp_path):
    mirror.pages[f"/{NAME}"] = Page(BODY, breaks_off_after=10)
    assert f"broke off after 50 of {len(BODY)} bytes" in failure(lone, tmp_path)
    assert len(mirror.asked) == download.ATTEMPTS


def test_a_server_without_ranges_starts_again(mirror, lone, tmp_path):
    (tmp_path / f"{NAME}.part").write_bytes(BODY[:5000])
    mirror.pages[f"/{NAME}"] = Page(BODY, knows_ranges=False)
    assert_good(download.download(lone, tmp_path), tmp_path)
    assert mirror.asked == [(f"/{NAME}", "bytes=5000-")]


def test_a_server_without_ranges_that_breaks_off_is_left_for_the_next(mirror, file, tmp_path):
    mirror.pages[f"/a/{NAME}"] = Page(BODY, knows_ranges=False, breaks_off_after=5000)
    assert_good(download.download(file, tmp_path), tmp_path)
    assert [path for path, _ in mirror.asked].count(f"/a/{NAME}") == 2
    assert mirror.asked[-1] == (f"/last/{NAME}", "bytes=5000-")


def test_a_part_that_is_whole_already_is_not_downloaded_again(mirror, lone, tmp_path):
    """The server answers 416: there is nothing after the end."""
    (tmp_path / f"{NAME}.part").write_bytes(BODY)
    mirror.pages[f"/{NAME}"] = Page(BODY)
    assert_good(download.download(lone, tmp_path), tmp_path)
    assert mirror.bytes_sent == 0


@pytest.mark.parametrize("size", [5000, len(BODY), 2 * len(BODY), 20 * len(BODY)])
@pytest.mark.parametrize("knows_ranges", [True, False])
def test_a_part_of_something_else_does_no_harm(size, knows_ranges, mirror, lone, tmp_path):
    (tmp_path / f"{NAME}.part").write_bytes(b"\1" * size)
    mirror.pages[f"/{NAME}"] = Page(BODY, knows_ranges=knows_ranges)
    assert_good(download.download(lone, tmp_path), tmp_path)


def test_a_server_that_continues_elsewhere_does_no_harm(mirror, lone, tmp_path):
    (tmp_path / f"{NAME}.part").write_bytes(BODY[:5000])
    mirror.pages[f"/{NAME}"] = Page(BODY, continues_elsewhere=True)
    assert_good(download.download(lone, tmp_path), tmp_path)
    assert mirror.asked == [(f"/{NAME}", "bytes=5000-"), (f"/{NAME}", None)]


BROKEN = {
    "gone": Page(b"gone", status=404),
    "failing": Page(b"oh no", status=500),
    "a login page": Page(b"<html>please log in</html>"),
    "other content": Page(PACKED[".zip"][:5000]),
    "empty": Page(b"", framing="none"),
    "too large": Page(bytes(200_000)),
    "too large, undeclared": Page(bytes(200_000), framing="none"),
    "dropped at once": Page(BODY, breaks_off_after=0),
    "dropped midway": Page(BODY, breaks_off_after=3000, knows_ranges=False),
    "dropped midway, undeclared": Page(BODY, breaks_off_after=3000, framing="none"),
    "dropped midway, chunked": Page(BODY, breaks_off_after=3000, framing="chunked"),
    "no web server": Page(b"220 mail.example.com ESMTP\r\n", framing="not even HTTP"),
    "silent": Page(BODY, seconds_before=60),
    "silent midway": Page(BODY, breaks_off_after=3000, stalls_then=True),
}


@pytest.fixture(params=BROKEN)
def broken(request, mirror, monkeypatch):
    """A page that is broken. Only silent ones are given up soon: a busy machine may be slow."""
    page, opened = BROKEN[request.param], download.open_url

    def open_page(asked, timeout):
        is_silent = "silent" in request.param and mirror.pages.get(asked.selector) is page
        return opened(asked, timeout=0.2 if is_silent else timeout)

    monkeypatch.setattr(download, "open_url", open_page)
    return page


def test_the_next_mirror_makes_up_for_a_broken_one(broken, mirror, file, tmp_path):
    mirror.pages[f"/b/{NAME}"] = broken
    assert_good(download.download(file, tmp_path), tmp_path)


def test_a_broken_mirror_leaves_nothing_under_the_final_name(broken, mirror, lone, tmp_path):
    mirror.pages[f"/{NAME}"] = broken
    assert lone.urls[0] in failure(lone, tmp_path)


@pytest.mark.parametrize("framing", ["length", "none", "chunked"])
def test_an_endless_file_does_not_fill_the_disk(framing, mirror, lone, tmp_path):
    mirror.pages[f"/{NAME}"] = Page(bytes(50_000_000), framing=framing)
    largest = 0

    def watch(_, done, __):
        nonlocal largest
        largest = max(largest, done)

    with pytest.raises(DataError, match="too large"):
        download.download(lone, tmp_path, watch)
    assert largest <= (0 if framing == "length" else archive.largest_packed(lone))
    assert not (tmp_path / f"{NAME}.part").exists()


def test_without_a_network_each_mirror_is_named_with_its_reason(tmp_path):
    urls = [f"{CLOSED_PORT}{NAME}", f"http://no-such-host.invalid/{NAME}"]
    told = failure(file_of(IMAGES, CONTENT, *urls), tmp_path)
    assert f"{urls[0]} cannot be reached (Connection refused)" in told
    assert f"{urls[1]} cannot be reached" in told
    assert "RDA_DATA" in told


def test_what_was_downloaded_before_the_network_went_is_kept(mirror, lone, tmp_path):
    mirror.pages[f"/{NAME}"] = Page(BODY, breaks_off_after=3000, knows_ranges=False)
    failure(lone, tmp_path)
    assert (tmp_path / f"{NAME}.part").read_bytes() == BODY[:3000]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
def test_a_folder_that_takes_nothing_is_told_in_one_line(
    number, mirror, lone, tmp_path, monkeypatch
):
    def refuse(path, mode, **options):
        if Path(path).suffix == ".part":
            raise OSError(number, "the disk says no")
        return open(path, mode, **options)

    mirror.pages[f"/{NAME}"] = Page(BODY)
    monkeypatch.setattr(download, "open", refuse, raising=False)
    told = failure(lone, tmp_path)
    assert f"{tmp_path} (the disk says no)" in told
    assert len(mirror.asked) == 1


def test_a_disk_that_fills_up_midway_is_told_in_one_line(mirror, lone, tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    mirror.pages[f"/{NAME}"] = Page(BODY)
    monkeypatch.setattr(download.os, "fsync", full)
    assert "No space left on device" in failure(lone, tmp_path)


def test_a_folder_that_is_a_file_is_told_in_one_line(lone, tmp_path):
    (tmp_path / "file").write_text("")
    assert "cannot be written" in failure(lone, tmp_path / "file" / "data")


@pytest.mark.parametrize(
    "page",
    [
        Page(b"", status=500, reason="\x1b]0;yours\x07\x1b[2J fine"),
        Page(b"\x1b[2J\x1b]0;yours\x07 no status line\r\n", framing="not even HTTP"),
    ],
    ids=["reason", "status line"],
)
def test_a_servers_words_are_shown_and_not_obeyed(page, mirror, lone, tmp_path):
    """Escape sequences in a reply could clear the screen or rename the window."""
    mirror.pages[f"/{NAME}"] = page
    told = failure(lone, tmp_path)
    assert told.isprintable()
    assert "yours" in told


class DrippingResponse:
    """Sends a byte each time it is asked, and takes some seconds of a made-up clock for it."""

    status, headers = 206, {}

    def __init__(self, clock, seconds, start):
        self.clock, self.seconds, self.position = clock, seconds, start
        self.length = len(BODY) - start
        self.headers = {"Content-Range": f"bytes {start}-{len(BODY) - 1}/{len(BODY)}"}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def read1(self, size):
        self.clock[0] += self.seconds
        piece = BODY[self.position : self.position + 1]
        self.position += len(piece)
        return piece

    def read(self, size):
        return b"".join(iter(lambda: self.read1(1), b""))


@pytest.fixture
def dripping(monkeypatch):
    """Makes the mirrors that have "drip" in their address drip; lists what they were asked."""
    clock, asked, answer = [0.0], [], download._answer
    monkeypatch.setattr(download, "monotonic", lambda: clock[0], raising=False)

    def answers(seconds):
        def respond(url, start):
            if "drip" not in url:
                return answer(url, start)
            asked.append(start)
            return DrippingResponse(clock, seconds, start)

        monkeypatch.setattr(download, "_answer", respond)
        return asked

    return answers


def test_a_server_that_drips_is_left_for_the_next(dripping, mirror, tmp_path):
    mirror.pages[f"/{NAME}"] = Page(BODY)
    file = file_of(IMAGES, CONTENT, f"http://drip.invalid/{NAME}", f"{mirror.url}{NAME}")
    asked = dripping(seconds=20.0)  # three bytes in the minute that is measured
    assert_good(download.download(file, tmp_path), tmp_path)
    assert asked == [3 * attempt for attempt in range(download.ATTEMPTS)]
    assert mirror.asked == [(f"/{NAME}", f"bytes={3 * download.ATTEMPTS}-")]


def test_a_server_that_only_drips_is_named_with_its_rate(dripping, tmp_path):
    file = file_of(IMAGES, CONTENT, f"http://drip.invalid/{NAME}")
    dripping(seconds=20.0)
    assert f"{file.urls[0]} sent only 3 bytes in 60 seconds" in failure(file, tmp_path)


def test_a_slow_server_is_given_its_time(dripping, tmp_path):
    file = file_of(IMAGES, CONTENT, f"http://drip.invalid/{NAME}")
    asked = dripping(seconds=download.SECONDS_TO_MEASURE / download.FEWEST_BYTES)
    assert_good(download.download(file, tmp_path), tmp_path)
    assert asked == [0]


@pytest.mark.parametrize("part", ["status line", "headers", "chunk head", "trailers"])
def test_a_server_that_is_never_silent_and_never_done_is_given_up(
    part, mirror, lone, tmp_path, monkeypatch
):
    monkeypatch.setattr(patience, "SECONDS_WITHOUT_PROGRESS", 0.5)
    mirror.pages[f"/{NAME}"] = Page(BODY, drips_in=part)
    assert f"{lone.urls[0]} " in (told := failure(lone, tmp_path))
    assert "made no progress in 0.5 seconds" in told


def test_a_failed_download_leaves_no_folder_that_it_has_made(mirror, lone, tmp_path):
    failure(lone, tmp_path / "not" / "there")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "mine").mkdir()
    failure(lone, tmp_path / "mine")
    assert [place.name for place in tmp_path.rglob("*")] == ["mine"]


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(download, "SECONDS_UNTIL_TOLD", 0.1)
    monkeypatch.setattr(download, "SECONDS_WITHOUT_GROWTH", 0.5)


def locked(folder):
    """Hold the lock of the download as another process would."""
    return waiting_lock(folder / f".{NAME}.lock", lambda seconds: pytest.fail("it is free"))


def test_a_lock_that_a_stranger_holds_is_named_and_not_waited_for_without_end(
    impatient, mirror, lone, tmp_path
):
    mirror.pages[f"/{NAME}"] = Page(BODY)
    with locked(tmp_path), pytest.warns(DataWarning, match=r"waiting for it") as warned:
        told = failure(lone, tmp_path)
    assert len(warned) == 1
    assert f"another process, which holds {tmp_path / f'.{NAME}.lock'} and has received" in told


def test_a_lock_whose_holder_gets_on_is_waited_for(lone, tmp_path):
    part = tmp_path / f"{NAME}.part"
    waits = download._patience(lone, tmp_path / "lock", part)
    with pytest.warns(DataWarning):
        waits(60.0)
    for minute in range(2, 60):
        part.write_bytes(bytes(minute))
        waits(60.0 * minute)
    with pytest.raises(DataError, match="has received nothing for 300 seconds"):
        waits(60.0 * minute + download.SECONDS_WITHOUT_GROWTH)


def test_a_bad_copy_is_replaced_and_the_progress_says_so(mirror, lone, tmp_path):
    (tmp_path / NAME).write_bytes(b"bad")
    mirror.pages[f"/{NAME}"] = Page(BODY)
    told = []
    assert_good(download.download(lone, tmp_path, lambda *step: told.append(step)), tmp_path)
    assert told == [(f"{IMAGES} (replacing a bad copy)", len(BODY), len(BODY))]


def test_a_bad_copy_stays_until_there_is_a_good_one(mirror, lone, tmp_path):
    (tmp_path / NAME).write_bytes(b"bad")
    with pytest.raises(DataError):
        download.download(lone, tmp_path)
    assert (tmp_path / NAME).read_bytes() == b"bad"


def test_two_downloads_at_once_make_one(mirror, lone, tmp_path):
    mirror.pages[f"/{NAME}"] = Page(BODY, seconds_before=0.1)
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(download.download(lone, tmp_path)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for path in found:
        assert_good(path, tmp_path)
    assert mirror.bytes_sent == len(BODY)


@pytest.mark.parametrize("planted", [f"{NAME}.part", f".{NAME}.lock"])
def test_a_link_in_a_shared_folder_leads_to_no_file_of_mine(mirror, lone, tmp_path, planted):
    mirror.pages[f"/{NAME}"] = Page(BODY)
    (tmp_path / "mine").write_bytes(b"precious")
    (tmp_path / "shared").mkdir()
    link = tmp_path / "shared" / planted
    for leads_to in ("mine", "not-there-yet"):
        link.unlink(missing_ok=True)
        link.symlink_to(tmp_path / leads_to)
        assert "it is a link" in failure(lone, tmp_path / "shared")
        assert [path.read_bytes() for path in tmp_path.iterdir() if path.is_file()] == [b"precious"]
