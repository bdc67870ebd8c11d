// What every unit and both ways to run one (onchip.cu, steps.cu) share. PRODUCT: 0 tf32, 1 float32
// (on chip as three products of tf32), 2 bf16.

typedef unsigned int u32;
typedef unsigned long long u64;

struct Sizes {
  int time, batch, reverse;
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
__device__ __forceinline__ float load(const Stored* from) { return __uint_as_float((u32)*from << 16); }
__device__ __forceinline__ void store(Stored* to, float x) { *to = (unsigned short)as_bf16_pair(x, 0.0f); }
#else
typedef float Stored;
__device__ __forceinline__ float load(const Stored* from) { return *from; }
__device__ __forceinline__ void store(Stored* to, float x) { *to = x; }
#endif

// What a unit had at the step before this one: of the sequence, or where there is none, of its start
// (null: zeros).
__device__ __forceinline__ float value_before(const Stored* sequence, const float* start, int before, int length,
                                              int batch, int row, int unit) {
  if (before >= 0 && before < length) return load(sequence + (before * (long long)batch + row) * H + unit);
  return start ? start[row * (long long)H + unit] : 0.0f;
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

// 1 - 2 sigmoid(-2x) loses its digits near 0, where tanh is its own first terms.
__device__ __forceinline__ float hyperbolic(float x) {
  if (PRODUCT == 1) return tanhf(x);
  const float square = x * x;
  return fabsf(x) < 0.1f ? x * (1.0f + square * (-0.33333334f + square * (0.13333334f - square * 0.05396825f)))
                         : 1.0f - 2.0f * inverse(__expf(2.0f * x) + 1.0f);
}

