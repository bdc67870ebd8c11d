"""Small sequences with something to be learned, and files of them in each format."""

import csv

import numpy as np

from rda.sequences.dataset import Channel, Sequences, Target


def waves(count=60, seed=0, missing=0.0):
    """Two classes that differ in frequency, two channels, unequal lengths."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(8, 20, count)
    labels = np.arange(count) % 2
    pieces = []
    for length, label in zip(lengths, labels, strict=True):
        t = np.arange(length)
        clean = np.stack([np.sin((0.5 + label) * t), 100 + 10 * np.cos((0.5 + label) * t)], 1)
        pieces.append(clean + generator.normal(0, 0.1, clean.shape))
    values = np.concatenate(pieces)
    values[generator.random(values.shape) < missing] = np.nan
    return Sequences(
        values,
        lengths.astype(np.int64),
        (Channel("a"), Channel("b")),
        tuple(f"s{i}" for i in range(count)),
        Target("label", labels.astype(float), ("fast", "slow")),
    )


def write_csv(path, sequences, delimiter=",", order=None, encoding="utf-8"):
    """One row a step; a value that is missing is an empty cell."""
    target, rows = sequences.target, []
    for i, start in enumerate(sequences.starts):
        for t in range(sequences.lengths[i]):
            cells = ["" if v != v else repr(float(v)) for v in sequences.values[start + t]]
            rows.append([sequences.ids[i], t, *cells, target.classes[int(target.values[i])]])
    if order is not None:
        rows = [rows[i] for i in order]
    with path.open("w", newline="", encoding=encoding) as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(["series", "t", *(c.name for c in sequences.channels), target.name])
        writer.writerows(rows)
    return path


def write_ts(path, sequences):
    """As the UCR and UEA archives do."""
    target = sequences.target
    with path.open("w") as file:
        file.write("# made for a test\n@problemName waves\n@timeStamps false\n@univariate false\n")
        file.write(f"@dimensions {len(sequences.channels)}\n@equalLength false\n")
        file.write(f"@classLabel true {' '.join(target.classes)}\n@data\n")
        for i, start in enumerate(sequences.starts):
            some = sequences.values[start : start + sequences.lengths[i]]
            fields = [",".join("?" if v != v else repr(float(v)) for v in one) for one in some.T]
            file.write(":".join([*fields, target.classes[int(target.values[i])]]) + "\n")
    return path


def write_npz(path, sequences):
    """Flat, with lengths; labels as words."""
    target = sequences.target
    labels = np.array(target.classes)[target.values.astype(int)]
    names = [channel.name for channel in sequences.channels]
    np.savez(path, X=sequences.values, lengths=sequences.lengths, y=labels, channels=names)
    return path


def table_rows(
    x=lambda i, t: (i * 7 + t * 3) % 11, y=lambda i, t: i % 2, id=lambda i: i, t=lambda t: t
):
    """Twenty sequences of four steps, as lines of a table with the columns id, t, x and y."""
    places = [(i, step) for i in range(20) for step in range(4)]
    return "".join(f"{id(i)},{t(step)},{x(i, step)},{y(i, step)}\n" for i, step in places)
