// A unit over time on the CPU, one step after another: what the frames of rda/scan/cuda do, with the
// plainest matrix multiply. Follows host_hardware.cpp, functions.cu and a unit's text, in a namespace
// of the unit's own. Constants: H, and ADJACENT, the adjacent units of a thread.

static void forward(const Stored* input, const Stored* weight, const UnitForward& at, const long long* lengths,
                    const Sizes& sizes, bool records_first) {
  for (int row = 0; row < sizes.batch; ++row) {
    const int length = sizes.length(lengths, row);
    Unit states[H / ADJACENT][ADJACENT]{};
    float h[H];
    for (int unit = 0; unit < H; ++unit) {
      Unit& state = states[unit / ADJACENT][unit % ADJACENT];
      state.prepare(at, true, unit);
      state.start(at, true, row, unit);
      h[unit] = state.hidden();
    }
    for (int i = 0; i < sizes.time; ++i) {
      const int t = sizes.forward_time(i);
      const bool running = t < length;
      for (int unit = 0; unit < H; ++unit) {
        float x[INPUTS], recurrent[GATES];
        const Stored* from = input + (t * (long long)sizes.batch + row) * INPUTS * H + unit;
        for (int k = 0; k < INPUTS; ++k) x[k] = as_float(from[k * H]);
        for (int gate = 0; gate < GATES; ++gate) {
          recurrent[gate] = 0.0f;
          for (int k = 0; k < H; ++k) recurrent[gate] += as_float(weight[(gate * H + unit) * H + k]) * h[k];
        }
        states[unit / ADJACENT][unit % ADJACENT].step(x, recurrent, running);
      }
      for (int first = 0; first < H; first += ADJACENT) {
        Unit(&group)[ADJACENT] = states[first / ADJACENT];
        for (int k = 0; k < ADJACENT; ++k) h[first + k] = group[k].hidden();
        const auto record = [&] { Unit::record(group, at, true, running, t, sizes.batch, row, first); };
        if (records_first) record();  // as block.cu does
        for (Unit& state : group) {
          const Kept before = state;
          state.carry_on();
          if (!running) (Kept&)state = before;
        }
        if (!records_first) record();
      }
    }
    for (int unit = 0; unit < H; ++unit) states[unit / ADJACENT][unit % ADJACENT].finish(at, true, row, unit);
  }
}

static void backward(const Stored* weight, const UnitBackward& at, const long long* lengths, const Sizes& sizes) {
  for (int row = 0; row < sizes.batch; ++row) {
    const int length = sizes.length(lengths, row);
    UnitGradient states[H / ADJACENT][ADJACENT];
    float d_hidden[H];
    for (int unit = 0; unit < H; ++unit) {
      UnitGradient& state = states[unit / ADJACENT][unit % ADJACENT];
      state.prepare(at, true, unit);
      state.start(at, true, row, unit);
      d_hidden[unit] = state.first();
    }
    for (int i = 0; i < sizes.time; ++i) {
      const int t = sizes.backward_time(i);
      const bool running = t < length;
      float d_gates[H][GATES];
      for (int first = 0; first < H; first += ADJACENT) {
        UnitGradient(&group)[ADJACENT] = states[first / ADJACENT];
        UnitGradient::Values<ADJACENT> values;
        UnitGradient::fetch(values, at, true, t, sizes.time_before(t), length, sizes.batch, row, first);
        for (int k = 0; k < ADJACENT; ++k) group[k].step(group[k].factors(values, k), d_hidden[first + k], running, d_gates[first + k]);
        UnitGradient::record(group, at, true, t, sizes.batch, row, first);
      }
      for (int unit = 0; unit < H && running; ++unit) {
        float total = 0.0f;
        for (int gate = 0; gate < GATES; ++gate)
          for (int k = 0; k < H; ++k) total += as_float(weight[(gate * H + k) * H + unit]) * d_gates[k][gate];
        d_hidden[unit] = states[unit / ADJACENT][unit % ADJACENT].carried() + total;
      }
    }
    for (int unit = 0; unit < H; ++unit)
      states[unit / ADJACENT][unit % ADJACENT].finish(at, true, d_hidden[unit], row, unit);
  }
}

extern "C" {
void EXPORTED(forward)(const Stored* input, const Stored* weight, const UnitForward* at, const long long* lengths,
                       const Sizes* sizes, int records_first) {
  forward(input, weight, *at, lengths, *sizes, records_first);
}
void EXPORTED(backward)(const Stored* weight, const UnitBackward* at, const long long* lengths, const Sizes* sizes) {
  backward(weight, *at, lengths, *sizes);
}
}
