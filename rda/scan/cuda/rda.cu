// The RDA and the RWA in the stable form of rda/equations.py. The state is (r, l): r is the average
// n / d, and l = log d is the log of the weight behind it. Constants:
//   DISCOUNT     1 for the RDA, 0 for the RWA
//   ATTENTION    f_a: 0 exp, 1 relu, 2 softplus, 3 sigmoid
//   HIDDEN_TANH  1 if f_h is tanh, 0 if it is the identity
//   OUTPUT_TANH  the same for f_o

#define GATES (2 + DISCOUNT)
#define INPUTS (3 + DISCOUNT)
#define SLOPES (ATTENTION != 0)
// Whether the backward pass computes the slope of f_o from r: in bf16 an o near 1 has no digits
// left for 1 - o^2.
#define OUTPUT_AGAIN (OUTPUT_TANH && PRODUCT == 2)

__device__ __forceinline__ float log_attention(float x) {
#if ATTENTION == 0
  return x;
#elif ATTENTION == 1
  return log_relu(x);
#elif ATTENTION == 2
  return log_softplus(x);
#else
  return log_sigmoid(x);
#endif
}

// The derivative of log_attention.
__device__ __forceinline__ float attention_slope(float x) {
#if ATTENTION == 1
  return slope_of_log_relu(x);
#elif ATTENTION == 2
  return slope_of_log_softplus(x);
#else
  return sigmoid(-x);
#endif
}

struct UnitForward {
  const float *r0, *l0;  // null: no history, r = 0 and l = -inf
  float *r, *l;
  Stored *output, *averages, *saved, *slopes;  // the last three are null where they are not needed
};

// In full float32 log d is l + l_rest, where l_rest is what rounding has cut off from l. Without it
// the rounding errors of l would add up over thousands of steps.
struct Kept {
  float r, l;
#if PRODUCT == 1
  float l_rest;
#endif
};

struct Unit : Kept {
  float h, u, tanh_g, a, p, gamma, alpha;

#if PRODUCT == 1
  __device__ __forceinline__ void set_l(float x) {
    l = x;
    l_rest = 0.0f;
  }

  __device__ __forceinline__ float rest_of_l() const { return l_rest; }

  __device__ __forceinline__ void add_to_l(float x) {
    const float sum = l + x;
    const float lost = fabsf(l) >= fabsf(x) ? (l - sum) + x : (x - sum) + l;
    l_rest += fabsf(sum) < INFINITE ? lost : 0.0f;
    l = sum;
  }
#else
  __device__ __forceinline__ void set_l(float x) { l = x; }
  __device__ __forceinline__ float rest_of_l() const { return 0.0f; }
  __device__ __forceinline__ void add_to_l(float x) { l += x; }
#endif

  __device__ __forceinline__ void prepare(const UnitForward&, bool, int) {}

  __device__ __forceinline__ void start(const UnitForward& at, bool active, int row, int unit) {
    const long long place = row * (long long)H + unit;
    r = active && at.r0 ? at.r0[place] : 0.0f;
    set_l(active && at.l0 ? at.l0[place] : -INFINITE);
    h = HIDDEN_TANH ? hyperbolic(r) : r;
  }

  __device__ __forceinline__ float hidden() const { return h; }

  // Computes what h needs. l is updated in carry_on, when h has been sent, and with full accuracy,
  // because it is carried through the whole sequence.
  __device__ __forceinline__ void step(const float x[INPUTS], const float recurrent[GATES], bool running) {
    u = x[0];
    tanh_g = hyperbolic(x[1] + recurrent[0]);
    a = x[2] + recurrent[1];
    alpha = log_attention(a);
    p = alpha - l - rest_of_l();
#if DISCOUNT
    gamma = x[3] + recurrent[2];
    p -= fminf(gamma, 0.0f) - quick_rise(gamma);
#endif
#if ATTENTION == 1
    if (alpha == -INFINITE) p = -INFINITE;
#endif
    // The result is exactly z where the share of z is 1, and exactly r where it is 0. There are no
    // branches, so that the units of a thread do not wait for one another.
    const Sigmoids share = sigmoids(p);
    const float z = u * tanh_g, near = p < 0.0f ? r : z, far = p < 0.0f ? z : r;
    const float next = near + fminf(share.of, share.rest) * (far - near);
    r = running ? next : r;
    h = HIDDEN_TANH ? hyperbolic(r) : r;
  }

  __device__ __forceinline__ void carry_on() {
#if DISCOUNT
    add_to_l(log_sigmoid(gamma));
#endif
    if (p > 0.0f) set_l(alpha);
    add_to_l(rise(p));
  }

  template <int WIDE>
  static __device__ __forceinline__ void record(const Unit (&of)[WIDE], const UnitForward& at, bool active,
                                                bool running, int t, int batch, int row, int unit) {
    if (!active) return;
    const long long place = (t * (long long)batch + row) * H + unit;
    store<WIDE>(at.output + place, [&](int k) { return running ? (OUTPUT_TANH ? hyperbolic(of[k].h) : of[k].h) : 0.0f; });
    if (at.saved) {
      if (at.averages) store<WIDE>(at.averages + place, [&](int k) { return running ? of[k].r : 0.0f; });
      // Overwrites the projections, of which u is the first and is saved as it is.
      Stored* saved = at.saved + (t * (long long)batch + row) * INPUTS * H + unit;
      store<WIDE>(saved + H, [&](int k) { return of[k].tanh_g; });
      store<WIDE>(saved + 2 * H, [&](int k) { return of[k].p; });
#if DISCOUNT
      store<WIDE>(saved + 3 * H, [&](int k) { return sigmoid(-of[k].gamma); });
#endif
#if SLOPES
      store<WIDE>(at.slopes + place, [&](int k) { return attention_slope(of[k].a); });
#endif
    }
  }

  __device__ __forceinline__ void finish(const UnitForward& at, bool active, int row, int unit) const {
    if (!active) return;
    at.r[row * (long long)H + unit] = r;
    at.l[row * (long long)H + unit] = l + rest_of_l();
  }
};

struct UnitBackward {
  const float *d_r, *d_l, *r0;  // null: zeros
  const Stored *d_output, *output, *averages, *saved, *slopes;
  Stored* d_input;
  float *d_r0, *d_l0;
};

struct GradientKept {
  float d_r, d_l;
};

struct UnitGradient : GradientKept {
  float d_u, d_g, d_a, d_gamma;

  template <int WIDE>
  struct Values {
    Neighbours<WIDE> d_out, out, r, r_before, u, tanh_g, p, slope, gamma_slope;
  };

  __device__ __forceinline__ void prepare(const UnitBackward&, bool, int) {}

  __device__ __forceinline__ void start(const UnitBackward& at, bool active, int row, int unit) {
    const long long place = row * (long long)H + unit;
    d_r = active && at.d_r ? at.d_r[place] : 0.0f;
    d_l = active && at.d_l ? at.d_l[place] : 0.0f;
  }

  // The previous h influences this step through the gates alone.
  __device__ __forceinline__ float carried() const { return 0.0f; }

  __device__ __forceinline__ float first() const { return 0.0f; }

  template <int WIDE>
  static __device__ __forceinline__ void fetch(Values<WIDE>& of, const UnitBackward& at, bool wanted, int t,
                                               int before, int length, int batch, int row, int unit) {
    of = {};
    if (!wanted) return;
    const long long place = (t * (long long)batch + row) * H + unit;
    of.d_out = load<WIDE>(at.d_output + place);
    if (OUTPUT_TANH && !OUTPUT_AGAIN) of.out = load<WIDE>(at.output + place);
    if (HIDDEN_TANH || OUTPUT_AGAIN) of.r = load<WIDE>(at.averages + place);
    of.r_before = load_before<WIDE>(at.averages, at.r0, before, length, batch, row, unit);
    const Stored* saved = at.saved + (t * (long long)batch + row) * INPUTS * H + unit;
    of.u = load<WIDE>(saved);
    of.tanh_g = load<WIDE>(saved + H);
    of.p = load<WIDE>(saved + 2 * H);
#if DISCOUNT
    of.gamma_slope = load<WIDE>(saved + 3 * H);
#endif
#if SLOPES
    of.slope = load<WIDE>(at.slopes + place);
#endif
  }

  template <int WIDE>
  __device__ __forceinline__ void step(const Values<WIDE>& of, int k, float d_hidden, bool running,
                                       float d_gates[GATES]) {
    const float h = HIDDEN_TANH ? hyperbolic(of.r[k]) : of.r[k];
    float e = (OUTPUT_TANH ? of.d_out[k] * hyperbolic_slope(h, of.out[k]) : of.d_out[k]) + d_hidden;
    if (HIDDEN_TANH) e *= hyperbolic_slope(of.r[k], h);
    e += d_r;
    const Sigmoids share = sigmoids(of.p[k]);
    const float s = share.of, rest = share.rest;
    const float pull = e * (of.u[k] * of.tanh_g[k] - of.r_before[k]), d_z = e * s;
    d_g = d_z * of.u[k] * (1.0f - of.tanh_g[k] * of.tanh_g[k]);
    d_a = (d_l + pull * rest) * s;
#if SLOPES
    d_a = of.slope[k] == 0.0f ? 0.0f : d_a * of.slope[k];
#endif
    const float d_kept = (d_l - pull * s) * rest;
    d_gamma = d_kept * of.gamma_slope[k];
    d_u = d_z * of.tanh_g[k];
    if (!running) d_u = d_g = d_a = d_gamma = 0.0f;
    d_gates[0] = d_g;
    d_gates[1] = d_a;
#if DISCOUNT
    d_gates[2] = d_gamma;
#endif
    if (running) {
      d_r = e * rest;
      d_l = d_kept;
    }
  }

  template <int WIDE>
  static __device__ __forceinline__ void record(const UnitGradient (&of)[WIDE], const UnitBackward& at, bool active,
                                                int t, int batch, int row, int unit) {
    if (!active) return;
    Stored* d_input = at.d_input + (t * (long long)batch + row) * INPUTS * H + unit;
    store<WIDE>(d_input, [&](int k) { return of[k].d_u; });
    store<WIDE>(d_input + H, [&](int k) { return of[k].d_g; });
    store<WIDE>(d_input + 2 * H, [&](int k) { return of[k].d_a; });
#if DISCOUNT
    store<WIDE>(d_input + 3 * H, [&](int k) { return of[k].d_gamma; });
#endif
  }

  __device__ __forceinline__ void finish(const UnitBackward& at, bool active, float d_hidden, int row, int unit) const {
    if (!active || !at.d_r0) return;
    const long long place = row * (long long)H + unit;
    const float r0 = at.r0 ? at.r0[place] : 0.0f;
    at.d_r0[place] = d_r + (HIDDEN_TANH ? d_hidden * hyperbolic_slope(r0, hyperbolic(r0)) : d_hidden);
    at.d_l0[place] = d_l;
  }
};
