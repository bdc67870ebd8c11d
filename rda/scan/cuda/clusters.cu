// Communication between the thread blocks of a cluster: ranks and addresses, barriers, stores to
// another block's shared memory.

__device__ __forceinline__ u32 shared_address(const void* pointer) {
  return (u32)__cvta_generic_to_shared(pointer);
}

__device__ __forceinline__ u32 block_rank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

__device__ __forceinline__ u32 in_block(u32 address, u32 rank) {
  u32 mapped;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
  return mapped;
}

__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ __forceinline__ void barrier_init(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// What this thread has written before, and other threads before a barrier with it, is there for whoever
// waits.
__device__ __forceinline__ void barrier_arrive(u32 barrier_of_another_block) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier_of_another_block) : "memory");
}

__device__ __forceinline__ void barrier_expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Set up `count` consecutive barriers, each of which waits for `bytes` bytes, or for other blocks to
// arrive. The cluster_sync at the end makes sure that no block sends before the barriers exist.
__device__ __forceinline__ void open_barriers(u32 first, int count, u32 bytes, u32 arrivals = 1) {
  if (threadIdx.x == 0) {
// Not unrolled, so that it stays a branch. Unrolled, the compiler uses a predicate, and
// compute-sanitizer's racecheck then reports races because it takes the writes as done by every
// warp.
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
      barrier_init(first + 8 * i, arrivals);
      if (bytes) barrier_expect(first + 8 * i, bytes);
    }
  }
  cluster_sync();
}

__device__ __forceinline__ void barrier_wait(u32 barrier, u32 parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@done bra finished;\nbra again;\nfinished:\n}" ::"r"(barrier), "r"(parity) : "memory");
}

__device__ __forceinline__ void send16(u32 to, u32 barrier, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%2, %3, %4, %5}, [%1];" ::"r"(to),
               "r"(barrier), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

__device__ __forceinline__ void send8(u32 to, u32 barrier, u32 a, u32 b) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%2, %3}, [%1];" ::"r"(to),
               "r"(barrier), "r"(a), "r"(b) : "memory");
}
