// The GRU as in torch.nn.GRU: gates r, z, n and state h. The reset gate r multiplies the recurrent
// sum of n (`product`), not h.

#define GATES 3
#define INPUTS 3
#define SAVED 4

struct UnitForward {
  const float *h0, *bias;  // null: zeros; bias is the recurrent bias of n, which r multiplies too
  float* h;
  Stored *output, *saved;
};

struct Kept {
  float h;
};

struct Unit : Kept {
  float bias, r, z, n, product;

  __device__ __forceinline__ void prepare(const UnitForward& at, bool active, int unit) {
    bias = active && at.bias ? at.bias[unit] : 0.0f;
  }

  __device__ __forceinline__ void start(const UnitForward& at, bool active, int row, int unit) {
    h = active && at.h0 ? at.h0[row * (long long)H + unit] : 0.0f;
  }

  __device__ __forceinline__ float hidden() const { return h; }

  __device__ __forceinline__ void step(const float x[INPUTS], const float recurrent[GATES], bool running) {
    r = sigmoid(x[0] + recurrent[0]);
    z = sigmoid(x[1] + recurrent[1]);
    product = recurrent[2] + bias;
    n = hyperbolic(x[2] + r * product);
    h = running ? n + z * (h - n) : h;
  }

  __device__ __forceinline__ void carry_on() {}

  template <int WIDE>
  static __device__ __forceinline__ void record(const Unit (&of)[WIDE], const UnitForward& at, bool active,
                                                bool running, int t, int batch, int row, int unit) {
    if (!active) return;
    store<WIDE>(at.output + (t * (long long)batch + row) * H + unit, [&](int k) { return running ? of[k].h : 0.0f; });
    if (at.saved) {
      Stored* saved = at.saved + (t * (long long)batch + row) * SAVED * H + unit;
      store<WIDE>(saved, [&](int k) { return of[k].r; });
      store<WIDE>(saved + H, [&](int k) { return of[k].z; });
      store<WIDE>(saved + 2 * H, [&](int k) { return of[k].n; });
      store<WIDE>(saved + 3 * H, [&](int k) { return of[k].product; });
    }
  }

  __device__ __forceinline__ void finish(const UnitForward& at, bool active, int row, int unit) const {
    if (active) at.h[row * (long long)H + unit] = h;
  }
};

struct UnitBackward {
  const float *d_h, *h0;  // null: zeros
  const Stored *d_output, *output, *saved;
  Stored *d_input, *d_product;
  float* d_h0;
};

struct GradientKept {
  float d_kept;
};

struct UnitGradient : GradientKept {
  float d_last, d_r, d_z, d_n, d_product;

  template <int WIDE>
  struct Values {
    Neighbours<WIDE> d_out, h_before, r, z, n, product;
  };

  __device__ __forceinline__ void prepare(const UnitBackward&, bool, int) {}

  __device__ __forceinline__ void start(const UnitBackward& at, bool active, int row, int unit) {
    const long long place = row * (long long)H + unit;
    d_last = active && at.d_h ? at.d_h[place] : 0.0f;
    d_kept = 0.0f;
  }

  // h' = n + z (h - n): this part of the gradient reaches the previous h through z h, past the
  // gates.
  __device__ __forceinline__ float carried() const { return d_kept; }

  __device__ __forceinline__ float first() const { return d_last; }

  template <int WIDE>
  static __device__ __forceinline__ void fetch(Values<WIDE>& of, const UnitBackward& at, bool wanted, int t,
                                               int before, int length, int batch, int row, int unit) {
    of = {};
    if (!wanted) return;
    of.d_out = load<WIDE>(at.d_output + (t * (long long)batch + row) * H + unit);
    of.h_before = load_before<WIDE>(at.output, at.h0, before, length, batch, row, unit);
    const Stored* saved = at.saved + (t * (long long)batch + row) * SAVED * H + unit;
    of.r = load<WIDE>(saved);
    of.z = load<WIDE>(saved + H);
    of.n = load<WIDE>(saved + 2 * H);
    of.product = load<WIDE>(saved + 3 * H);
  }

  template <int WIDE>
  __device__ __forceinline__ void step(const Values<WIDE>& of, int k, float d_hidden, bool running,
                                       float d_gates[GATES]) {
    const float d_h = of.d_out[k] + d_hidden;
    d_n = d_h * (1.0f - of.z[k]) * (1.0f - of.n[k] * of.n[k]);
    d_z = d_h * (of.h_before[k] - of.n[k]) * of.z[k] * (1.0f - of.z[k]);
    d_r = d_n * of.product[k] * of.r[k] * (1.0f - of.r[k]);
    d_product = d_n * of.r[k];
    if (running) d_kept = d_h * of.z[k];
    if (!running) d_r = d_z = d_n = d_product = 0.0f;
    d_gates[0] = d_r;
    d_gates[1] = d_z;
    d_gates[2] = d_product;
  }

  template <int WIDE>
  static __device__ __forceinline__ void record(const UnitGradient (&of)[WIDE], const UnitBackward& at, bool active,
                                                int t, int batch, int row, int unit) {
    if (!active) return;
    Stored* d_input = at.d_input + (t * (long long)batch + row) * INPUTS * H + unit;
    store<WIDE>(d_input, [&](int k) { return of[k].d_r; });
    store<WIDE>(d_input + H, [&](int k) { return of[k].d_z; });
    store<WIDE>(d_input + 2 * H, [&](int k) { return of[k].d_n; });
    store<WIDE>(at.d_product + (t * (long long)batch + row) * H + unit, [&](int k) { return of[k].d_product; });
  }

  __device__ __forceinline__ void finish(const UnitBackward& at, bool active, float d_hidden, int row, int unit) const {
    if (active && at.d_h0) at.d_h0[row * (long long)H + unit] = d_hidden;
  }
};

