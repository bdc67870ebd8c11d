"""The two real data sets of the paper: their files and where to download them.

Size and SHA-256 are those of the unpacked content, so that one check serves every packing.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class File:
    """One file of a data set; the URLs are its mirrors, tried in this order."""

    name: str
    size: int
    sha256: str
    urls: tuple[str, ...]


@dataclass(frozen=True)
class Dataset:
    """A named set of files."""

    name: str
    description: str
    files: tuple[File, ...]


MNIST_MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "http://yann.lecun.com/exdb/mnist/",
)


def _mnist_file(name: str, size: int, sha256: str) -> File:
    return File(name, size, sha256, tuple(f"{mirror}{name}.gz" for mirror in MNIST_MIRRORS))


MNIST = Dataset(
    "mnist",
    "70,000 images of handwritten digits, 28 x 28 pixels each",
    (
        _mnist_file(
            "train-images-idx3-ubyte",
            47_040_016,
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        ),
        _mnist_file(
            "train-labels-idx1-ubyte",
            60_008,
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        ),
        _mnist_file(
            "t10k-images-idx3-ubyte",
            7_840_016,
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        ),
        _mnist_file(
            "t10k-labels-idx1-ubyte",
            10_008,
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
    ),
)

ENWIK8 = Dataset(
    "enwik8",
    "the first 100,000,000 bytes of an English Wikipedia dump",
    (
        File(
            "enwik8",
            100_000_000,
            "2b49720ec4d78c3c9fabaee6e4179a5e997302b3a70029f30f2d582218c024a8",
            (
                "https://mattmahoney.net/dc/enwik8.zip",
                "http://mattmahoney.net/dc/enwik8.zip",
                "https://data.deepai.org/enwik8.zip",
            ),
        ),
    ),
)

DATASETS = {dataset.name: dataset for dataset in (MNIST, ENWIK8)}
