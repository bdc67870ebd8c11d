// One direction of one layer over time, forward and backward, for the CPU.
// Symbols are those of rda/equations.py; docs/kernels.md derives the backward pass.
//
// Vectors run over units: one block of lanes holds every gate of its units. So the unit's
// mathematics follows the matrix product in registers, without a trip through memory. Threads split
// the batch once for the whole sequence and then never wait for each other. If the batch is too
// small for that, they split the units, and each step waits for the step before. The code uses the
// compiler's vector extensions, AVX-512's masks for the last block, and no header of torch, so it
// compiles in seconds with g++ or clang++.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <thread>
#include <vector>

#ifdef __AVX__
#include <immintrin.h>
#endif
#ifdef _OPENMP
#include <omp.h>
#endif

namespace {

#if defined(__AVX512F__)
constexpr int VECTOR_BYTES = 64, MOST_ROWS = 8;
#elif defined(__AVX__)
constexpr int VECTOR_BYTES = 32, MOST_ROWS = 4;
#else
constexpr int VECTOR_BYTES = 16, MOST_ROWS = 6;
#endif

template <class T> struct Vector;
template <> struct Vector<float> {
  typedef float type __attribute__((vector_size(VECTOR_BYTES)));
  typedef float loose __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));
  typedef int32_t bits __attribute__((vector_size(VECTOR_BYTES)));
  static constexpr int exponent_bits = 23, exponent_bias = 127;
  static constexpr int expm1_terms = 7, log1p_terms = 8, log_terms = 6;
  static constexpr float to_integer = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  static constexpr float ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
  static constexpr float exp_low = -87.3f;
};
template <> struct Vector<double> {
  typedef double type __attribute__((vector_size(VECTOR_BYTES)));
  typedef double loose __attribute__((vector_size(VECTOR_BYTES), aligned(8), may_alias));
  typedef int64_t bits __attribute__((vector_size(VECTOR_BYTES)));
  static constexpr int exponent_bits = 52, exponent_bias = 1023;
  static constexpr int expm1_terms = 14, log1p_terms = 18, log_terms = 12;
  static constexpr double to_integer = 6755399441055744.0;  // 1.5 * 2^52
  static constexpr double ln2_high = 6.93145751953125e-1, ln2_low = 1.42860682030941723212e-6;
  static constexpr double exp_low = -708.0;
};

template <class T> using V = typename Vector<T>::type;
template <class T> using Bits = typename Vector<T>::bits;
template <class T> constexpr int LANES = VECTOR_BYTES / sizeof(T);
template <class T> constexpr T INF = std::numeric_limits<T>::infinity();

template <class T> inline V<T> all(T x) { return x - V<T>{}; }

// The last block of units may be narrower than a vector.
template <class T> inline V<T> load_part(const T* source, int lanes) {
  V<T> x{};
  for (int i = 0; i < lanes; ++i) x[i] = source[i];
  return x;
}
template <class T> inline void store_part(T* target, V<T> x, int lanes) {
  for (int i = 0; i < lanes; ++i) target[i] = x[i];
}
#ifdef __AVX512F__
template <> inline V<float> load_part(const float* source, int lanes) {
  return (V<float>)_mm512_maskz_loadu_ps((__mmask16)((1u << lanes) - 1), source);
}
template <> inline void store_part(float* target, V<float> x, int lanes) {
  _mm512_mask_storeu_ps(target, (__mmask16)((1u << lanes) - 1), (__m512)x);
}
template <> inline V<double> load_part(const double* source, int lanes) {
  return (V<double>)_mm512_maskz_loadu_pd((__mmask8)((1u << lanes) - 1), source);
}
template <> inline void store_part(double* target, V<double> x, int lanes) {
  _mm512_mask_storeu_pd(target, (__mmask8)((1u << lanes) - 1), (__m512d)x);
}
#endif

template <class T> inline V<T> load(const T* source, int lanes) {
  return lanes >= LANES<T> ? *(const typename Vector<T>::loose*)source
                           : load_part<T>(source, lanes);
}

template <class T> inline void store(T* target, V<T> x, int lanes) {
  if (lanes >= LANES<T>) *(typename Vector<T>::loose*)target = x;
  else store_part<T>(target, x, lanes);
}

// ---- Elementary functions, accurate to an ulp or two, NaN in NaN out ----

template <class T> struct Split { V<T> scale, fraction; };  // e^x = scale * (1 + fraction)

template <class T> inline Split<T> split_exp(V<T> x) {
  using D = Vector<T>;
  const V<T> n = (x * T(1.44269504088896340736) + D::to_integer) - D::to_integer;
  const V<T> r = (x - n * D::ln2_high) - n * D::ln2_low;
  V<T> series = all<T>(0);
  T factorial[D::expm1_terms + 1];
  factorial[0] = 1;
  for (int k = 1; k <= D::expm1_terms; ++k) factorial[k] = factorial[k - 1] * k;
  for (int k = D::expm1_terms; k >= 2; --k) series = series * r + T(1) / factorial[k];
  const Bits<T> exponent = __builtin_convertvector(n, Bits<T>) + D::exponent_bias;
  return {(V<T>)(exponent << D::exponent_bits), series * r * r + r};
}

template <class T> inline V<T> magnitude(V<T> x) {
  return (V<T>)((Bits<T>)x & ~(Bits<T>)all<T>(T(-0.0)));
}

// e^-|x|
template <class T> inline V<T> exp_below_one(V<T> x) {
  const T low = Vector<T>::exp_low;
  const V<T> y = -magnitude<T>(x);
  const Split<T> e = split_exp<T>(y < low ? all<T>(low) : y);
  return y < low ? all<T>(0) : e.scale * e.fraction + e.scale;
}

template <class T> inline V<T> tanh(V<T> x) {
  const T low = Vector<T>::exp_low;
  const V<T> y = T(-2) * magnitude<T>(x);
  const Split<T> e = split_exp<T>(y < low ? all<T>(low) : y);
  const V<T> expm1 = e.scale * e.fraction + (e.scale - T(1));
  const V<T> positive = expm1 / (T(-2) - expm1);
  return (V<T>)((Bits<T>)positive | ((Bits<T>)x & (Bits<T>)all<T>(T(-0.0))));
}

// 2 atanh(w) for small w
template <class T, int TERMS> inline V<T> twice_atanh(V<T> w) {
  const V<T> square = w * w;
  V<T> series = all<T>(T(1) / T(2 * TERMS + 1));
  for (int k = TERMS - 1; k >= 0; --k) series = series * square + T(1) / T(2 * k + 1);
  return (w + w) * series;
}

// ln(1 + y) for 0 <= y <= 1
template <class T> inline V<T> log1p(V<T> y) {
  return twice_atanh<T, Vector<T>::log1p_terms>(y / (y + T(2)));
}

// ln x for normal x > 0
template <class T> inline V<T> log(V<T> x) {
  using D = Vector<T>;
  const Bits<T> raw = (Bits<T>)x;
  const Bits<T> mantissa_mask = ((Bits<T>{} + 1) << D::exponent_bits) - 1;
  const Bits<T> one = (Bits<T>)all<T>(1);
  V<T> m = (V<T>)((raw & mantissa_mask) | one);
  Bits<T> e = (raw >> D::exponent_bits) - D::exponent_bias;
  const Bits<T> large = m > T(1.41421356237309504880);
  m = large ? m * T(0.5) : m;
  e = large ? e + 1 : e;
  const V<T> n = __builtin_convertvector(e, V<T>);
  const V<T> small = twice_atanh<T, D::log_terms>((m - T(1)) / (m + T(1)));
  const V<T> y = n * D::ln2_high + (n * D::ln2_low + small);
  return x < INF<T> ? y : x;
}

// Both tails of the logistic function from one exponential.
template <class T> struct Logistic { V<T> up, down, tail; };  // sigma(x), sigma(-x), e^-|x|

template <class T> inline Logistic<T> logistic(V<T> x) {
  const V<T> y = exp_below_one<T>(x);
  const V<T> near = T(1) / (y + T(1)), far = y * near;
  const Bits<T> negative = x < T(0);
  return {negative ? far : near, negative ? near : far, y};
}

// ---- The unit ----

enum Attention { EXP, RELU, SOFTPLUS, SIGMOID };

struct Sizes {
  int64_t time, batch, units, inputs, blocks;  // blocks: 4 with a discount, 3 without
  int32_t attention, hidden_tanh, output_tanh, reverse, threads;
};

template <class T> struct LogAttention { V<T> value, slope; };  // alpha and d alpha / d a~

template <class T> inline LogAttention<T> log_attention(V<T> x, int attention) {
  switch (attention) {
    case SIGMOID: {
      const Logistic<T> q = logistic<T>(x);
      return {(x < T(0) ? x : all<T>(0)) - log1p<T>(q.tail), q.down};
    }
    case SOFTPLUS: {
      const Logistic<T> q = logistic<T>(x);
      const V<T> body = (x > T(0) ? x : all<T>(0)) + log1p<T>(q.tail);
      const Bits<T> tail = x < T(-20);
      return {tail ? x - T(0.5) * q.up : log<T>(body), tail ? T(1) - T(0.5) * q.up : q.up / body};
    }
    case RELU: {
      const Bits<T> nothing = x < std::numeric_limits<T>::min();
      const V<T> safe = nothing ? all<T>(1) : x;
      return {nothing ? all<T>(-INF<T>) : log<T>(safe), nothing ? all<T>(0) : T(1) / safe};
    }
    default:
      return {x, all<T>(1)};
  }
}

template <class T> struct Step { V<T> r, l, tanh_g, p, keep_slope, attention_slope; };

// rda.equations.stable_step, and what the backward pass needs of it
template <class T>
inline Step<T> step(V<T> r, V<T> l, V<T> u, V<T> g, V<T> a, V<T> gamma, const Sizes& n) {
  Step<T> next;
  next.tanh_g = tanh<T>(g);
  const V<T> z = u * next.tanh_g;
  const LogAttention<T> alpha = log_attention<T>(a, n.attention);
  next.attention_slope = alpha.slope;
  V<T> kept = l;
  if (n.blocks == 4) {
    const Logistic<T> q = logistic<T>(gamma);
    kept = l + ((gamma < T(0) ? gamma : all<T>(0)) - log1p<T>(q.tail));
    next.keep_slope = q.down;
  }
  next.p = alpha.value == -INF<T> ? alpha.value : alpha.value - kept;
  const Logistic<T> s = logistic<T>(next.p);
  // Correct the heavier side by the lighter share, so that a share of exactly 1 gives z itself.
  next.r = s.up < T(0.5) ? r + s.up * (z - r) : z - s.down * (z - r);
  next.l = (alpha.value > kept ? alpha.value : kept) + log1p<T>(s.tail);
  return next;
}

// ---- Products with weights packed into panels of vectors ----

// A panel is [k][PANEL vectors]; acc[i] += rows[i] * panel.
template <class T, int ROWS, int PANEL>
inline void product(const T* rows, int64_t stride, const T* panel, int64_t depth,
                    V<T> (&acc)[MOST_ROWS][PANEL]) {
  V<T> sum[ROWS][PANEL];
  for (int i = 0; i < ROWS; ++i)
    for (int j = 0; j < PANEL; ++j) sum[i][j] = acc[i][j];
  const V<T>* weights = (const V<T>*)panel;
  for (int64_t k = 0; k < depth; ++k, weights += PANEL)
    for (int i = 0; i < ROWS; ++i)
      for (int j = 0; j < PANEL; ++j) sum[i][j] += rows[i * stride + k] * weights[j];
  for (int i = 0; i < ROWS; ++i)
    for (int j = 0; j < PANEL; ++j) acc[i][j] = sum[i][j];
}

template <class T, int PANEL>
inline void product(int rows, const T* source, int64_t stride, const T* panel, int64_t depth,
                    V<T> (&acc)[MOST_ROWS][PANEL]) {
  switch (rows) {
    case 1: return product<T, 1, PANEL>(source, stride, panel, depth, acc);
    case 2: return product<T, 2, PANEL>(source, stride, panel, depth, acc);
    case 3: return product<T, 3, PANEL>(source, stride, panel, depth, acc);
    case 4: return product<T, 4, PANEL>(source, stride, panel, depth, acc);
#if !defined(__AVX__) || defined(__AVX512F__)
    case 5: return product<T, 5, PANEL>(source, stride, panel, depth, acc);
    case 6: return product<T, 6, PANEL>(source, stride, panel, depth, acc);
#endif
#if defined(__AVX512F__)
    case 7: return product<T, 7, PANEL>(source, stride, panel, depth, acc);
    case 8: return product<T, 8, PANEL>(source, stride, panel, depth, acc);
#endif
  }
}

template <class T> inline T total(V<T> x) {
  T part[LANES<T>];
  *(typename Vector<T>::loose*)part = x;
  for (int half = LANES<T> / 2; half; half /= 2)
    for (int i = 0; i < half; ++i) part[i] += part[i + half];
  return part[0];
}

template <class T> inline T dot(const T* a, const T* b, int64_t length) {
  V<T> sum[4] = {};
  int64_t k = 0;
  for (; k + 4 * LANES<T> <= length; k += 4 * LANES<T>)
    for (int i = 0; i < 4; ++i)
      sum[i] += load<T>(a + k + i * LANES<T>, LANES<T>) * load<T>(b + k + i * LANES<T>, LANES<T>);
  for (; k < length; k += LANES<T>) {
    const int lanes = (int)std::min<int64_t>(LANES<T>, length - k);
    sum[0] += load<T>(a + k, lanes) * load<T>(b + k, lanes);
  }
  return total<T>((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

// The same with weights that are not packed, (PANEL * units, depth). For a step or two, packing
// would cost more than it saves.
template <class T, int PANEL>
inline void product_unpacked(int rows, const T* source, int64_t stride, const T* weight,
                             int64_t units, int64_t unit, int lanes, int64_t depth,
                             V<T> (&acc)[MOST_ROWS][PANEL]) {
  for (int j = 0; j < PANEL; ++j)
    for (int lane = 0; lane < lanes; ++lane)
      for (int i = 0; i < rows; ++i)
        acc[i][j][lane] +=
            dot<T>(source + i * stride, weight + (j * units + unit + lane) * depth, depth);
}

template <class T> int64_t blocks_of(int64_t units) { return (units + LANES<T> - 1) / LANES<T>; }

// (gates * units, depth) -> panels over units: [block][k][gate][lane]
template <class T>
void pack_gates(const T* weight, int gates, int64_t units, int64_t depth, T* packed, int64_t begin,
                int64_t end) {
  packed += begin * depth * gates * LANES<T>;
  for (int64_t block = begin; block < end; ++block)
    for (int64_t k = 0; k < depth; ++k)
      for (int gate = 0; gate < gates; ++gate)
        for (int lane = 0; lane < LANES<T>; ++lane) {
          const int64_t unit = block * LANES<T> + lane;
          *packed++ = unit < units ? weight[(gate * units + unit) * depth + k] : T(0);
        }
}

constexpr int BACK = 2;  // vectors in a panel of the backward product

// (gates * units, units) -> panels over columns: [pair of blocks][row of weight][2 vectors]
template <class T>
void pack_columns(const T* weight, int64_t rows, int64_t units, T* packed, int64_t begin,
                  int64_t end) {
  packed += begin * rows * BACK * LANES<T>;
  for (int64_t pair = begin; pair < end; ++pair)
    for (int64_t k = 0; k < rows; ++k)
      for (int lane = 0; lane < BACK * LANES<T>; ++lane) {
        const int64_t unit = pair * BACK * LANES<T> + lane;
        *packed++ = unit < units ? weight[k * units + unit] : T(0);
      }
}

// ---- Threads ----

// Threads that work on the same rows share the units of every step, and a step can begin when the
// one before is finished. A thread may be off its core for milliseconds when other processes want
// it. So nobody waits for a thread to arrive: each takes its own share first, and then those that
// their owners have not begun. Only a share that was begun is waited for.

// A cache line of its own: two counters in one line would slow each other down.
struct alignas(64) Counter {
  std::atomic<int64_t> value{0};
};

struct Counters {
  std::vector<Counter> begun, finished;
  explicit Counters(int threads) : begun(threads), finished(threads) {}
};

inline void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

// A few microseconds. A member that runs begins its share sooner, and looking at another member's
// counter would take the cache line from it.
constexpr int SPINS = 100;

// One thread's view of its team.
struct Member {
  Counter* begun;     // for each share, the rounds in which it was begun
  Counter* finished;  // shares finished, over all rounds
  int number, members;
  int64_t round;

  Member(Counters& counters, int team, int number, int members)
      : begun(&counters.begun[team * members]), finished(&counters.finished[team]),
        number(number), members(members), round(0) {}

  // Returns when work(share) was called for every share, here or by other members.
  template <class Work> inline void share(const Work& work) {
    if (members == 1) return work(0);
    const int64_t all_finished = (round + 1) * members;
    for (int64_t tries = 0;; ++tries) {
      const int candidate = (int)((number + tries) % members);
      if (begin(candidate)) {
        work(candidate);
        finished->value.fetch_add(1, std::memory_order_acq_rel);
      } else if (tries >= members) {
        std::this_thread::yield();  // all is begun: let those run that are at it
      }
      for (int spins = 0; spins < SPINS; ++spins) {
        if (finished->value.load(std::memory_order_acquire) >= all_finished) {
          ++round;
          return;
        }
        pause_briefly();
      }
    }
  }

  bool begin(int share) {
    std::atomic<int64_t>& rounds = begun[share].value;
    int64_t expected = round;
    return rounds.load(std::memory_order_relaxed) == expected &&
           rounds.compare_exchange_strong(expected, round + 1, std::memory_order_relaxed);
  }
};

// How the rows are split over teams, and the pairs of blocks of units over a team's members. Rows
// come first, because teams never wait for each other.
struct Division {
  int teams, members;
  int64_t batch, pairs;

  Division(int threads, int64_t batch, int64_t pairs)
      : teams((int)std::max<int64_t>(1, std::min<int64_t>(threads, batch / 8))),
        members((int)std::max<int64_t>(1, std::min<int64_t>(threads / teams, pairs / 2))),
        batch(batch), pairs(pairs) {}
  int64_t row(int team) const { return batch * team / teams; }
  int64_t pair(int share) const { return pairs * share / members; }
};

template <class Body> void in_parallel(int threads, const Body& body) {
#ifdef _OPENMP
  if (threads > 1) {
#pragma omp parallel num_threads(threads)
    body(omp_get_thread_num(), omp_get_num_threads());
    return;
  }
#endif
  body(0, 1);
}

struct Tiles {  // groups of rows of nearly equal size, each small enough for the registers
  int64_t begin, rows, count;
  Tiles(int64_t begin, int64_t end)
      : begin(begin), rows(end - begin), count((end - begin + MOST_ROWS - 1) / MOST_ROWS) {}
  int64_t start(int64_t tile) const { return begin + rows * tile / count; }
};

template <class T> T* aligned(std::vector<T>& store, int64_t count) {
  store.resize(count + VECTOR_BYTES / sizeof(T));
  const uintptr_t address = (uintptr_t)store.data();
  return (T*)((address + VECTOR_BYTES - 1) / VECTOR_BYTES * VECTOR_BYTES);
}

// ---- Forward ----

template <class T> struct Forward {
  const T *input;                       // (time, batch, inputs), or already projected
  const T *input_weight, *bias;         // null input_weight: already projected
  const T *weight, *r0, *l0;
  const int64_t* lengths;               // null: every row runs to the end
  T *output, *r, *l;                    // output of every step; the final state
  T *averages, *saved, *slopes;         // for the backward pass; null where not wanted
};

template <class T> struct Packed {
  bool is_packed;
  T *recurrent, *from_input, *u, *bias, *hidden[2];
};

// The gates of some rows and one block of units, before their non-linearities; u comes first.
template <class T, int GATES>
inline void gates_of(const Forward<T>& x, const Sizes& n, const Packed<T>& panels, const T* h,
                     int64_t t, int64_t first, int rows, int64_t block, int lanes,
                     V<T> (&u)[MOST_ROWS][1], V<T> (&acc)[MOST_ROWS][GATES]) {
  const int64_t H = n.units, unit = block * LANES<T>;
  const int64_t width = x.input_weight ? n.inputs : n.blocks * H;
  const T* in = x.input + (t * n.batch + first) * width;
  if (x.input_weight) {
    const V<T>* bias = (const V<T>*)panels.bias + block * (GATES + 1);
    for (int i = 0; i < rows; ++i) {
      u[i][0] = bias[0];
      for (int j = 0; j < GATES; ++j) acc[i][j] = bias[j + 1];
    }
    if (panels.is_packed) {
      const T* panel = panels.from_input + block * width * GATES * LANES<T>;
      product<T, 1>(rows, in, width, panels.u + block * width * LANES<T>, width, u);
      product<T, GATES>(rows, in, width, panel, width, acc);
    } else {
      const T* gated = x.input_weight + H * width;
      product_unpacked<T, 1>(rows, in, width, x.input_weight, H, unit, lanes, width, u);
      product_unpacked<T, GATES>(rows, in, width, gated, H, unit, lanes, width, acc);
    }
  } else {
    for (int i = 0; i < rows; ++i) {
      u[i][0] = load<T>(in + i * width + unit, lanes);
      for (int j = 0; j < GATES; ++j)
        acc[i][j] = load<T>(in + i * width + (j + 1) * H + unit, lanes);
    }
  }
  const T* source = h + first * H;
  if (panels.is_packed)
    product<T, GATES>(rows, source, H, panels.recurrent + block * H * GATES * LANES<T>, H, acc);
  else
    product_unpacked<T, GATES>(rows, source, H, x.weight, H, unit, lanes, H, acc);
}

// One step for the rows of `tiles` and the blocks of units from `block_from` to `block_to`.
template <class T, int GATES>
inline void forward_step(const Forward<T>& x, const Sizes& n, const Packed<T>& panels,
                         const Tiles& tiles, int64_t index, int64_t block_begin,
                         int64_t block_end) {
  const int64_t H = n.units, t = n.reverse ? n.time - 1 - index : index;
  const T* h_before = panels.hidden[index % 2];
  T* h_after = panels.hidden[1 - index % 2];
  for (int64_t block = block_begin; block < block_end; ++block) {
    const int64_t unit = block * LANES<T>;
    const int lanes = (int)std::min<int64_t>(LANES<T>, H - unit);
    for (int64_t tile = 0; tile < tiles.count; ++tile) {
      const int64_t first = tiles.start(tile);
      const int rows = (int)(tiles.start(tile + 1) - first);
      V<T> u[MOST_ROWS][1], acc[MOST_ROWS][GATES];
      gates_of<T, GATES>(x, n, panels, h_before, t, first, rows, block, lanes, u, acc);
      for (int i = 0; i < rows; ++i) {
        const int64_t row = first + i, state = row * H + unit;
        const int64_t out = (t * n.batch + row) * H + unit;
        T* saved = x.saved ? x.saved + (t * n.batch + row) * n.blocks * H + unit : nullptr;
        if (x.lengths && t >= x.lengths[row]) {
          store<T>(h_after + state, load<T>(h_before + state, lanes), lanes);
          for (T* kept : {x.output, x.averages, x.slopes})
            if (kept) store<T>(kept + out, all<T>(0), lanes);
          for (int k = 0; saved && k < n.blocks; ++k) store<T>(saved + k * H, all<T>(0), lanes);
          continue;
        }
        const Step<T> next = step<T>(load<T>(x.r + state, lanes), load<T>(x.l + state, lanes),
                                   u[i][0], acc[i][0], acc[i][1], acc[i][GATES - 1], n);
        store<T>(x.r + state, next.r, lanes);
        store<T>(x.l + state, next.l, lanes);
        const V<T> h = n.hidden_tanh ? tanh<T>(next.r) : next.r;
        store<T>(h_after + state, h, lanes);
        store<T>(x.output + out, n.output_tanh ? tanh<T>(h) : h, lanes);
        if (x.averages) store<T>(x.averages + out, next.r, lanes);
        if (saved) {
          store<T>(saved, u[i][0], lanes);
          store<T>(saved + H, next.tanh_g, lanes);
          store<T>(saved + 2 * H, next.p, lanes);
          if (GATES == 3) store<T>(saved + 3 * H, next.keep_slope, lanes);
        }
        if (x.slopes) store<T>(x.slopes + out, next.attention_slope, lanes);
      }
    }
  }
}

template <class T, int GATES>
void forward_rows(const Forward<T>& x, const Sizes& n, const Packed<T>& panels,
                  const Division& division, int team, Member& member) {
  const Tiles tiles(division.row(team), division.row(team + 1));
  const int64_t blocks = blocks_of<T>(n.units);
  for (int64_t index = 0; index < n.time; ++index)
    member.share([&](int share) {
      forward_step<T, GATES>(x, n, panels, tiles, index, division.pair(share) * BACK,
                             std::min(division.pair(share + 1) * BACK, blocks));
    });
}

template <class T> void forward(const Forward<T>& x, const Sizes& n) {
  const int64_t H = n.units, state = n.batch * H, inputs = x.input_weight ? n.inputs : 0;
  const int gates = (int)n.blocks - 1;
  const int64_t blocks = blocks_of<T>(H), pairs = (blocks + BACK - 1) / BACK;
  const int64_t row = blocks * LANES<T>;  // one value per unit, padded to whole vectors
  std::vector<T> store;
  Packed<T> panels;
  panels.is_packed = n.time * n.batch >= 8;
  const int64_t packed = panels.is_packed ? row : 0;
  panels.recurrent =
      aligned(store, packed * (H * gates + inputs * (gates + 1)) + row * (gates + 1) + 2 * state);
  panels.from_input = panels.recurrent + packed * H * gates;
  panels.u = panels.from_input + packed * inputs * gates;
  panels.bias = panels.u + packed * inputs;
  panels.hidden[0] = panels.bias + row * (gates + 1);
  panels.hidden[1] = panels.hidden[0] + state;
  const std::vector<T> zeros(x.bias ? 0 : n.blocks * H);
  Counters for_packing(n.threads), for_steps(n.threads);
  in_parallel(n.threads, [&](int thread, int threads) {
    Member(for_packing, 0, thread, threads).share([&](int share) {
      const int64_t begin = blocks * share / threads, end = blocks * (share + 1) / threads;
      if (panels.is_packed) {
        pack_gates<T>(x.weight, gates, H, H, panels.recurrent, begin, end);
        pack_gates<T>(x.input_weight, 1, H, inputs, panels.u, begin, end);
        pack_gates<T>(x.input_weight + H * inputs, gates, H, inputs, panels.from_input, begin, end);
      }
      if (x.input_weight)
        pack_gates<T>(x.bias ? x.bias : zeros.data(), gates + 1, H, 1, panels.bias, begin, end);
      for (int64_t i = state * share / threads; i < state * (share + 1) / threads; ++i) {
        x.r[i] = x.r0[i];
        x.l[i] = x.l0[i];
        panels.hidden[0][i] = n.hidden_tanh ? tanh<T>(all<T>(x.r0[i]))[0] : x.r0[i];
      }
    });
    const Division division(threads, n.batch, pairs);
    const int team = thread / division.members;
    if (team >= division.teams) return;
    Member member(for_steps, team, thread % division.members, division.members);
    if (gates == 3) forward_rows<T, 3>(x, n, panels, division, team, member);
    else forward_rows<T, 2>(x, n, panels, division, team, member);
  });
}

// ---- Backward ----

template <class T> struct Backward {
  const T *d_output, *d_r, *d_l;                  // gradients that come in
  const T *weight, *r0, *output, *averages, *saved, *slopes;
  const int64_t* lengths;
  T *d_projected, *d_r0, *d_l0;                   // gradients that go out
};

// The gradients of one step's gates, from what came back to its output and its state.
template <class T, int GATES>
inline void backward_gates(const Backward<T>& x, const Sizes& n, const T* d_hidden, int64_t index,
                           int64_t row_begin, int64_t row_end, int64_t block_begin,
                           int64_t block_end) {
  const int64_t H = n.units, row_size = n.blocks * H;
  const int64_t t = n.reverse ? n.time - 1 - index : index, before = n.reverse ? t + 1 : t - 1;
  const T* averages = x.averages ? x.averages : x.output;
  for (int64_t row = row_begin; row < row_end; ++row) {
    const int64_t length = x.lengths ? x.lengths[row] : n.time;
    const bool running = t < length, is_first = n.reverse ? t == length - 1 : t == 0;
    const T* r_before = is_first ? x.r0 + row * H : averages + (before * n.batch + row) * H;
    for (int64_t block = block_begin; block < block_end; ++block) {
      const int64_t unit = block * LANES<T>, state = row * H + unit;
      const int lanes = (int)std::min<int64_t>(LANES<T>, H - unit);
      const int64_t in = (t * n.batch + row) * row_size + unit;
      const int64_t out = (t * n.batch + row) * H + unit;
      if (!running) {
        for (int k = 0; k < n.blocks; ++k) store<T>(x.d_projected + in + k * H, all<T>(0), lanes);
        continue;
      }
      // Gradient of this step's r: what came through time, and through h and o.
      const V<T> o = load<T>(x.output + out, lanes);
      V<T> d_h = load<T>(x.d_output + out, lanes);
      if (n.output_tanh) d_h *= T(1) - o * o;
      d_h += load<T>(d_hidden + state, lanes);
      if (n.hidden_tanh) {
        const V<T> h = n.output_tanh ? tanh<T>(load<T>(averages + out, lanes)) : o;
        d_h *= T(1) - h * h;
      }
      const V<T> e = load<T>(x.d_r0 + state, lanes) + d_h;
      const V<T> d_l = load<T>(x.d_l0 + state, lanes);

      const V<T> u = load<T>(x.saved + in, lanes), tanh_g = load<T>(x.saved + in + H, lanes);
      const Logistic<T> s = logistic<T>(load<T>(x.saved + in + 2 * H, lanes));
      const V<T> pull = e * (u * tanh_g - load<T>(r_before + unit, lanes));
      const V<T> d_z = e * s.up;
      V<T> d_a = s.up * (pull * s.down + d_l);
      const V<T> d_kept = s.down * (d_l - pull * s.up);
      if (x.slopes) {  // a slope of 0 means no attention: no gradient, even if d_a is not finite
        const V<T> slope = load<T>(x.slopes + out, lanes);
        d_a = slope == T(0) ? all<T>(0) : d_a * slope;
      }
      store<T>(x.d_projected + in, d_z * tanh_g, lanes);
      store<T>(x.d_projected + in + H, d_z * u * (T(1) - tanh_g * tanh_g), lanes);
      store<T>(x.d_projected + in + 2 * H, d_a, lanes);
      if (GATES == 3)
        store<T>(x.d_projected + in + 3 * H, d_kept * load<T>(x.saved + in + 3 * H, lanes), lanes);
      store<T>(x.d_r0 + state, e * s.down, lanes);
      store<T>(x.d_l0 + state, d_kept, lanes);
    }
  }
}

// The gradient of the h that a step read: its gates' gradients through the recurrent weights.
template <class T, int GATES>
inline void backward_hidden(const Backward<T>& x, const Sizes& n, const T* packed, T* d_hidden,
                            const Tiles& tiles, int64_t index, int64_t pair_begin,
                            int64_t pair_end) {
  const int64_t H = n.units, row_size = n.blocks * H, t = n.reverse ? n.time - 1 - index : index;
  for (int64_t pair = pair_begin; pair < pair_end; ++pair)
    for (int64_t tile = 0; tile < tiles.count; ++tile) {
      const int64_t first = tiles.start(tile);
      const int rows = (int)(tiles.start(tile + 1) - first);
      V<T> acc[MOST_ROWS][BACK] = {};
      product<T, BACK>(rows, x.d_projected + (t * n.batch + first) * row_size + H, row_size,
                       packed + pair * GATES * H * BACK * LANES<T>, GATES * H, acc);
      for (int i = 0; i < rows; ++i) {
        if (x.lengths && t >= x.lengths[first + i]) continue;
        for (int j = 0; j < BACK; ++j) {
          const int64_t unit = (pair * BACK + j) * LANES<T>;
          const int lanes = (int)std::min<int64_t>(LANES<T>, H - unit);
          if (lanes > 0) store<T>(d_hidden + (first + i) * H + unit, acc[i][j], lanes);
        }
      }
    }
}

// The gradient of h0 is that of r0 through f_h.
template <class T>
inline void backward_start(const Backward<T>& x, const Sizes& n, const T* d_hidden,
                           int64_t row_begin, int64_t row_end, int64_t unit_begin,
                           int64_t unit_end) {
  for (int64_t row = row_begin; row < row_end; ++row)
    for (int64_t i = row * n.units + unit_begin; i < row * n.units + unit_end; ++i) {
      const T h = n.hidden_tanh ? tanh<T>(all<T>(x.r0[i]))[0] : T(0);
      x.d_r0[i] += d_hidden[i] * (T(1) - h * h);
    }
}

template <class T, int GATES>
void backward_rows(const Backward<T>& x, const Sizes& n, const T* packed, T* d_hidden,
                   const Division& division, int team, Member& member) {
  const int64_t row_begin = division.row(team), row_end = division.row(team + 1);
  const int64_t blocks = blocks_of<T>(n.units);
  const Tiles tiles(row_begin, row_end);
  // The gradient of h needs the gates' gradients of all units; a gate's gradient needs only the
  // gradient of h of its own unit. So h of one step and the gates of the step before make one round.
  for (int64_t index = n.time - 1; index >= -1; --index)
    member.share([&](int share) {
      const int64_t pair_begin = division.pair(share), pair_end = division.pair(share + 1);
      const int64_t block_begin = pair_begin * BACK, block_end = std::min(pair_end * BACK, blocks);
      if (index + 1 < n.time)
        backward_hidden<T, GATES>(x, n, packed, d_hidden, tiles, index + 1, pair_begin, pair_end);
      if (index >= 0)
        backward_gates<T, GATES>(x, n, d_hidden, index, row_begin, row_end, block_begin, block_end);
      else
        backward_start<T>(x, n, d_hidden, row_begin, row_end, block_begin * LANES<T>,
                          std::min(block_end * LANES<T>, n.units));
    });
}

template <class T> void backward(const Backward<T>& x, const Sizes& n) {
  const int64_t H = n.units, state = n.batch * H, gates = n.blocks - 1;
  const int64_t pairs = (blocks_of<T>(H) + BACK - 1) / BACK;
  std::vector<T> packed_store, hidden_store;
  T* packed = aligned(packed_store, pairs * BACK * LANES<T> * H * gates);
  T* d_hidden = aligned(hidden_store, state);
  Counters for_packing(n.threads), for_steps(n.threads);
  in_parallel(n.threads, [&](int thread, int threads) {
    Member(for_packing, 0, thread, threads).share([&](int share) {
      const int64_t begin = pairs * share / threads, end = pairs * (share + 1) / threads;
      pack_columns<T>(x.weight, gates * H, H, packed, begin, end);
      for (int64_t i = state * share / threads; i < state * (share + 1) / threads; ++i) {
        x.d_r0[i] = x.d_r[i];
        x.d_l0[i] = x.d_l[i];
        d_hidden[i] = 0;
      }
    });
    const Division division(threads, n.batch, pairs);
    const int team = thread / division.members;
    if (team >= division.teams) return;
    Member member(for_steps, team, thread % division.members, division.members);
    if (gates == 3) backward_rows<T, 3>(x, n, packed, d_hidden, division, team, member);
    else backward_rows<T, 2>(x, n, packed, d_hidden, division, team, member);
  });
}

// Returns 1 if there was no memory for the packed weights, else 0. A C++ exception must not reach
// Python.
template <class Work> int attempt(void (*run)(const Work&, const Sizes&), const Work* x, const Sizes* n) {
  try {
    run(*x, *n);
    return 0;
  } catch (const std::bad_alloc&) {
    return 1;
  }
}

}  // namespace

extern "C" {
int rda_forward_float(const Forward<float>* x, const Sizes* n) { return attempt(forward<float>, x, n); }
int rda_forward_double(const Forward<double>* x, const Sizes* n) { return attempt(forward<double>, x, n); }
int rda_backward_float(const Backward<float>* x, const Sizes* n) { return attempt(backward<float>, x, n); }
int rda_backward_double(const Backward<double>* x, const Sizes* n) { return attempt(backward<double>, x, n); }
int rda_vector_bytes() { return VECTOR_BYTES; }
int rda_has_threads() {
#ifdef _OPENMP
  return 1;
#else
  return 0;
#endif
}
}
