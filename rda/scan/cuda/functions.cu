// What all units (rda.cu, lstm.cu, gru.cu) and all frames that run a unit over time (block.cu,
// onchip.cu, grid.cu, steps.cu) share. One source text is functions.cu, then one unit, then one
// frame.
//
// PRODUCT is the precision of the matrix multiplies: 0 tf32, 1 float32 (onchip.cu makes it of three
// tf32 multiplies), 2 bf16. H is the number of units of the layer.
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
//     start       reads the gradient of the final state
//     first       the gradient of the final h where h is part of the state, otherwise 0
//     fetch       reads the values of a step
//     step        computes the gradients of the gates
//     carried     the gradient that reaches the previous h without a matrix multiply
//     record      writes the gradients of the projections
//     finish      writes the gradient of the initial state
// `active` is false for threads without a unit or a row, `running` is false where a row of a ragged
// batch has ended.

typedef unsigned int u32;
typedef unsigned long long u64;

#define FULL 0xffffffffu  // all lanes of a warp

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
    return lengths ? (int)lengths[row] : time;
  }
};

__device__ __forceinline__ u32 as_tf32(float x) {
  u32 rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(x));
  return rounded;
}

__device__ __forceinline__ u32 as_bf16_pair(float low, float high) {
  u32 pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

// A float32 as an operand of a matrix multiply: rounded to tf32, or unchanged.
__device__ __forceinline__ u32 as_operand(float x) { return PRODUCT == 0 ? as_tf32(x) : __float_as_uint(x); }

// Sequences are stored in bf16 if the precision is bf16, otherwise in float32. States are always
// float32.
#if PRODUCT == 2
typedef unsigned short Stored;
__device__ __forceinline__ float as_float(Stored x) { return __uint_as_float((u32)x << 16); }
__device__ __forceinline__ Stored as_stored(float x) { return (unsigned short)as_bf16_pair(x, 0.0f); }
#else
typedef float Stored;
__device__ __forceinline__ float as_float(Stored x) { return x; }
__device__ __forceinline__ Stored as_stored(float x) { return x; }
#endif

// Values that are adjacent in memory, loaded and stored with one instruction: a thread has one unit
// of a row, or several adjacent ones. They stay in their stored form until they are used: a
// conversion, even taking a bf16 out of its word, has to wait for the load.
template <int WIDE>
struct Neighbours {  // 2 or 4 values in bf16
  u32 pairs[WIDE / 2] = {};

  static __device__ __forceinline__ Neighbours at(const Stored* from) {
    Neighbours found;
    if (WIDE == 2) {
      found.pairs[0] = *(const u32*)from;
    } else {
      const uint2 both = *(const uint2*)from;
      found.pairs[0] = both.x;
      found.pairs[WIDE / 2 - 1] = both.y;
    }
    return found;
  }

  template <typename Value>
  static __device__ __forceinline__ Neighbours of(Value value) {
    Neighbours made;
#pragma unroll
    for (int k = 0; k < WIDE; k += 2) made.pairs[k / 2] = as_bf16_pair(value(k), value(k + 1));
    return made;
  }

  __device__ __forceinline__ void to(Stored* place) const {
    if (WIDE == 2) {
      *(u32*)place = pairs[0];
    } else {
      *(uint2*)place = make_uint2(pairs[0], pairs[WIDE / 2 - 1]);
    }
  }

  __device__ __forceinline__ float operator[](int k) const {
    return __uint_as_float(k % 2 ? pairs[k / 2] & 0xffff0000u : pairs[k / 2] << 16);
  }
};

template <>
struct Neighbours<1> {
  Stored one = 0;

  static __device__ __forceinline__ Neighbours at(const Stored* from) {
    Neighbours found;
    found.one = *from;
    return found;
  }

  template <typename Value>
  static __device__ __forceinline__ Neighbours of(Value value) {
    Neighbours made;
    made.one = as_stored(value(0));
    return made;
  }

  __device__ __forceinline__ void to(Stored* place) const { *place = one; }

  __device__ __forceinline__ float operator[](int) const { return as_float(one); }
};

template <int WIDE>
__device__ __forceinline__ Neighbours<WIDE> load(const Stored* from) {
  return Neighbours<WIDE>::at(from);
}

template <int WIDE, typename Value>
__device__ __forceinline__ void store(Stored* to, Value value) {
  Neighbours<WIDE>::of(value).to(to);
}

// The values of the step at time `before`: from the sequence, or from the initial state where this
// is the first step of the row (null: zeros).
template <int WIDE>
__device__ __forceinline__ Neighbours<WIDE> load_before(const Stored* sequence, const float* start, int before,
                                                        int length, int batch, int row, int unit) {
  if (before >= 0 && before < length) return load<WIDE>(sequence + (before * (long long)batch + row) * H + unit);
  if (!start) return {};
  return Neighbours<WIDE>::of([&](int k) { return start[row * (long long)H + unit + k]; });
}

// A single object as an array of one, for functions that take the array of a thread's units.
template <typename Of>
__device__ __forceinline__ Of (&alone(Of& of))[1] {
  return (Of(&)[1])of;
}

// The hardware's approximate functions are accurate to about 2^-21. The exact functions are used in
// full float32, and where an error would accumulate over time.
__device__ __forceinline__ float inverse(float x) {
  // The backward pass multiplies sigmoids near 1 over the whole sequence. Unless each is correctly
  // rounded, a thousand steps lose two digits.
  if (PRODUCT == 1) return __frcp_rn(x);
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float exponential(float x) { return PRODUCT == 1 ? expf(x) : __expf(x); }

__device__ __forceinline__ float sigmoid(float x) { return inverse(1.0f + exponential(-x)); }

// sigmoid(x) as `of` and sigmoid(-x) as `rest`; the smaller of the two has full relative accuracy.
struct Sigmoids {
  float of, rest;
};

__device__ __forceinline__ Sigmoids sigmoids(float x) {
  const float e = exponential(-fabsf(x)), large = inverse(1.0f + e), small = e * large;
  return x < 0.0f ? Sigmoids{small, large} : Sigmoids{large, small};
}

// tanh. The formula 1 - 2 sigmoid(-2x) loses digits near 0, so the first terms of the series are
// used there. In bf16 the hardware's tanh is enough: it is accurate to 2^-11, a quarter of the
// rounding error of a bf16.
__device__ __forceinline__ float hyperbolic(float x) {
  if (PRODUCT == 1) return tanhf(x);
  if (PRODUCT == 2) {
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }
  const float square = x * x;
  return fabsf(x) < 0.1f ? x * (1.0f + square * (-0.33333334f + square * (0.13333334f - square * 0.05396825f)))
                         : 1.0f - 2.0f * inverse(__expf(2.0f * x) + 1.0f);
}

// The derivative of tanh. In bf16, where tanh(x) near 1 is too coarse for 1 - tanh^2, it comes from
// sigmoids of x.
__device__ __forceinline__ float hyperbolic_slope(float x, float tanh_x) {
  if (PRODUCT != 2) return 1.0f - tanh_x * tanh_x;
  const Sigmoids both = sigmoids(2.0f * x);
  return 4.0f * both.of * both.rest;
}
