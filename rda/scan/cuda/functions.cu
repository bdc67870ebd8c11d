// What all units (text.py writes them) and all frames that run a unit over time (block.cu, onchip.cu,
// grid.cu, steps.cu) share. One source text is hardware.cu, functions.cu, then one unit, then one
// frame. H is the number of units of the layer.
//
// A unit defines, with INPUTS projections and GATES recurrent sums for each step:
//   UnitForward, UnitBackward   where its tensors are in GPU memory; the parameter `at` or `unit_memory`
//   Kept, GradientKept          the values that it carries from step to step
//   Unit                        the forward pass of one unit in one row:
//     prepare     reads what is the same in all rows
//     start       reads the initial state
//     hidden      the h that the next step multiplies
//     step        computes h, and of the next state what h needs
//     carry_on    computes the rest of the next state
//     record      writes the output, and what is saved for the backward pass
//     finish      writes the final state
//   UnitGradient                the backward pass of one unit in one row:
//     prepare     reads what is the same in all rows
//     start       reads the gradient of the final state
//     first       the gradient of the final h where h is part of the state, otherwise 0
//     fetch       reads the values of a step
//     factors     computes from them what the gradients are multiplied by
//     step        computes the gradients of the gates
//     carried     the gradient that reaches the previous h without a matrix multiply
//     record      writes the gradients of the projections
//     finish      writes the gradient of the initial state
// `active` is false for threads without a unit or a row, `running` is false where a row of a ragged
// batch has ended.

// A compile-time constant as a lambda's argument.
template <int VALUE>
struct Constant {
  static constexpr int value = VALUE;
};

struct Sizes {
  int time, batch, reverse;

  // The time index of the i-th step of each pass, and of the step that comes before time t in the
  // forward pass.
  __device__ __forceinline__ int forward_time(int i) const { return reverse ? time - 1 - i : i; }
  __device__ __forceinline__ int backward_time(int i) const { return reverse ? i : time - 1 - i; }
  __device__ __forceinline__ int time_before(int t) const { return reverse ? t + 1 : t - 1; }

  __device__ __forceinline__ int length(const long long* lengths, int row) const {
    const int given = lengths ? (int)lengths[row] : time;
    return given < time ? given : time;  // computed, so that no step of a loop waits for the load
  }
};

// Sequences are stored in bf16 if the precision is bf16, otherwise in float32. States are always
// float32. An operand of a matrix multiply is a bf16, or a float32 that is rounded to tf32 or
// unchanged.
#if PRODUCT == 2
typedef unsigned short Stored, Operand;
__device__ __forceinline__ float as_float(Stored x) { return __uint_as_float((u32)x << 16); }
__device__ __forceinline__ Stored as_stored(float x) { return (unsigned short)as_bf16_pair(x, 0.0f); }
__device__ __forceinline__ Operand as_operand(float x) { return as_stored(x); }
#else
typedef float Stored;
typedef u32 Operand;
__device__ __forceinline__ float as_float(Stored x) { return x; }
__device__ __forceinline__ Stored as_stored(float x) { return x; }
__device__ __forceinline__ Operand as_operand(float x) { return PRODUCT == 0 ? as_tf32(x) : __float_as_uint(x); }
#endif

// Values that are adjacent in memory, loaded and stored with one instruction: a thread has one unit
// of a row, or several adjacent ones. They stay in their stored form until they are used: a
// conversion, even taking a bf16 out of its word, has to wait for the load.
template <int WIDE>
struct Neighbours {  // 2 or 4 values in bf16
  u32 pairs[WIDE / 2] = {};

  template <typename Value>
  static __device__ __forceinline__ Neighbours of(Value value) {
    Neighbours made;
#pragma unroll
    for (int k = 0; k < WIDE; k += 2) made.pairs[k / 2] = as_bf16_pair(value(k), value(k + 1));
    return made;
  }

  __device__ __forceinline__ float operator[](int k) const {
    return __uint_as_float(k % 2 ? pairs[k / 2] & 0xffff0000u : pairs[k / 2] << 16);
  }
};

template <>
struct Neighbours<1> {
  Stored one = 0;

  template <typename Value>
  static __device__ __forceinline__ Neighbours of(Value value) {
    return {as_stored(value(0))};
  }

  __device__ __forceinline__ float operator[](int) const { return as_float(one); }
};

template <int WIDE>
__device__ __forceinline__ Neighbours<WIDE> load(const Stored* from) {
  if constexpr (WIDE == 4) {
    const uint2 both = *(const uint2*)from;
    return {both.x, both.y};
  } else {
    return *(const Neighbours<WIDE>*)from;
  }
}

template <int WIDE, typename Value>
__device__ __forceinline__ void store(Stored* to, Value value) {
  const auto made = Neighbours<WIDE>::of(value);
  if constexpr (WIDE == 4) *(uint2*)to = make_uint2(made.pairs[0], made.pairs[1]);
  else *(Neighbours<WIDE>*)to = made;
}

// The values of the step at time `before`: from the sequence, or from the initial state where this
// is the first step of the row (null: the unit's own).
template <int WIDE>
__device__ __forceinline__ Neighbours<WIDE> load_before(const Stored* sequence, const float* start, int before,
                                                        int length, int batch, int row, int unit, float own = 0.0f) {
#if PRODUCT == 2
  if (before >= 0 && before < length) return load<WIDE>(sequence + (before * (long long)batch + row) * H + unit);
  if (!start) return Neighbours<WIDE>::of([&](int) { return own; });
  return Neighbours<WIDE>::of([&](int k) { return start[row * (long long)H + unit + k]; });
#else
  // One load for both: two branches would be copied to every place that fetches values.
  const bool is_first = before < 0 || before >= length;
  const float* from = is_first ? start : sequence;
  const long long place = ((is_first ? 0 : before) * (long long)batch + row) * H + unit;
  return Neighbours<WIDE>::of([&](int) { return from ? from[place] : own; });
#endif
}

// A single object as an array of one, for functions that take the array of a thread's units.
template <typename Of>
__device__ __forceinline__ Of (&alone(Of& of))[1] {
  return (Of(&)[1])of;
}

__device__ __forceinline__ float sigmoid(float x) { return inverse(1.0f + exponential(-x)); }

// sigmoid(x) as `of` and sigmoid(-x) as `rest`; the smaller of the two has full relative accuracy.
struct Sigmoids {
  float of, rest;
};

__device__ __forceinline__ Sigmoids sigmoids(float x) {
  const float e = exponential(-fabsf(x)), large = inverse(1.0f + e), small = e * large;
  return x < 0.0f ? Sigmoids{small, large} : Sigmoids{large, small};
}

// The derivative of tanh from x, for bf16: a stored tanh(x) near 1 is too coarse for 1 - tanh^2.
__device__ __forceinline__ float slope_of_tanh(float x) {
  const Sigmoids both = sigmoids(2.0f * x);
  return 4.0f * both.of * both.rest;
}

// log(1 + e^-|x|) with an error of 2e-7, which is no more than the rounding error of a sum of this
// size.
__device__ __forceinline__ float quick_rise(float x) { return quick_logarithm(1.0f + quick_exponential(-fabsf(x))); }

__device__ __forceinline__ float rise(float x) { return PRODUCT == 2 ? quick_rise(x) : log1pf(expf(-fabsf(x))); }

__device__ __forceinline__ float quick_log_sigmoid(float x) { return fminf(x, 0.0f) - quick_rise(x); }

__device__ __forceinline__ float log_sigmoid(float x) { return fminf(x, 0.0f) - rise(x); }

__device__ __forceinline__ float softplus(float x) { return fmaxf(x, 0.0f) + log1pf(quick_exponential(-fabsf(x))); }

__device__ __forceinline__ float log_softplus(float x) {
  return x < -20.0f ? x - 0.5f * quick_exponential(x) : logf(softplus(x));
}

__device__ __forceinline__ float slope_of_log_softplus(float x) {
  return x < -20.0f ? 1.0f - 0.5f * quick_exponential(x) : sigmoid(x) / softplus(x);
}

#define SMALLEST 1.17549435e-38f

__device__ __forceinline__ float log_relu(float x) { return x < SMALLEST ? -INFINITE : logf(x); }

__device__ __forceinline__ float log_of_weight(float x) { return x < 0.0f ? INFINITE - INFINITE : log_relu(x); }

__device__ __forceinline__ float slope_of_log_relu(float x) { return x < SMALLEST ? 0.0f : 1.0f / x; }

// A slope of 0 ends even a gradient that is not finite.
__device__ __forceinline__ float through(float gradient, float slope) {
  return slope == 0.0f ? 0.0f : gradient * slope;
}

// The result is exactly `fresh` where its share is 1, and exactly `old` where it is 0. There are no
// branches, so that the units of a thread do not wait for one another.
__device__ __forceinline__ float blend(float old, float fresh, float p, const Sigmoids& share) {
  const float near = p < 0.0f ? old : fresh, far = p < 0.0f ? fresh : old;
  return near + fminf(share.of, share.rest) * (far - near);
}

// A sum over the whole sequence in full float32: `rest` is what rounding has cut off from `value`.
// Without it the rounding errors would add up over thousands of steps.
struct Sum {
  float value, rest;
};

__device__ __forceinline__ Sum add(const Sum& sum, float x) {
  const float value = sum.value + x;
  const float lost = fabsf(sum.value) >= fabsf(x) ? (sum.value - value) + x : (x - value) + sum.value;
  return {value, sum.rest + (fabsf(value) < INFINITE ? lost : 0.0f)};
}
