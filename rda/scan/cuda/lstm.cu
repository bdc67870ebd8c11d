// The LSTM as torch.nn.LSTM has it: gates i, f, g, o, state (h, c).

#define GATES 4
#define INPUTS 4

struct UnitForward {
  const float *h0, *c0;  // null: zeros
  float *h, *c;
  Stored *output, *cells, *saved;  // null: not wanted
};

struct Kept {
  float h, c;
};

struct Unit : Kept {
  float i, f, g, o;

  __device__ __forceinline__ void prepare(const UnitForward&, bool, int) {}

  __device__ __forceinline__ void start(const UnitForward& at, bool active, int row, int unit) {
    const long long place = row * (long long)H + unit;
    h = active && at.h0 ? at.h0[place] : 0.0f;
    c = active && at.c0 ? at.c0[place] : 0.0f;
  }

  __device__ __forceinline__ float hidden() const { return h; }

  __device__ __forceinline__ void step(const float x[INPUTS], const float recurrent[GATES], bool running) {
    i = sigmoid(x[0] + recurrent[0]);
    f = sigmoid(x[1] + recurrent[1]);
    g = hyperbolic(x[2] + recurrent[2]);
    o = sigmoid(x[3] + recurrent[3]);
    if (running) {
      c = f * c + i * g;
      h = o * hyperbolic(c);
    }
  }

  __device__ __forceinline__ void record(const UnitForward& at, bool active, bool running, int t, int batch, int row,
                                         int unit) const {
    if (!active) return;
    const long long place = (t * (long long)batch + row) * H + unit;
    store(at.output + place, running ? h : 0.0f);
    if (at.saved) {
      store(at.cells + place, running ? c : 0.0f);
      Stored* saved = at.saved + (t * (long long)batch + row) * INPUTS * H + unit;
      store(saved, i);
      store(saved + H, f);
      store(saved + 2 * H, g);
      store(saved + 3 * H, o);
    }
  }

  __device__ __forceinline__ void finish(const UnitForward& at, bool active, int row, int unit) const {
    if (!active) return;
    at.h[row * (long long)H + unit] = h;
    at.c[row * (long long)H + unit] = c;
  }
};

struct UnitBackward {
  const float *d_h, *d_c, *c0;  // null: zeros
  const Stored *d_output, *cells, *saved;
  Stored* d_input;
  float *d_h0, *d_c0;
};

struct GradientKept {
  float d_c;
};

struct UnitGradient : GradientKept {
  float d_last;
  float d[GATES];

  struct Values {
    float d_out, c, c_before, i, f, g, o;
  };

  __device__ __forceinline__ void start(const UnitBackward& at, bool active, int row, int unit) {
    const long long place = row * (long long)H + unit;
    d_last = active && at.d_h ? at.d_h[place] : 0.0f;
    d_c = active && at.d_c ? at.d_c[place] : 0.0f;
  }

  // No way from h to the h before but through the gates.
  __device__ __forceinline__ float carried() const { return 0.0f; }

  __device__ __forceinline__ float first() const { return d_last; }

  __device__ __forceinline__ void fetch(Values& of, const UnitBackward& at, bool wanted, int t, int before, int length,
                                        int batch, int row, int unit) const {
    of = Values{};
    if (!wanted) return;
    const long long place = (t * (long long)batch + row) * H + unit;
    of.d_out = load(at.d_output + place);
    of.c = load(at.cells + place);
    of.c_before = value_before(at.cells, at.c0, before, length, batch, row, unit);
    const Stored* saved = at.saved + (t * (long long)batch + row) * INPUTS * H + unit;
    of.i = load(saved);
    of.f = load(saved + H);
    of.g = load(saved + 2 * H);
    of.o = load(saved + 3 * H);
  }

  __device__ __forceinline__ void step(const Values& of, float d_hidden, bool running, float d_gates[GATES]) {
    const float d_h = of.d_out + d_hidden, tanh_c = hyperbolic(of.c);
    const float d_cell = d_c + d_h * of.o * (1.0f - tanh_c * tanh_c);
    d[0] = d_cell * of.g * of.i * (1.0f - of.i);
    d[1] = d_cell * of.c_before * of.f * (1.0f - of.f);
    d[2] = d_cell * of.i * (1.0f - of.g * of.g);
    d[3] = d_h * tanh_c * of.o * (1.0f - of.o);
    if (running) d_c = d_cell * of.f;
#pragma unroll
    for (int gate = 0; gate < GATES; ++gate) d_gates[gate] = d[gate] = running ? d[gate] : 0.0f;
  }

  __device__ __forceinline__ void record(const UnitBackward& at, bool active, int t, int batch, int row,
                                         int unit) const {
    if (!active) return;
    Stored* d_input = at.d_input + (t * (long long)batch + row) * INPUTS * H + unit;
#pragma unroll
    for (int gate = 0; gate < GATES; ++gate) store(d_input + gate * H, d[gate]);
  }

  __device__ __forceinline__ void finish(const UnitBackward& at, bool active, float d_hidden, int row, int unit) const {
    if (!active || !at.d_h0) return;
    at.d_h0[row * (long long)H + unit] = d_hidden;
    at.d_c0[row * (long long)H + unit] = d_c;
  }
};

