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

