// What needs instructions or types that only a GPU has. All other files build on these functions, so
// that a unit's text runs wherever they are defined: the tests define them for the CPU.
//
// PRODUCT is the precision of the matrix multiplies: 0 tf32, 1 float32 (onchip.cu makes it of three
// tf32 multiplies), 2 bf16.

typedef unsigned int u32;
typedef unsigned long long u64;

#define FULL 0xffffffffu  // all lanes of a warp
#define INFINITE __int_as_float(0x7f800000)

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

// c += a b on the tensor cores.
#if PRODUCT == 2
#define KIND "m16n8k16.row.col.f32.bf16.bf16.f32"
#else
#define KIND "m16n8k8.row.col.f32.tf32.tf32.f32"
#endif

__device__ __forceinline__ void mma(float c[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned." KIND " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// x, computed here. The compiler would otherwise move it to where it is used, and hold what it is
// computed from until then.
__device__ __forceinline__ float pinned(float x) {
  asm volatile("" : "+f"(x));
  return x;
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

__device__ __forceinline__ float quick_exponential(float x) { return __expf(x); }

__device__ __forceinline__ float quick_logarithm(float x) { return __logf(x); }

__device__ __forceinline__ float exponential(float x) { return PRODUCT == 1 ? expf(x) : quick_exponential(x); }

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
                         : 1.0f - 2.0f * inverse(quick_exponential(2.0f * x) + 1.0f);
}
