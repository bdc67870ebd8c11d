"""Whatever lies in the folder, it is read exactly or refused in one line."""

import gzip
import tracemalloc
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mirror import CONTENT, IMAGES, PACKED, declaring, file_of, zipped

from rda.data import archive
from rda.data.errors import BadFileError, DataError

FILE = file_of(IMAGES, CONTENT)
MEGABYTE = 1 << 20
ZEROS = bytes(40 * MEGABYTE)
FLAGS = {b"PK\x03\x04": 6, b"PK\x01\x02": 8}


def refusal(path, content):
    """The one line that refuses this file; it names the file and what was expected."""
    path.write_bytes(content)
    with pytest.raises(BadFileError) as refused:
        archive.read(path, FILE)
    told = str(refused.value)
    assert "\n" not in told
    assert str(path) in told
    assert FILE.sha256 in told
    assert str(FILE.size) in told
    return told


@pytest.mark.parametrize("packing", PACKED)
def test_every_packing_gives_the_same_content(packing, tmp_path):
    path = tmp_path / f"{IMAGES}{packing}"
    path.write_bytes(PACKED[packing])
    assert archive.read(path, FILE) == CONTENT


@pytest.mark.parametrize("packing", PACKED)
def test_a_copy_that_a_browser_unpacked_or_renamed_still_serves(packing, tmp_path):
    path = tmp_path / f"{IMAGES}.gz"
    path.write_bytes(PACKED[packing])
    assert archive.read(path, FILE) == CONTENT


@pytest.mark.parametrize(
    "member", ["train-images.idx3-ubyte", f"mnist/{IMAGES}", f"./MNIST/raw/{IMAGES}"]
)
def test_a_zip_made_by_hand_still_serves(member, tmp_path):
    path = tmp_path / f"{IMAGES}.zip"
    path.write_bytes(zipped(CONTENT, member, zipfile.ZIP_STORED))
    assert archive.read(path, FILE) == CONTENT


WRONG = {
    "wrong content": bytes(len(CONTENT)),
    "more than 20000 bytes": CONTENT + b"\n",
    "only 19999 bytes": CONTENT[:-1],
}


@pytest.mark.parametrize("packing", PACKED)
@pytest.mark.parametrize("told", WRONG)
def test_other_content_is_refused(packing, told, tmp_path):
    other = WRONG[told]
    packed = {"": other, ".gz": gzip.compress(other), ".zip": zipped(other)}[packing]
    assert told in refusal(tmp_path / f"{IMAGES}{packing}", packed)


@pytest.mark.parametrize("packing", [".gz", ".zip"])
@pytest.mark.parametrize("kept", [0.1, 0.5, 0.999])
def test_a_truncated_archive_is_refused(packing, kept, tmp_path):
    packed = PACKED[packing]
    told = refusal(tmp_path / f"{IMAGES}{packing}", packed[: int(kept * len(packed))])
    assert "truncated or corrupt" in told


def test_an_empty_file_is_refused(tmp_path):
    assert "only 0 bytes" in refusal(tmp_path / f"{IMAGES}.gz", b"")


def test_a_corrupt_zip_is_refused(tmp_path):
    packed = bytearray(PACKED[".zip"])
    packed[len(packed) // 2] ^= 0xFF
    assert "truncated or corrupt" in refusal(tmp_path / f"{IMAGES}.zip", bytes(packed))


def test_an_encrypted_zip_is_refused(tmp_path):
    packed = bytearray(PACKED[".zip"])
    for signature, offset in FLAGS.items():
        packed[packed.index(signature) + offset] |= 1
    assert "encrypted" in refusal(tmp_path / f"{IMAGES}.zip", bytes(packed))


def test_a_zip_of_something_else_is_refused(tmp_path):
    told = refusal(tmp_path / f"{IMAGES}.zip", zipped(CONTENT, "holiday.jpg"))
    assert f"no member {IMAGES}" in told


@pytest.fixture(scope="module")
def bombs():
    deflated, gzipped = zipped(ZEROS), gzip.compress(ZEROS)
    return {
        "zip": deflated,
        "zip that declares little": declaring(deflated, FILE.size),
        "bzip2 in a zip": zipped(ZEROS, method=zipfile.ZIP_BZIP2),
        "lzma in a zip": declaring(zipped(ZEROS, method=zipfile.ZIP_LZMA), FILE.size),
        "gzip": gzipped,
        "gzip that declares little": declaring(gzipped, FILE.size),
    }


@pytest.mark.parametrize(
    "kind",
    [
        "zip",
        "zip that declares little",
        "bzip2 in a zip",
        "lzma in a zip",
        "gzip",
        "gzip that declares little",
    ],
)
def test_a_bomb_does_not_fill_the_memory(kind, bombs, tmp_path):
    tracemalloc.start()
    try:
        told = refusal(tmp_path / f"{IMAGES}.zip", bombs[kind])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MEGABYTE
    assert "too large" not in told, "refused for its packed size: not a bomb"


def test_a_huge_file_is_refused_unread(tmp_path):
    assert "too large" in refusal(tmp_path / IMAGES, bytes(MEGABYTE))


def test_a_folder_in_the_place_of_a_file_is_refused_in_one_line(tmp_path):
    with pytest.raises(BadFileError, match="cannot be read"):
        archive.read(tmp_path, FILE)


def test_a_line_end_in_a_path_does_not_break_the_line(tmp_path):
    assert len(str(DataError(f"{tmp_path}/a\nb is bad")).splitlines()) == 1


@settings(max_examples=150, deadline=None)
@given(
    packing=st.sampled_from([".gz", ".zip"]),
    cut=st.none() | st.floats(0, 1),
    flips=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 7)), max_size=3),
    near_an_end=st.booleans(),
)
def test_no_damage_ever_passes_or_crashes(tmp_path_factory, packing, cut, flips, near_an_end):
    """The headers lie at the ends, and are where damage has most to break."""
    packed = bytearray(PACKED[packing])
    for place, bit in flips:
        position = int(place * 200) - 150 if near_an_end else int(place * len(packed))
        packed[position] ^= 1 << bit
    if cut is not None:
        del packed[int(cut * len(packed)) :]
    path = tmp_path_factory.getbasetemp() / f"damaged{packing}"
    path.write_bytes(packed)
    try:
        assert archive.read(path, FILE) == CONTENT
    except DataError as error:
        assert "\n" not in str(error)
