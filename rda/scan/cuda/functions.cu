// What every unit and all ways to run one (block.cu, onchip.cu, grid.cu, steps.cu) share. PRODUCT: 0 tf32,
// 1 float32 (in a cluster as three products of tf32), 2 bf16.

typedef unsigned int u32;
typedef unsigned long long u64;

#define FULL 0xffffffffu  // all lanes of a warp

// A number that a lambda is given at compile time.
template <int VALUE>
struct Constant {
  static constexpr int value = VALUE;
};

struct Sizes {
  int time, batch, reverse;

  // The time of the i-th step, and of the one whose state a step was given.
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

// As a product takes it: rounded to tf32, or whole.
__device__ __forceinline__ u32 as_operand(float x) { return PRODUCT == 0 ? as_tf32(x) : __float_as_uint(x); }

// Sequences in memory are bf16 where the products are; states are float32 always.
#if PRODUCT == 2
typedef unsigned short Stored;
__device__ __forceinline__ float as_float(Stored x) { return __uint_as_float((u32)x << 16); }
__device__ __forceinline__ Stored as_stored(float x) { return (unsigned short)as_bf16_pair(x, 0.0f); }
#else
typedef float Stored;
__device__ __forceinline__ float as_float(Stored x) { return x; }
__device__ __forceinline__ Stored as_stored(float x) { return x; }
#endif

// Neighbours in memory, read and written at once: a thread has one unit of a row, or some side by side.
// They stay as they were stored until they are used: to convert one, or to take a bf16 out of its
// word, is to wait for it.
template <int WIDE>
struct Neighbours {  // 2 or 4, of bf16
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

// What units had at the step before this one: of the sequence, or where there is none, of their start
// (null: zeros).
template <int WIDE>
__device__ __forceinline__ Neighbours<WIDE> load_before(const Stored* sequence, const float* start, int before,
                                                        int length, int batch, int row, int unit) {
  if (before >= 0 && before < length) return load<WIDE>(sequence + (before * (long long)batch + row) * H + unit);
  if (!start) return {};
  return Neighbours<WIDE>::of([&](int k) { return start[row * (long long)H + unit + k]; });
}

// One by itself, for what takes several.
template <typename Of>
__device__ __forceinline__ Of (&alone(Of& of))[1] {
  return (Of(&)[1])of;
}

// The hardware's approximations are good to some 2^-21. With products of full precision, and where
// an error would add up over time, the exact functions are used.
__device__ __forceinline__ float inverse(float x) {
  // Backward, sigmoids near 1 are multiplied over the whole sequence: rounded, or a thousand steps
  // lose two digits.
  if (PRODUCT == 1) return __frcp_rn(x);
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float exponential(float x) { return PRODUCT == 1 ? expf(x) : __expf(x); }

__device__ __forceinline__ float sigmoid(float x) { return inverse(1.0f + exponential(-x)); }

// sigmoid(x) and sigmoid(-x), the small one with all its digits.
struct Sigmoids {
  float of, rest;
};

__device__ __forceinline__ Sigmoids sigmoids(float x) {
  const float e = exponential(-fabsf(x)), large = inverse(1.0f + e), small = e * large;
  return x < 0.0f ? Sigmoids{small, large} : Sigmoids{large, small};
}

// 1 - 2 sigmoid(-2x) loses its digits near 0, where tanh is its own first terms. The hardware's tanh
// is good to 2^-11, a quarter of what a bf16 loses.
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

// Its derivative; where tanh(x) itself is too coarse near 1, another way.
__device__ __forceinline__ float hyperbolic_slope(float x, float tanh_x) {
  if (PRODUCT != 2) return 1.0f - tanh_x * tanh_x;
  const Sigmoids both = sigmoids(2.0f * x);
  return 4.0f * both.of * both.rest;
}
