"""Whatever is drawn, the answer is a right result or a typed error, and nothing else."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import rda
from rda.activations import ATTENTION, HIDDEN, OUTPUT, Choices
from rda.equations import Gates, LogState, output, stable_hidden, stable_step
from rda.functional import scan

MANY = settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
DTYPES = {torch.float64: 1e-12, torch.float32: 2e-5, torch.bfloat16: 6e-2, torch.float16: 1e-2}

named_choices = st.builds(
    Choices,
    st.sampled_from(sorted(ATTENTION)),
    st.sampled_from(sorted(HIDDEN)),
    st.sampled_from(sorted(OUTPUT)),
    st.booleans(),
)


def by_row(projected, weight, start, choices, lengths, reverse):
    """Each row by itself in float64, with the steps written out: no batch, no mask."""
    finals, results = [], []
    for k, length in enumerate(lengths.tolist()):
        state = LogState(*(part[k : k + 1].double() for part in start))
        row = torch.zeros(projected.shape[0], weight.shape[1], dtype=torch.float64)
        for t in reversed(range(length)) if reverse else range(length):
            u, *gated = projected[t, k : k + 1].double().chunk(choices.input_blocks, -1)
            h = stable_hidden(state, choices)
            from_hidden = (h @ weight.double().T).chunk(choices.recurrent_blocks, -1)
            logits = [a + b for a, b in zip(gated, from_hidden, strict=True)]
            state = stable_step(state, Gates(u, *logits, *[None] * (3 - len(logits))), choices)
            row[t] = output(stable_hidden(state, choices), choices)
        finals.append(state)
        results.append(row)
    state = LogState(*(torch.cat(parts) for parts in zip(*finals, strict=True)))
    return torch.stack(results, dim=1), state


@MANY
@given(st.data(), named_choices, st.sampled_from(sorted(DTYPES, key=str)))
def test_any_shape_length_and_dtype_gives_the_right_result(data, choices, dtype):
    time, batch, hidden = (data.draw(st.integers(1, high)) for high in (7, 4, 5))
    lengths = torch.tensor(
        data.draw(st.lists(st.integers(0, time), min_size=batch, max_size=batch))
    )
    reverse, given_state = data.draw(st.booleans()), data.draw(st.booleans())
    torch.manual_seed(data.draw(st.integers(0, 2**32)))
    projected = torch.randn(time, batch, choices.input_blocks * hidden).to(dtype)
    weight = (torch.randn(choices.recurrent_blocks * hidden, hidden) / 2).to(dtype)
    if choices.attention == "relu":
        # Near ReLU's kink a rounding decides whether a step is seen at all.
        projected[..., 2 * hidden : 3 * hidden] += 4.0
        weight[hidden : 2 * hidden] = 0.0
    wide = torch.promote_types(dtype, torch.float32)
    start = LogState(torch.randn(batch, hidden, dtype=wide), torch.randn(batch, hidden, dtype=wide))
    if not given_state:
        zeros = torch.zeros(batch, hidden, dtype=wide)
        start = LogState(zeros, torch.full_like(zeros, -torch.inf))
    result, final = scan(
        projected, weight, start if given_state else None, choices, lengths=lengths, reverse=reverse
    )
    expected, last = by_row(projected, weight, start, choices, lengths, reverse)
    assert result.dtype == dtype
    assert final.r.dtype == final.l.dtype == wide
    # float32 and below: a few roundings of h and of the products at each of at most 7 steps.
    tolerance = {"rtol": DTYPES[dtype], "atol": DTYPES[dtype]}
    torch.testing.assert_close(result.double(), expected, **tolerance)
    torch.testing.assert_close(final.r.double(), last.r, **tolerance)
    torch.testing.assert_close(final.l.double(), last.l, **tolerance)


@MANY
@given(st.data(), st.sampled_from(["RDA-exp-tanh", "RDA-sigmoid-id", "RWA"]))
def test_any_packed_batch_equals_its_rows(data, unit):
    time, batch = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4))
    lengths = data.draw(st.lists(st.integers(1, time), min_size=batch, max_size=batch))
    layers, both = data.draw(st.integers(1, 2)), data.draw(st.booleans())
    torch.manual_seed(data.draw(st.integers(0, 2**32)))
    layer = rda.build(unit, 2, 3, num_layers=layers, bidirectional=both)
    x = torch.randn(time, batch, 2)
    result, final = layer(pack_padded_sequence(x, lengths, enforce_sorted=False))
    padded, _ = pad_packed_sequence(result)
    for k, length in enumerate(lengths):
        alone, last = layer(x[:length, k])
        torch.testing.assert_close(padded[:length, k], alone, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(final.average[:, k], last.average, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(final.weight[:, k], last.weight, rtol=1e-5, atol=1e-6)


odd = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 5), st.floats(), st.text(max_size=4), st.just([3])
)


OPTIONS = (
    *("input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout"),
    *("bidirectional", "dtype", "attention", "hidden", "output", "learn_initial_state"),
    *("engine", "colour"),
)


@MANY
@given(st.dictionaries(st.sampled_from(OPTIONS), odd))
@pytest.mark.filterwarnings("ignore:dropout option")
def test_any_construction_works_or_raises_a_typed_error(options):
    arguments = {"input_size": 3, "hidden_size": 4, **options}
    try:
        layer = rda.RDA(**arguments)
    except (TypeError, ValueError, RuntimeError) as error:
        assert str(error)
        return
    x = torch.randn(5, 2, layer.input_size)
    result, _ = layer(x)
    assert result.isfinite().all()


shapes = st.lists(st.integers(0, 4), min_size=0, max_size=4).map(tuple)
tensors = st.builds(
    lambda shape, dtype: torch.ones(shape, dtype=dtype),
    shapes,
    st.sampled_from([torch.float32, torch.float64, torch.int64, torch.bool, torch.bfloat16]),
)
things = st.one_of(st.none(), tensors, st.text(max_size=3), st.tuples(tensors, tensors))


@MANY
@given(things, st.one_of(st.none(), things, st.tuples(things, things)), st.booleans())
def test_any_call_works_or_raises_a_typed_error(input, state, batch_first):
    layer = rda.RDA(3, 4, batch_first=batch_first)
    try:
        result, final = layer(input, state)
    except (TypeError, ValueError, RuntimeError) as error:
        assert "RDA" in str(error)
        return
    assert result.shape == (*input.shape[:-1], 4)
    assert final.average.shape[-1] == 4
    assert result.isfinite().all()


@MANY
@given(st.lists(tensors, min_size=2, max_size=5))
def test_any_scan_works_or_raises_a_typed_error(parts):
    state = tuple(parts[2:4]) if len(parts) > 3 else None
    lengths = parts[4] if len(parts) > 4 else None
    try:
        result, _ = scan(parts[0], parts[1], state, lengths=lengths)
    except (TypeError, ValueError, RuntimeError) as error:
        assert str(error)
        return
    assert result.shape[:2] == parts[0].shape[:2]
