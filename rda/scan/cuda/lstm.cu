// The LSTM as in torch.nn.LSTM: gates i, f, g, o and state (h, c).

#define GATES 4
#define INPUTS 4

struct UnitForward {
  const float *h0, *c0;  // null: zeros
  float *h, *c;
  Stored *output, *cells, *saved;  // cells and saved are null where there is no backward pass
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
    c = running ? f * c + i * g : c;
    h = running ? o * hyperbolic(c) : h;
  }

  __device__ __forceinline__ void carry_on() {}

  template <int WIDE>
  static __device__ __forceinline__ void record(const Unit (&of)[WIDE], const UnitForward& at, bool active,
                                                bool running, int t, int batch, int row, int unit) {
    if (!active) return;
    const long long place = (t * (long long)batch + row) * H + unit;
    store<WIDE>(at.output + place, [&](int k) { return running ? of[k].h : 0.0f; });
    if (at.saved) {
      store<WIDE>(at.cells + place, [&](int k) { return running ? of[k].c : 0.0f; });
      Stored* saved = at.saved + (t * (long long)batch + row) * INPUTS * H + unit;
      store<WIDE>(saved, [&](int k) { return of[k].i; });
      store<WIDE>(saved + H, [&](int k) { return of[k].f; });
      store<WIDE>(saved + 2 * H, [&](int k) { return of[k].g; });
      store<WIDE>(saved + 3 * H, [&](int k) { return of[k].o; });
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

  template <int WIDE>
  struct Values {
    Neighbours<WIDE> d_out, c, c_before, i, f, g, o;
  };

  __device__ __forceinline__ void prepare(const UnitBackward&, bool, int) {}

  __device__ __forceinline__ void start(const UnitBackward& at, bool active, int row, int unit) {
    const long long place = row * (long long)H + unit;
    d_last = active && at.d_h ? at.d_h[place] : 0.0f;
    d_c = active && at.d_c ? at.d_c[place] : 0.0f;
  }

  // The previous h influences this step through the gates alone.
  __device__ __forceinline__ float carried() const { return 0.0f; }

  __device__ __forceinline__ float first() const { return d_last; }

  template <int WIDE>
  static __device__ __forceinline__ void fetch(Values<WIDE>& of, const UnitBackward& at, bool wanted, int t,
                                               int before, int length, int batch, int row, int unit) {
    of = {};
    if (!wanted) return;
    const long long place = (t * (long long)batch + row) * H + unit;
    of.d_out = load<WIDE>(at.d_output + place);
    of.c = load<WIDE>(at.cells + place);
    of.c_before = load_before<WIDE>(at.cells, at.c0, before, length, batch, row, unit);
    const Stored* saved = at.saved + (t * (long long)batch + row) * INPUTS * H + unit;
    of.i = load<WIDE>(saved);
    of.f = load<WIDE>(saved + H);
    of.g = load<WIDE>(saved + 2 * H);
    of.o = load<WIDE>(saved + 3 * H);
  }

  template <int WIDE>
  __device__ __forceinline__ void step(const Values<WIDE>& of, int k, float d_hidden, bool running,
                                       float d_gates[GATES]) {
    const float d_h = of.d_out[k] + d_hidden, tanh_c = hyperbolic(of.c[k]);
    const float d_cell = d_c + d_h * of.o[k] * hyperbolic_slope(of.c[k], tanh_c);
    d[0] = d_cell * of.g[k] * of.i[k] * (1.0f - of.i[k]);
    d[1] = d_cell * of.c_before[k] * of.f[k] * (1.0f - of.f[k]);
    d[2] = d_cell * of.i[k] * (1.0f - of.g[k] * of.g[k]);
    d[3] = d_h * tanh_c * of.o[k] * (1.0f - of.o[k]);
    if (running) d_c = d_cell * of.f[k];
#pragma unroll
    for (int gate = 0; gate < GATES; ++gate) d_gates[gate] = d[gate] = running ? d[gate] : 0.0f;
  }

  template <int WIDE>
  static __device__ __forceinline__ void record(const UnitGradient (&of)[WIDE], const UnitBackward& at, bool active,
                                                int t, int batch, int row, int unit) {
    if (!active) return;
    Stored* d_input = at.d_input + (t * (long long)batch + row) * INPUTS * H + unit;
#pragma unroll
    for (int gate = 0; gate < GATES; ++gate) store<WIDE>(d_input + gate * H, [&](int k) { return of[k].d[gate]; });
  }

  __device__ __forceinline__ void finish(const UnitBackward& at, bool active, float d_hidden, int row, int unit) const {
    if (!active || !at.d_h0) return;
    at.d_h0[row * (long long)H + unit] = d_hidden;
    at.d_c0[row * (long long)H + unit] = d_c;
  }
};

