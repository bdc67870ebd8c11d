"""Tables as people have them: well-known series with dates and running numbers beside them."""

import csv
import io
from itertools import product

AIRLINE = [
    112, 118, 132, 129, 121, 135, 148, 148, 136, 119, 104, 118, 115, 126, 141, 135, 125, 149, 170,
    170, 158, 133, 114, 140, 145, 150, 178, 163, 172, 178, 199, 199, 184, 162, 146, 166, 171, 180,
    193, 181, 183, 218, 230, 242, 209, 191, 172, 194, 196, 196, 236, 235, 229, 243, 264, 272, 237,
    211, 180, 201, 204, 188, 235, 227, 234, 264, 302, 293, 259, 229, 203, 229, 242, 233, 267, 269,
    270, 315, 364, 347, 312, 274, 237, 278, 284, 277, 317, 313, 318, 374, 413, 405, 355, 306, 271,
    306, 315, 301, 356, 348, 355, 422, 465, 467, 404, 347, 305, 336, 340, 318, 362, 348, 363, 435,
    491, 505, 404, 359, 310, 337, 360, 342, 406, 396, 420, 472, 548, 559, 463, 407, 362, 405, 417,
    391, 419, 461, 472, 535, 622, 606, 508, 461, 390, 432,
]  # fmt: skip
"""Passengers of each month from 1949 to 1960, in thousands."""
MONTHS = [f"{year}-{month:02}" for year, month in product(range(1949, 1961), range(1, 13))]
TIMES = [f"{month}-01" for month in MONTHS]
QUARTERS = [f"{year}Q{quarter}" for year, quarter in product(range(1949, 1985), range(1, 5))]
EPOCH = 1_577_836_800
"""The beginning of 2020, in seconds since 1970."""


def table(**columns):
    """Columns as a table of text."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


def write(folder, content, name="a.csv"):
    """The path of a file with this content."""
    (folder / name).write_text(content)
    return str(folder / name)
