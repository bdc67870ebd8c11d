// The engine `cuda`: a recurrent layer over time with its weights on chip, one cluster of thread
// blocks for every 8 or 16 rows of the batch.
//
// Compiled at run time after hardware.cu, functions.cu, a unit and clusters.cu with the constants:
//   H        units of the layer
//   CLUSTER  blocks in a cluster; each owns 32 units
//   ROWS     rows of the batch in a cluster, 8 or 16; a block has a warp for each
//   PRODUCT  see hardware.cu
//
// Each block holds its units' rows of the recurrent matrix in registers for the whole sequence, as
// the A operand of mma. 8 rows of the batch are the n dimension of one mma. Blocks exchange data
// once a step. Forward, each block sends the h of its units to every block. Backward, each block
// multiplies the gradients of its own gates, and sends every other block that block's part of dh. A
// store into another block's shared memory counts down that block's mbarrier, so a block waits for
// its data and for nothing else.

#define OWN 32
#define WARPS ROWS
#define THREADS (32 * WARPS)
#define PADDED (CLUSTER * OWN)
// Blocks on one multiprocessor: two where there are enough registers for two.
#define BLOCKS_AT_ONCE (CLUSTER == 4 && !(PRODUCT == 1 && GATES == 4) ? 2 : 1)

// ---------------------------------------------------------------- matrix multiply

// The leading bits of a weight that fit in tf32. It is volatile because the compiler would otherwise
// hold these and the remaining bits in registers for the whole sequence, and there are not enough.
__device__ __forceinline__ u32 leading(u32 full) {
  u32 value;
  asm volatile("and.b32 %0, %1, 0xffffe000;" : "=r"(value) : "r"(full));
  return value;
}

// The order of k in a matrix multiply is free if both operands have the same order. Here each
// quarter of the lanes loads 16 bytes of a row at a time, which serve two steps of mma along k. A
// span of k is what the four quarters load at once.
#define BYTES ((int)sizeof(Operand))
#define SPAN (64 / BYTES)
#define CHUNK (16 / BYTES)
#define PITCH(k) ((k) * BYTES + 64)  // bytes from row to row, such that the rows of one load are in different banks

template <int SPANS>
struct Tile {  // 16 rows of A
  u32 held[SPANS][8];

  template <typename Weight>
  __device__ __forceinline__ void load(int lane, Weight weight) {
    const int g = lane / 4, q = lane % 4;
#pragma unroll
    for (int i = 0; i < SPANS; ++i) {
      const int k = SPAN * i + CHUNK * q;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
#if PRODUCT == 2
        held[i][2 * j] = as_bf16_pair(weight(g, k + 2 * j), weight(g, k + 2 * j + 1));
        held[i][2 * j + 1] = as_bf16_pair(weight(g + 8, k + 2 * j), weight(g + 8, k + 2 * j + 1));
#else
        held[i][2 * j] = as_operand(weight(g, k + j));
        held[i][2 * j + 1] = as_operand(weight(g + 8, k + j));
#endif
      }
    }
  }
};

// sum[tile] += A[tile] B. B is in shared memory at `rows`, one row for each of 8 rows of the batch.
template <int TILES, int SPANS>
__device__ __forceinline__ void multiply(float sum[TILES][4], const Tile<SPANS> (&tiles)[TILES], const char* rows,
                                         int pitch, int lane) {
  float odd[TILES][4] = {};
  const uint4* chunks = (const uint4*)(rows + (lane / 4) * pitch + (lane % 4) * 16);
#pragma unroll
  for (int i = 0; i < SPANS; ++i) {
    const uint4 b = chunks[4 * i];
#if PRODUCT != 1
#pragma unroll
    for (int m = 0; m < TILES; ++m) {
      const u32* a = tiles[m].held[i];
      mma(sum[m], a[0], a[1], a[2], a[3], b.x, b.y);
      mma(odd[m], a[4], a[5], a[6], a[7], b.z, b.w);
    }
#else
    const float full[4] = {__uint_as_float(b.x), __uint_as_float(b.y), __uint_as_float(b.z), __uint_as_float(b.w)};
    u32 high[4], low[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      high[j] = as_tf32(full[j]);
      low[j] = as_tf32(full[j] - __uint_as_float(high[j]));
    }
#pragma unroll
    for (int m = 0; m < TILES; ++m) {
      u32 a[8], rest[8];
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        a[j] = leading(tiles[m].held[i][j]);
        rest[j] = __float_as_uint(__uint_as_float(tiles[m].held[i][j]) - __uint_as_float(a[j]));
      }
      // Tensor cores truncate when they add. So the small terms come first, and the sums of
      // different spans are added outside of the tensor cores, where addition rounds.
      float even[4] = {}, other[4] = {};
      mma(even, rest[0], rest[1], rest[2], rest[3], high[0], high[1]);
      mma(other, rest[4], rest[5], rest[6], rest[7], high[2], high[3]);
      mma(even, a[0], a[1], a[2], a[3], low[0], low[1]);
      mma(other, a[4], a[5], a[6], a[7], low[2], low[3]);
      mma(even, a[0], a[1], a[2], a[3], high[0], high[1]);
      mma(other, a[4], a[5], a[6], a[7], high[2], high[3]);
#pragma unroll
      for (int c = 0; c < 4; ++c) sum[m][c] += even[c] + other[c];
    }
#endif
  }
#pragma unroll
  for (int m = 0; m < TILES; ++m)
#pragma unroll
    for (int c = 0; c < 4; ++c) sum[m][c] += odd[m][c];
}

__device__ __forceinline__ void store_operand(char* row, int k, float value) {
  *(Operand*)(row + BYTES * k) = as_operand(value);
}

// ---------------------------------------------------------------- forward

#define SPLITS (WARPS / (OWN / 16))  // warps that split the k of one tile between them
#define FORWARD_SPANS (PADDED / SPLITS / SPAN)
#define SUM_PITCH 36  // floats from row to row of the partial sums; writing and reading have no bank conflicts

struct ForwardShared {
  alignas(16) char h[2][ROWS * PITCH(PADDED)];
  float sums[2][SPLITS][GATES][ROWS][SUM_PITCH];
  u64 arrived[2];
};

// Send the h of this block's units to every block. A warp has one row of the batch, a lane one unit.
__device__ __forceinline__ void send_hidden(float h, u32 h_row, u32 arrived, u32 rank, int lane) {
  const int first = lane & ~3;
#if PRODUCT == 2
  const float next = __shfl_down_sync(FULL, h, 1);
  const u32 pair = as_bf16_pair(h, next);
  const u32 a = __shfl_sync(FULL, pair, first), b = __shfl_sync(FULL, pair, first + 2);
#else
  const u32 bits = as_operand(h);
  const u32 a = __shfl_sync(FULL, bits, first), b = __shfl_sync(FULL, bits, first + 1);
  const u32 c = __shfl_sync(FULL, bits, first + 2), d = __shfl_sync(FULL, bits, first + 3);
#endif
  const u32 to = h_row + (rank * OWN + first) * BYTES;
#pragma unroll
  for (int target = lane & 3; target < CLUSTER; target += 4) {
#if PRODUCT == 2
    send8(in_block(to, target), in_block(arrived, target), a, b);
#else
    send16(in_block(to, target), in_block(arrived, target), a, b, c, d);
#endif
  }
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, BLOCKS_AT_ONCE)
    forward(const Stored* input, const Stored* weight, UnitForward unit_memory, const long long* lengths, Sizes sizes) {
  extern __shared__ __align__(16) char memory[];
  ForwardShared& shared = *(ForwardShared*)memory;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const u32 rank = block_rank();
  const u32 arrived = shared_address(shared.arrived);
  const u32 h_row = shared_address(shared.h[0] + warp * PITCH(PADDED));
  const u32 bytes = ROWS * PADDED * BYTES;

  Tile<FORWARD_SPANS> tiles[GATES];
  const int group = warp / SPLITS, split = warp % SPLITS;
#pragma unroll
  for (int gate = 0; gate < GATES; ++gate)
    tiles[gate].load(lane, [&](int row, int k) {
      const int unit = rank * OWN + group * 16 + row, from = split * (PADDED / SPLITS) + k;
      return unit < H && from < H ? as_float(weight[(gate * (long long)H + unit) * H + from]) : 0.0f;
    });

  const int unit = rank * OWN + lane, row = blockIdx.x / CLUSTER * ROWS + warp;
  const bool active = unit < H && row < sizes.batch;
  const int length = active ? sizes.length(lengths, row) : 0;
  Unit state;
  state.prepare(unit_memory, active, unit);
  state.start(unit_memory, active, row, unit);

  open_barriers(arrived, 2, bytes);
  send_hidden(state.hidden(), h_row, arrived, rank, lane);

  // Inputs are loaded a whole step before they are taken, which is when the step before theirs ends.
  // Without a branch, or the compiler would load elsewhere and wait: all threads load some numbers.
  Stored kept[INPUTS] = {};
  float x[INPUTS];
  const auto fetch = [&](int i) {
#pragma unroll
    for (int k = 0; k < INPUTS; ++k) x[k] = pinned(as_float(kept[k]) + 0.0f);
    __syncwarp();  // or the compiler would start these loads while earlier ones are still needed, and wait
    const long long t = sizes.forward_time(i < sizes.time ? i : 0);
    const Stored* from = input + (active ? (t * sizes.batch + row) * INPUTS * H + unit : 0);
#pragma unroll
    for (int k = 0; k < INPUTS; ++k) kept[k] = from[k * H];
  };
  fetch(0);
  fetch(1);

  const auto step = [&](auto parity, int i) {
    constexpr int buffer = decltype(parity)::value, next = buffer ^ 1;
    const int t = sizes.forward_time(i);
    barrier_wait(arrived + 8 * buffer, (i >> 1) & 1);
    if (threadIdx.x == 0) barrier_expect(arrived + 8 * buffer, bytes);
#pragma unroll
    for (int first = 0; first < ROWS; first += 8) {
      float sum[GATES][4] = {};
      const char* rows = shared.h[buffer] + first * PITCH(PADDED) + split * (PADDED / SPLITS) * BYTES;
      multiply<GATES>(sum, tiles, rows, PITCH(PADDED), lane);
#pragma unroll
      for (int gate = 0; gate < GATES; ++gate)
#pragma unroll
        for (int c = 0; c < 4; ++c)
          shared.sums[buffer][split][gate][first + 2 * (lane % 4) + c % 2][group * 16 + lane / 4 + 8 * (c / 2)] =
              sum[gate][c];
    }
    __syncthreads();
    float recurrent[GATES];
#pragma unroll
    for (int gate = 0; gate < GATES; ++gate) {
      recurrent[gate] = shared.sums[buffer][0][gate][warp][lane];
#pragma unroll
      for (int part = 1; part < SPLITS; ++part) recurrent[gate] += shared.sums[buffer][part][gate][warp][lane];
    }
    const bool running = t < length;
    state.step(x, recurrent, running);
    if (i + 1 < sizes.time)
      send_hidden(state.hidden(), h_row + next * (u32)sizeof(shared.h[0]), arrived + 8 * next, rank, lane);
    if (running) state.carry_on();
    Unit::record(alone(state), unit_memory, active, running, t, sizes.batch, row, unit);
    if (i + 1 == sizes.time) return false;
    fetch(i + 2);
    return true;
  };
  for (int i = 0; step(Constant<0>{}, i) && step(Constant<1>{}, i + 1);) i += 2;
  state.finish(unit_memory, active, row, unit);
  cluster_sync();  // no block exits while another one may still write to its shared memory
}

// ---------------------------------------------------------------- backward

#define OWN_GATES (GATES * OWN)
#define BACKWARD_TILES (PADDED / 16 / WARPS)
#define BACKWARD_SPANS (OWN_GATES / SPAN)
#define PART_PITCH (ROWS + 2)  // floats from unit to unit in `parts`

struct BackwardShared {
  alignas(16) char gates[2][ROWS * PITCH(OWN_GATES)];
  alignas(16) float parts[2][CLUSTER][OWN][PART_PITCH];
  u64 arrived[2];
};

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, BLOCKS_AT_ONCE)
    backward(const Stored* weight, UnitBackward unit_memory, const long long* lengths, Sizes sizes) {
  extern __shared__ __align__(16) char memory[];
  BackwardShared& shared = *(BackwardShared*)memory;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const u32 rank = block_rank();
  const u32 arrived = shared_address(shared.arrived);
  const u32 bytes = CLUSTER * OWN * ROWS * 4;

  Tile<BACKWARD_SPANS> tiles[BACKWARD_TILES];
#pragma unroll
  for (int m = 0; m < BACKWARD_TILES; ++m)
    tiles[m].load(lane, [&](int row, int k) {
      const int to = (warp * BACKWARD_TILES + m) * 16 + row, unit = rank * OWN + k % OWN;
      return unit < H && to < H ? as_float(weight[(k / OWN * (long long)H + unit) * H + to]) : 0.0f;
    });

  const int unit = rank * OWN + lane, row = blockIdx.x / CLUSTER * ROWS + warp;
  const bool active = unit < H && row < sizes.batch;
  const int length = active ? sizes.length(lengths, row) : 0;
  UnitGradient state;
  state.prepare(unit_memory, active, unit);
  state.start(unit_memory, active, row, unit);

  open_barriers(arrived, 2, bytes);

  float d_hidden = state.first();
  bool was_running = false;
  // Values are loaded a whole step before their factors are computed, while parts of dh are on their
  // way. The loads of two steps at once would be waited for together: they share a counter.
  UnitGradient::Values<1> values = {};
  UnitGradient::Factors factors;
  const auto fetch = [&](int i) {
    factors = state.factors(values, 0);
    __syncwarp();
    const int t = sizes.backward_time(i);
    UnitGradient::fetch(values, unit_memory, active && i < sizes.time, t, sizes.time_before(t), length,
                        sizes.batch, row, unit);
  };
  fetch(0);
  fetch(1);

  const auto receive = [&](int buffer, int i) {
    barrier_wait(arrived + 8 * buffer, (i >> 1) & 1);
    if (threadIdx.x == 0) barrier_expect(arrived + 8 * buffer, bytes);
    float total = shared.parts[buffer][0][lane][warp];
#pragma unroll
    for (int source = 1; source < CLUSTER; ++source) total += shared.parts[buffer][source][lane][warp];
    if (was_running) d_hidden = state.carried() + total;
  };
  for (int i = 0;; ++i) {
    const int buffer = i & 1;
    if (i > 0) receive(buffer ^ 1, i - 1);
    const int t = sizes.backward_time(i);
    const bool running = t < length;
    float d_gates[GATES];
    state.step(factors, d_hidden, running, d_gates);
#pragma unroll
    for (int gate = 0; gate < GATES; ++gate)
      store_operand(shared.gates[buffer] + warp * PITCH(OWN_GATES), gate * OWN + lane, d_gates[gate]);
    __syncthreads();
#pragma unroll
    for (int first = 0; first < ROWS; first += 8) {
      float sum[BACKWARD_TILES][4] = {};
      multiply<BACKWARD_TILES>(sum, tiles, shared.gates[buffer] + first * PITCH(OWN_GATES), PITCH(OWN_GATES), lane);
#pragma unroll
      for (int m = 0; m < BACKWARD_TILES; ++m) {
        const int to = (warp * BACKWARD_TILES + m) * 16, target = to / OWN;
        const u32 barrier = in_block(arrived + 8 * buffer, target);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float* part = &shared.parts[buffer][rank][to % OWN + lane / 4 + 8 * half][first + 2 * (lane % 4)];
          send8(in_block(shared_address(part), target), barrier, __float_as_uint(sum[m][2 * half]),
                __float_as_uint(sum[m][2 * half + 1]));
        }
      }
    }
    UnitGradient::record(alone(state), unit_memory, active, t, sizes.batch, row, unit);
    was_running = running;
    if (i + 1 == sizes.time) break;
    fetch(i + 2);
  }
  receive((sizes.time - 1) & 1, sizes.time - 1);
  state.finish(unit_memory, active, d_hidden, row, unit);
  cluster_sync();
}

extern "C" __device__ int shared_bytes[2] = {sizeof(ForwardShared), sizeof(BackwardShared)};
