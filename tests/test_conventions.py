"""One table of conventions, checked on nn.LSTM, nn.GRU, RDA and RWA.

Each row is a function that observes one thing PyTorch users rely on and returns it as a string.
All four units must return the same string. The exceptions are listed in docs/conventions.md, and
those rows must return exactly what is written there. The same document lists what torch's own
units cannot do on some machines: there the row is checked on the other units.
"""

import copy
import io
import pickle
import re
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import rda

UNITS = {"nn.LSTM": nn.LSTM, "nn.GRU": nn.GRU, "RDA": rda.RDA, "RWA": rda.RWA}
DOCUMENT = Path(__file__).parents[1] / "docs" / "conventions.md"
ROWS = {}


def row(function):
    ROWS[function.__name__.replace("_", " ")] = function
    return function


class Unit:
    """A class of layers, and its states, under one interface."""

    def __init__(self, name):
        self.name = name
        self.make_layer = UNITS[name]

    def make(self, input_size=3, hidden_size=4, *positional, **options):
        torch.manual_seed(0)
        return self.make_layer(input_size, hidden_size, *positional, **options)

    def state(self, *shape, **options):
        parts = tuple(torch.rand(*shape).to(**options) for _ in range(2))
        return parts[0] if self.name == "nn.GRU" else parts


def parts_of(state):
    return (state,) if isinstance(state, torch.Tensor) else tuple(state)


def shapes(output, state):
    parts = {tuple(part.shape) for part in parts_of(state)}
    return f"output {tuple(output.shape)}, state {' and '.join(map(str, sorted(parts)))}"


def dtypes(output, state):
    names = [str(part.dtype).removeprefix("torch.") for part in (output, *parts_of(state))]
    return f"output {names[0]}, state {', '.join(dict.fromkeys(names[1:]))}"


def error_of(function, *arguments, **options):
    try:
        function(*arguments, **options)
    except Exception as error:
        return type(error).__name__
    return "accepted"


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(parts_of(one), parts_of(other), strict=True))


def rows_of_nonfinite(output):
    return (~output.isfinite()).any(-1).int().tolist()


# Layout, layers, directions


@row
def time_first(unit):
    return shapes(*unit.make()(torch.randn(5, 2, 3)))


@row
def batch_first(unit):
    return shapes(*unit.make(batch_first=True)(torch.randn(2, 5, 3)))


@row
def batch_first_is_time_first_transposed(unit):
    x = torch.randn(2, 5, 3)
    output, state = unit.make(batch_first=True)(x)
    other, other_state = unit.make()(x.transpose(0, 1))
    return str(same(output, other.transpose(0, 1)) and same(state, other_state))


@row
def unbatched(unit):
    return shapes(*unit.make(num_layers=2)(torch.randn(5, 3)))


@row
def unbatched_with_a_state(unit):
    return shapes(*unit.make(num_layers=2)(torch.randn(5, 3), unit.state(2, 4)))


@row
def unbatched_and_batch_first(unit):
    return shapes(*unit.make(batch_first=True)(torch.randn(5, 3)))


@row
def unbatched_equals_a_batch_of_one(unit):
    layer, x = unit.make(num_layers=2), torch.randn(5, 3)
    return str(torch.allclose(layer(x)[0], layer(x.unsqueeze(1))[0].squeeze(1), atol=1e-6))


@row
def empty_batch(unit):
    return shapes(*unit.make(num_layers=2, bidirectional=True)(torch.randn(5, 0, 3)))


@row
def one_step(unit):
    return shapes(*unit.make()(torch.randn(1, 2, 3)))


@row
def several_layers(unit):
    return shapes(*unit.make(num_layers=3)(torch.randn(5, 2, 3)))


@row
def both_directions(unit):
    return shapes(*unit.make(num_layers=2, bidirectional=True)(torch.randn(5, 2, 3)))


@row
def positional_arguments(unit):
    layer = unit.make(3, 4, 2, True, True, 0.0, True)
    return shapes(*layer(torch.randn(2, 5, 3)))


@row
def the_last_step_of_each_direction_is_in_the_state(unit):
    """For RDA the state holds the average, of which the output is a function."""
    layer = unit.make(bidirectional=True)
    output, state = layer(torch.randn(5, 2, 3))
    hidden = parts_of(state)[0]
    return str(
        torch.equal(output[-1, :, :4], hidden[0]) and torch.equal(output[0, :, 4:], hidden[1])
    )


@row
def non_contiguous_input(unit):
    layer, x = unit.make(), torch.randn(3, 5, 2).permute(1, 2, 0)
    return str(same(layer(x)[0], layer(x.contiguous())[0]))


@row
def training_and_inference_agree(unit):
    layer, x = unit.make(num_layers=2), torch.randn(5, 2, 3)
    with torch.inference_mode():
        inferred, _ = layer.eval()(x)
    return str(torch.allclose(inferred, layer.train()(x)[0], atol=1e-6))


# Dropout


@row
def dropout_only_between_layers_and_only_in_training(unit):
    layer, x = unit.make(num_layers=2, dropout=0.5), torch.randn(5, 2, 3)
    trained = [layer(x)[0] for _ in range(2)]
    layer.eval()
    return (
        f"training random: {not same(*trained)}, eval random: {not same(layer(x)[0], layer(x)[0])}"
    )


@row
def dropout_of_one_cuts_the_layers_apart(unit):
    layer = unit.make(num_layers=2, dropout=1.0)
    return str(same(layer(torch.randn(5, 2, 3))[0], layer(torch.randn(5, 2, 3))[0]))


@row
def dropout_with_one_layer_warns(unit):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        unit.make(dropout=0.5)
    return ", ".join(w.category.__name__ for w in caught)


# Packing


def packed_input(enforce_sorted):
    lengths = [5, 3, 2] if enforce_sorted else [2, 5, 3]
    x = torch.randn(5, 3, 3)
    return x, lengths, pack_padded_sequence(x, lengths, enforce_sorted=enforce_sorted)


def packed_observation(unit, enforce_sorted):
    x, lengths, packed = packed_input(enforce_sorted)
    layer = unit.make(num_layers=2, bidirectional=True)
    state = unit.state(4, 3, 4)
    output, final = layer(packed, state)
    agrees = True
    padded, _ = pad_packed_sequence(output)
    for k, length in enumerate(lengths):
        mine = [part[:, k : k + 1].contiguous() for part in parts_of(state)]
        alone, last = layer(
            x[:length, k : k + 1], mine[0] if unit.name == "nn.GRU" else tuple(mine)
        )
        agrees &= torch.allclose(padded[:length, k : k + 1], alone, atol=1e-6)
        pairs = zip(parts_of(final), parts_of(last), strict=True)
        agrees &= all(torch.allclose(a[:, k : k + 1], b, atol=1e-6) for a, b in pairs)
    kept = all(
        (a is None and b is None) or torch.equal(a, b)
        for a, b in zip(packed[1:], output[1:], strict=True)
    )
    kind = type(output).__name__
    return f"{kind}, order kept: {kept}, one by one: {agrees}, {shapes(output.data, final)}"


@row
def packed_sorted(unit):
    return packed_observation(unit, enforce_sorted=True)


@row
def packed_unsorted(unit):
    return packed_observation(unit, enforce_sorted=False)


@row
def packed_without_a_state(unit):
    return shapes(
        unit.make()(packed_input(False)[2])[0].data, unit.make()(packed_input(False)[2])[1]
    )


@row
def lengths_of_a_padded_batch(unit):
    return error_of(unit.make(), torch.randn(5, 2, 3), lengths=torch.tensor([5, 2]))


# States


@row
def zeros_mean_no_history(unit):
    layer, x = unit.make(num_layers=2), torch.randn(5, 2, 3)
    zeros = torch.zeros(2, 2, 4)
    given = layer(x, zeros if unit.name == "nn.GRU" else (zeros, zeros))
    return str(same(given[0], layer(x)[0]) and same(given[1], layer(x)[1]))


@row
def a_state_detached_in_place(unit):
    _, state = unit.make()(torch.randn(5, 2, 3))
    return " and ".join(sorted({error_of(part.detach_) for part in parts_of(state)}))


@row
def a_split_sequence_with_its_state_carried(unit):
    layer, x = unit.make(num_layers=2), torch.randn(6, 2, 3)
    first, state = layer(x[:2])
    second, state = layer(x[2:], state)
    whole, final = layer(x)
    pairs = zip(parts_of(state), parts_of(final), strict=True)
    close = [torch.allclose(a, b, atol=1e-6) for a, b in pairs]
    return str(torch.allclose(torch.cat([first, second]), whole, atol=1e-6) and all(close))


@row
def the_state_unpacks_into_tensors(unit):
    _, state = unit.make()(torch.randn(5, 2, 3))
    return f"{len(parts_of(state))}, {type(state).__name__}"


@row
def a_list_as_state(unit):
    if unit.name == "nn.GRU":
        return "accepted"  # its state is a single tensor: there is no pair to pass as a list
    return error_of(unit.make(), torch.randn(5, 2, 3), list(unit.state(1, 2, 4)))


@row
def a_random_normal_state(unit):
    """As in many an example: h0, c0 = torch.randn(...), torch.randn(...)."""
    parts = torch.randn(1, 2, 4), torch.randn(1, 2, 4)
    output, _ = unit.make()(torch.randn(5, 2, 3), parts[0] if unit.name == "nn.GRU" else parts)
    return f"finite: {output.isfinite().all().item()}"


@row
def the_name_of_the_state_argument(unit):
    return error_of(unit.make(), torch.randn(5, 2, 3), hx=unit.state(1, 2, 4))


# Dtypes


@row
def float64(unit):
    return dtypes(*unit.make(dtype=torch.float64)(torch.randn(5, 2, 3, dtype=torch.float64)))


@row
def bfloat16(unit):
    return dtypes(*unit.make(dtype=torch.bfloat16)(torch.randn(5, 2, 3, dtype=torch.bfloat16)))


@row
def float16(unit):
    return dtypes(*unit.make(dtype=torch.float16)(torch.randn(5, 2, 3, dtype=torch.float16)))


@row
def autocast(unit):
    layer = unit.make()
    with torch.autocast("cpu", torch.bfloat16):
        return dtypes(*layer(torch.randn(5, 2, 3), unit.state(1, 2, 4)))


@row
def autocast_without_a_state(unit):
    layer = unit.make()
    with torch.autocast("cpu", torch.bfloat16):
        return dtypes(*layer(torch.randn(5, 2, 3)))


@row
def autocast_gradients(unit):
    layer = unit.make()
    with torch.autocast("cpu", torch.bfloat16):
        output, _ = layer(torch.randn(5, 2, 3))
    output.float().sum().backward()
    return ", ".join(sorted({str(part.grad.dtype) for part in layer.parameters()}))


@row
def double_converts_everything(unit):
    return dtypes(*unit.make().double()(torch.randn(5, 2, 3).double()))


# Wrong calls


CALLS = {
    "input of rank 1": lambda unit: (torch.randn(3),),
    "input of rank 4": lambda unit: (torch.randn(5, 2, 3, 1),),
    "wrong feature size": lambda unit: (torch.randn(5, 2, 7),),
    "wrong feature size, unbatched": lambda unit: (torch.randn(5, 7),),
    "no steps": lambda unit: (torch.randn(0, 2, 3),),
    "no steps, unbatched": lambda unit: (torch.randn(0, 3),),
    "float64 into float32": lambda unit: (torch.randn(5, 2, 3).double(),),
    "bfloat16 into float32": lambda unit: (torch.randn(5, 2, 3).bfloat16(),),
    "integers": lambda unit: (torch.ones(5, 2, 3, dtype=torch.long),),
    "input on another device": lambda unit: (torch.randn(5, 2, 3, device="meta"),),
    "state of a wrong batch": lambda unit: (torch.randn(5, 2, 3), unit.state(1, 3, 4)),
    "state of wrong layers": lambda unit: (torch.randn(5, 2, 3), unit.state(2, 2, 4)),
    "state of a wrong size": lambda unit: (torch.randn(5, 2, 3), unit.state(1, 2, 5)),
    "state without a batch": lambda unit: (torch.randn(5, 2, 3), unit.state(1, 4)),
    "state of rank 4": lambda unit: (torch.randn(5, 2, 3), unit.state(1, 1, 2, 4)),
    "state with a batch, input without": lambda unit: (
        torch.randn(5, 3),
        unit.state(1, 1, 4),
    ),
    "state of another dtype": lambda unit: (
        torch.randn(5, 2, 3),
        unit.state(1, 2, 4, dtype=torch.float64),
    ),
    "state on another device": lambda unit: (
        torch.randn(5, 2, 3),
        unit.state(1, 2, 4, device="meta"),
    ),
    "packed, wrong feature size": lambda unit: (
        pack_padded_sequence(torch.randn(5, 3, 7), [5, 3, 2]),
    ),
    "packed, wrong dtype": lambda unit: (
        pack_padded_sequence(torch.randn(5, 3, 3).double(), [5, 3, 2]),
    ),
    "packed, state of a wrong batch": lambda unit: (
        packed_input(False)[2],
        unit.state(1, 2, 4),
    ),
    "packed, growing batch sizes": lambda unit: (
        PackedSequence(torch.randn(6, 3), torch.tensor([3, 1, 2])),
    ),
    "packed, too little data": lambda unit: (
        PackedSequence(torch.randn(3, 3), torch.tensor([3, 1])),
    ),
    "packed, batch of none": lambda unit: (PackedSequence(torch.randn(0, 3), torch.tensor([0])),),
    "float64 into float32 under autocast": lambda unit: (torch.randn(5, 2, 3).double(),),
    "not a tensor": lambda unit: ([1.0, 2.0],),
    "nothing": lambda unit: (None,),
}


def call(unit, title):
    with torch.autocast("cpu", torch.bfloat16, enabled="under autocast" in title):
        return error_of(unit.make(), *CALLS[title](unit))


for title in CALLS:
    ROWS[f"call: {title}"] = lambda unit, t=title: call(unit, t)

CONSTRUCTIONS = {
    "hidden_size 0": {"hidden_size": 0},
    "hidden_size negative": {"hidden_size": -1},
    "hidden_size a float": {"hidden_size": 2.5},
    "hidden_size a string": {"hidden_size": "4"},
    "input_size 0": {"input_size": 0},
    "input_size a float": {"input_size": 2.5},
    "num_layers 0": {"num_layers": 0},
    "num_layers a float": {"num_layers": 1.5},
    "dropout negative": {"dropout": -0.1},
    "dropout above 1": {"dropout": 1.1},
    "dropout a bool": {"dropout": True},
    "dropout NaN": {"dropout": float("nan")},
    "dropout a string": {"dropout": "half"},
    "bias an int": {"bias": 2},
    "batch_first None": {"batch_first": None},
    "an unknown option": {"hidden_units": 3},
    "an integer dtype": {"dtype": torch.int64},
    "proj_size": {"proj_size": 2},
}
for title, options in CONSTRUCTIONS.items():
    ROWS[f"construct: {title}"] = lambda unit, o=options: error_of(
        unit.make, **{"input_size": 3, "hidden_size": 4, **o}
    )


# Cells


CELLS = {
    "nn.LSTM": nn.LSTMCell,
    "nn.GRU": nn.GRUCell,
    "RDA": rda.RDACell,
    "RWA": rda.RWACell,
}


@row
def cell_with_hidden_size_0(unit):
    return error_of(CELLS[unit.name], 3, 0)


@row
def cell_with_input_size_0(unit):
    return error_of(CELLS[unit.name], 0, 4)


@row
def cell_with_a_negative_hidden_size(unit):
    return error_of(CELLS[unit.name], 3, -1)


@row
def cell_called_with_a_state_of_rank_4(unit):
    return error_of(CELLS[unit.name](3, 4), torch.randn(2, 3), unit.state(1, 1, 2, 4))


# The module


@row
def extra_repr(unit):
    return (
        f"{unit.make().extra_repr()} | "
        + unit.make(
            num_layers=2, bias=False, batch_first=True, dropout=0.2, bidirectional=True
        ).extra_repr()
    )


@row
def parameter_names(unit):
    layer = unit.make(num_layers=2, bidirectional=True)
    return ", ".join(name for name, _ in layer.named_parameters() if "l1_reverse" in name)


@row
def weights_without_biases(unit):
    return ", ".join(name for name, _ in unit.make(bias=False).named_parameters())


@row
def weight_shapes(unit):
    layer = unit.make()
    return f"{tuple(layer.weight_ih_l0.shape)}, {tuple(layer.weight_hh_l0.shape)}"


@row
def all_weights(unit):
    layer = unit.make(num_layers=2, bidirectional=True)
    every = [part for group in layer.all_weights for part in group]
    complete = all(a is b for a, b in zip(every, layer.parameters(), strict=True))
    return f"{len(layer.all_weights)} groups, all: {complete}"


@row
def what_torch_keeps_beside_the_weights(unit):
    names = ("_flat_weights", "_all_weights", "mode", "get_expected_hidden_size", "proj_size")
    return ", ".join(name for name in names if hasattr(unit.make(), name)) or "none"


@row
def flatten_parameters(unit):
    return str(unit.make().flatten_parameters())


@row
def reset_parameters(unit):
    layer = unit.make()
    before = layer.weight_ih_l0.clone()
    layer.reset_parameters()
    return f"drawn anew: {not torch.equal(before, layer.weight_ih_l0)}"


@row
def copies(unit):
    layer, x = unit.make(num_layers=2), torch.randn(5, 2, 3)
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    loaded = unit.make(num_layers=2)
    loaded.reset_parameters()
    loaded.load_state_dict(torch.load(file, weights_only=True))
    made = {
        "deepcopy": copy.deepcopy(layer),
        "pickle": pickle.loads(pickle.dumps(layer)),
        "state_dict": loaded,
    }
    return ", ".join(name for name, other in made.items() if same(layer(x)[0], other(x)[0]))


@row
def meta_device(unit):
    return shapes(*unit.make(device="meta")(torch.randn(5, 2, 3, device="meta")))


@row
def gradients_reach_everything(unit):
    layer = unit.make(num_layers=2, bidirectional=True)
    x = torch.randn(5, 2, 3, requires_grad=True)
    state = unit.state(4, 2, 4)
    for part in parts_of(state):
        part.requires_grad_()
    output, final = layer(x, state)
    (output.sum() + sum(part.sum() for part in parts_of(final))).backward()
    reached = (*layer.parameters(), x, *parts_of(state))
    return str(all(bool((part.grad != 0).any()) for part in reached))


@row
def nan_input(unit):
    x = torch.randn(6, 2, 3)
    x[3, 0, 1] = torch.nan
    return str(rows_of_nonfinite(unit.make()(x)[0]))


@row
def nan_input_both_directions(unit):
    x = torch.randn(4, 2, 3)
    x[2, 0, 1] = torch.nan
    return str(rows_of_nonfinite(unit.make(bidirectional=True)(x)[0].view(4, 2, 2, 4)))


@row
def infinite_input(unit):
    x = torch.randn(6, 2, 3)
    x[3, 0, 1] = torch.inf
    return str(rows_of_nonfinite(unit.make()(x)[0]))


def documented_table(title):
    """The header and the rows of the table under a heading of docs/conventions.md."""
    section = DOCUMENT.read_text().split(f"## {title}", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    plain = [[cell.strip("`").replace("\\|", "|") for cell in row] for row in cells]
    return plain[0], plain[2:]


def documented_differences():
    """What each unit returns in the rows in which they differ."""
    header, rows = documented_table("Differences")
    assert header[1:5] == list(UNITS)
    return {name: dict(zip(UNITS, told, strict=False)) for name, *told in rows}


def documented_limits():
    """The peer that cannot do a row on some machines, and the error it raises there."""
    header, rows = documented_table("What a peer cannot do on every machine")
    assert header == ["convention", "peer", "error", "where"]
    return {name: (peer, error) for name, peer, error, _ in rows}


DIFFERENCES = documented_differences()
LIMITS = documented_limits()


def observe(name, unit):
    """What the unit returns in this row; None where it is a peer with that documented limit."""
    peer, error = LIMITS.get(name, ("", ""))
    try:
        return ROWS[name](Unit(unit))
    except RuntimeError as raised:
        if unit == peer and error in str(raised):
            return None
        raise


def check_convention(name):
    observed = {unit: observe(name, unit) for unit in UNITS}
    told = {unit: text for unit, text in observed.items() if text is not None}
    if name in DIFFERENCES:
        expected = {unit: DIFFERENCES[name][unit] for unit in told}
        assert told == expected, "docs/conventions.md tells otherwise"
        assert len(set(DIFFERENCES[name].values())) > 1, "no difference: take it out of the table"
    else:
        assert len(set(told.values())) == 1, told


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ROWS)
def test_convention(name):
    check_convention(name)


@pytest.mark.parametrize("name", LIMITS)
def test_a_convention_holds_on_machines_where_a_peer_cannot_do_it(name, monkeypatch):
    """On machines where the peer can, a stand-in raises the documented error."""
    peer, error = LIMITS[name]

    def unable(self, *arguments):
        raise RuntimeError(f"{error} for the forward pass")

    monkeypatch.setattr(UNITS[peer], "forward", unable)
    assert observe(name, peer) is None
    check_convention(name)


def test_an_undocumented_error_of_a_peer_is_a_failure(monkeypatch):
    def broken(self, *arguments):
        raise RuntimeError("something else")

    monkeypatch.setattr(nn.LSTM, "forward", broken)
    for name in ("autocast", "time first"):
        with pytest.raises(RuntimeError, match="something else"):
            check_convention(name)


def test_every_documented_row_exists():
    assert set(DIFFERENCES) <= set(ROWS)
    assert set(LIMITS) <= set(ROWS)
    assert {peer for peer, _ in LIMITS.values()} <= {"nn.LSTM", "nn.GRU"}


WRONG = {
    "input of rank 1": ["2D or 3D", "1D", "(3,)"],
    "wrong feature size": ["Expected 3", "got 7", "(5, 2, 7)"],
    "float64 into float32": ["float64", "float32"],
    "state of a wrong batch": ["(1, 2, 4)", "(1, 3, 4)"],
    "state without a batch": ["(1, 2, 4)", "(1, 4)"],
    "state with a batch, input without": ["(1, 4)", "(1, 1, 4)"],
    "state of another dtype": ["float32", "float64"],
    "state on another device": ["input tensor at cpu", "state average at meta"],
    "packed, growing batch sizes": ["never grow", "[3, 1, 2]"],
    "input on another device": ["meta", "cpu"],
    "packed, state of a wrong batch": ["(1, 3, 4)", "(1, 2, 4)"],
    "packed, wrong feature size": ["Expected 3", "got 7"],
}


@pytest.mark.parametrize("unit", ["RDA", "RWA"])
@pytest.mark.parametrize("title", WRONG)
def test_an_error_names_what_was_expected_and_what_was_given(unit, title):
    unit = Unit(unit)
    with pytest.raises((ValueError, RuntimeError)) as caught:
        unit.make()(*CALLS[title](unit))
    for part in (unit.name, *WRONG[title]):
        assert part in str(caught.value)


@pytest.mark.parametrize("state", [torch.zeros(2, 2, 4), (torch.zeros(1, 2, 4),) * 3, "zeros"])
def test_a_state_that_is_no_pair_is_refused(state):
    with pytest.raises(RuntimeError, match="pair of tensors"):
        rda.RDA(3, 4)(torch.randn(5, 2, 3), state)
    with pytest.raises(TypeError, match="average should be a Tensor"):
        rda.RDA(3, 4)(torch.randn(5, 2, 3), (None, torch.zeros(1, 2, 4)))


def test_a_packed_sequence_stays_one():
    assert isinstance(rda.RDA(3, 4)(packed_input(True)[2])[0], PackedSequence)
