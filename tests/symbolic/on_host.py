"""The CUDA text of units, run on the CPU by a frame of its own."""

import ctypes
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from rda.scan.cpu.build import compiler
from rda.scan.cuda import launching
from rda.scan.cuda.compiled import OnGpu
from rda.symbolic.derived import Derived

HERE = Path(__file__).parent
CUDA = Path(launching.__file__).parent


def lines_of(path):
    return f'#line 1 "{path.name}"\n{path.read_text()}\n'


def source(units, precision, width, wide):
    """All units in one text, because a compiler takes longer to start than for a unit."""
    pieces = [
        f"#define PRODUCT {launching.PRODUCTS[precision]}\n",
        f"#define H {width}\n#define ADJACENT {wide}\n",
        lines_of(HERE / "host_hardware.cpp"),
        lines_of(CUDA / "functions.cu"),
    ]
    for k, unit in enumerate(units):
        pieces += [
            f"#undef GATES\n#undef INPUTS\n#undef EXPORTED\n#define EXPORTED(name) name##_{k}\n",
            f'namespace unit_{k} {{\n#line 1 "{unit.name}, generated"\n{unit.text}\n',
            lines_of(HERE / "host_frame.cpp"),
            "}\n",
        ]
    return "".join(pieces)


@cache
def library(units, precision, width, wide):
    """The compiled units."""
    with tempfile.TemporaryDirectory() as folder:
        text, made = Path(folder, "units.cpp"), Path(folder, "units.so")
        text.write_text(source(units, precision, width, wide))
        # -ffp-contract=off: what the tests compare does not depend on the machine.
        options = ("-O0", "-std=c++17", "-fPIC", "-shared", "-w", "-ffp-contract=off")
        subprocess.run([*compiler(), *options, "-o", str(made), str(text)], check=True)
        return ctypes.CDLL(str(made))


class OnHost:
    """Units as kernels in one precision whose `run` is here. `wide` as in the engine `grid`."""

    def __init__(self, units, precision, width, wide=1, *, records_first=False):
        self.records_first = records_first
        in_half = precision == "bf16"
        self.kernels = {
            name: OnGpu(Derived(unit, in_half), self.run, precision) for name, unit in units.items()
        }
        texts = tuple(dict.fromkeys(kernel.unit for kernel in self.kernels.values()))
        self.places = {text: place for place, text in enumerate(texts)}
        self.library = library(texts, precision, width, wide)

    def run(self, work):
        function = getattr(self.library, f"{work.direction}_{self.places[work.unit]}")
        tensors, lengths = [launching.pointer(work.weight)], launching.pointer(work.lengths)
        if work.is_forward:
            tensors.insert(0, launching.pointer(work.projected))
        structs = ctypes.byref(work.addresses), lengths, ctypes.byref(work.sizes)
        order = (self.records_first,) if work.is_forward else ()
        function(*tensors, *structs, *order)
