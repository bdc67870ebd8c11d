// hardware.cu for the CPU, with the types and functions that CUDA itself provides.

typedef unsigned int u32;
typedef unsigned long long u64;

#define __device__
#define __forceinline__ inline

struct uint2 {
  u32 x, y;
};
inline uint2 make_uint2(u32 x, u32 y) { return {x, y}; }

template <typename To, typename From>
inline To same_bits(From from) {
  To to;
  __builtin_memcpy(&to, &from, sizeof(to));
  return to;
}
inline u32 __float_as_uint(float x) { return same_bits<u32>(x); }
inline float __uint_as_float(u32 x) { return same_bits<float>(x); }

#define INFINITE __builtin_inff()
#define fabsf __builtin_fabsf
#define fminf __builtin_fminf
#define fmaxf __builtin_fmaxf
#define expf __builtin_expf
#define logf __builtin_logf
#define log1pf __builtin_log1pf
#define expm1f __builtin_expm1f

inline u32 as_tf32(float x) { return (__float_as_uint(x) + 0x1000) & 0xffffe000; }

inline u32 as_bf16(float x) {
  const u32 bits = __float_as_uint(x);
  return x == x ? (bits + 0x7fff + (bits >> 16 & 1)) >> 16 : 0x7fff;
}
inline u32 as_bf16_pair(float low, float high) { return as_bf16(high) << 16 | as_bf16(low); }

inline float pinned(float x) { return x; }

inline float inverse(float x) { return 1.0f / x; }
inline float exponential(float x) { return expf(x); }
inline float quick_exponential(float x) { return expf(x); }
inline float quick_logarithm(float x) { return logf(x) + 2e-7f; }  // an error as the hardware's
inline float hyperbolic(float x) { return __builtin_tanhf(x); }
