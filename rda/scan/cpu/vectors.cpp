// Vectors of the CPU engine and their elementary functions. One source text is this file, then the
// step of a unit, written by text.py, then frame.cpp.
//
// The code uses the compiler's vector extensions, AVX-512's masks for the last block, and few headers,
// so it compiles in two seconds with g++ or clang++.

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <sched.h>

#ifdef __AVX512F__
#include <immintrin.h>
#endif
#ifdef _OPENMP
#include <omp.h>
#endif

namespace {

#if defined(__AVX512F__)
constexpr int VECTOR_BYTES = 64, REGISTERS = 32;
#elif defined(__AVX__)
constexpr int VECTOR_BYTES = 32, REGISTERS = 16;
#else
constexpr int VECTOR_BYTES = 16, REGISTERS = 16;
#endif

// SCALAR is float or double, BITS an integer of its size.
using T = SCALAR;
typedef T V __attribute__((vector_size(VECTOR_BYTES)));
typedef T Loose __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(T)), may_alias));
typedef BITS Bits __attribute__((vector_size(VECTOR_BYTES)));
constexpr bool IS_FLOAT = sizeof(T) == 4;
constexpr int LANES = VECTOR_BYTES / sizeof(T);
constexpr int EXPONENT_BITS = IS_FLOAT ? 23 : 52, EXPONENT_BIAS = IS_FLOAT ? 127 : 1023;
constexpr int EXPM1_TERMS = IS_FLOAT ? 7 : 14, LOG1P_TERMS = IS_FLOAT ? 8 : 18, LOG_TERMS = IS_FLOAT ? 6 : 12;
constexpr T TO_INTEGER = IS_FLOAT ? 12582912.0 : 6755399441055744.0;  // 1.5 * 2^23 or 2^52: adding it rounds
constexpr T LN2_HIGH = IS_FLOAT ? 0.693359375 : 6.93145751953125e-1;
constexpr T LN2_LOW = IS_FLOAT ? -2.12194440e-4f : 1.42860682030941723212e-6;
constexpr T EXP_LOW = IS_FLOAT ? -87.3f : -708.0;
constexpr T INF = std::numeric_limits<T>::infinity(), TINY = std::numeric_limits<T>::min();
constexpr T SCALE = IS_FLOAT ? 0x1p24 : 0x1p53, LN_SCALE = IS_FLOAT ? 16.635532333438687 : 36.7368005696771;

inline V all(T x) { return x - V{}; }

// The last block of units may be narrower than a vector.
inline V load_part(const T* source, int lanes) {
#ifdef __AVX512F__
  if constexpr (IS_FLOAT) return (V)_mm512_maskz_loadu_ps((__mmask16)((1u << lanes) - 1), source);
  else return (V)_mm512_maskz_loadu_pd((__mmask8)((1u << lanes) - 1), source);
#else
  V x{};
  for (int i = 0; i < lanes; ++i) x[i] = source[i];
  return x;
#endif
}

inline void store_part(T* target, V x, int lanes) {
#ifdef __AVX512F__
  if constexpr (IS_FLOAT) _mm512_mask_storeu_ps(target, (__mmask16)((1u << lanes) - 1), (__m512)x);
  else _mm512_mask_storeu_pd(target, (__mmask8)((1u << lanes) - 1), (__m512d)x);
#else
  for (int i = 0; i < lanes; ++i) target[i] = x[i];
#endif
}

inline V load(const T* source, int lanes) {
  return lanes >= LANES ? *(const Loose*)source : load_part(source, lanes);
}

inline void store(T* target, V x, int lanes) {
  if (lanes >= LANES) *(Loose*)target = x;
  else store_part(target, x, lanes);
}

// ---- Elementary functions, accurate to an ulp or two, NaN in NaN out ----

struct Split { V scale, fraction; };  // e^x = scale * (1 + fraction)

inline Split split_exp(V x) {
  const V n = (x * T(1.44269504088896340736) + TO_INTEGER) - TO_INTEGER;
  const V r = (x - n * LN2_HIGH) - n * LN2_LOW;
  V series = all(0);
  T factorial[EXPM1_TERMS + 1];
  factorial[0] = 1;
  for (int k = 1; k <= EXPM1_TERMS; ++k) factorial[k] = factorial[k - 1] * k;
  for (int k = EXPM1_TERMS; k >= 2; --k) series = series * r + T(1) / factorial[k];
  const Bits exponent = __builtin_convertvector(n, Bits) + EXPONENT_BIAS;
  return {(V)(exponent << EXPONENT_BITS), series * r * r + r};
}

inline V magnitude(V x) {
  return (V)((Bits)x & ~(Bits)all(T(-0.0)));
}

// e^-|x|
inline V exp_below_one(V x) {
  const T low = EXP_LOW;
  const V y = -magnitude(x);
  const Split e = split_exp(y < low ? all(low) : y);
  return y < low ? all(0) : e.scale * e.fraction + e.scale;
}

// Near 0 it is (1 - e^-2x) / (1 + e^-2x), far from it 1 - 2 e^-2x / (1 + e^-2x): there the last bit of
// the result is most of 1 - tanh^2, the slope.
inline V tanh(V x) {
  const T low = EXP_LOW;
  const V y = T(-2) * magnitude(x);
  const Split e = split_exp(y < low ? all(low) : y);
  const V expm1 = e.scale * e.fraction + (e.scale - T(1)), tail = e.scale * e.fraction + e.scale;
  const Bits far = y < T(-2);
  const V quotient = (far ? tail : expm1) / (T(-2) - expm1);
  const V positive = far ? T(2) * quotient + T(1) : quotient;
  return (V)((Bits)positive | ((Bits)x & (Bits)all(T(-0.0))));
}

// 2 atanh(w) for small w
template <int TERMS> inline V twice_atanh(V w) {
  const V square = w * w;
  V series = all(T(1) / T(2 * TERMS + 1));
  for (int k = TERMS - 1; k >= 0; --k) series = series * square + T(1) / T(2 * k + 1);
  return (w + w) * series;
}

// ln(1 + y) for 0 <= y <= 1
inline V log1p(V y) {
  return twice_atanh<LOG1P_TERMS>(y / (y + T(2)));
}

// ln x for normal x > 0
inline V log_of_normal(V x) {
  const Bits raw = (Bits)x;
  const Bits mantissa_mask = ((Bits{} + 1) << EXPONENT_BITS) - 1;
  const Bits one = (Bits)all(1);
  V m = (V)((raw & mantissa_mask) | one);
  Bits e = (raw >> EXPONENT_BITS) - EXPONENT_BIAS;
  const Bits large = m > T(1.41421356237309504880);
  m = large ? m * T(0.5) : m;
  e = large ? e + 1 : e;
  const V n = __builtin_convertvector(e, V);
  const V small = twice_atanh<LOG_TERMS>((m - T(1)) / (m + T(1)));
  const V y = n * LN2_HIGH + (n * LN2_LOW + small);
  return x < INF ? y : x;
}

// Both tails of the logistic function from one exponential.
struct Logistic { V up, down, tail; };  // sigma(x), sigma(-x), e^-|x|

inline Logistic logistic(V x) {
  const V y = exp_below_one(x);
  const V near = T(1) / (y + T(1)), far = y * near;
  const Bits negative = x < T(0);
  return {negative ? far : near, negative ? near : far, y};
}

inline V larger(V a, V b) { return a > b ? a : b; }
inline V smaller(V a, V b) { return a < b ? a : b; }
inline V select(Bits condition, V a, V b) { return condition ? a : b; }

// ln x for any x: numbers too small to be normal are scaled up
inline V log(V x) {
  const V ln = log_of_normal(x < TINY ? x * SCALE : x), y = x < TINY ? ln - LN_SCALE : ln;
  return x > T(0) ? y : x == T(0) ? all(-INF) : all(INF - INF);
}

// e^x, infinite above what a number holds. Near there e^-x is no normal number, but e^(2 - x) is.
inline V exp(V x) {
  const Bits beyond = x > T(-1) - EXP_LOW;
  const V nearer = beyond ? x - T(2) : x, below = exp_below_one(nearer);
  return (nearer > T(0) ? T(1) / below : below) * (beyond ? all(7.38905609893065022723) : all(1));
}

// A gradient times a slope. A slope of 0 ends even a gradient that is not finite.
inline V through(V gradient, V slope) {
  return slope == T(0) ? all(0) : gradient * slope;
}

inline V log_relu(V x) {
  const Bits nothing = x < TINY;
  return nothing ? all(-INF) : log_of_normal(nothing ? all(1) : x);
}

inline V log_of_weight(V x) { return x < T(0) ? all(INF - INF) : log_relu(x); }

inline V slope_of_log_relu(V x) {
  const Bits nothing = x < TINY;
  return nothing ? all(0) : T(1) / (nothing ? all(1) : x);
}

inline V log_ratio(V share, V kept) {
  return share == -INF ? share : share - kept;
}

// Corrects the heavier side by the lighter share, so that a share of exactly 1 gives `fresh` itself.
inline V blend(V old, V fresh, Logistic s) {
  return s.up < T(0.5) ? old + s.up * (fresh - old) : fresh - s.down * (fresh - old);
}
