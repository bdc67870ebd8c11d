// The engine `grid`: a recurrent layer over time with its weights in the shared memory of the whole
// GPU, in bf16 alone.
//
// Compiled at run time after hardware.cu, functions.cu, a unit, clusters.cu and the
// generated function `multiply`, whose text depends on the number of columns. Constants:
//   H         units of the layer
//   OWN       units of a block, 8 or 16
//   CLUSTER   blocks in a cluster
//   STEPS     k-steps of a block; a k-step is 16 values along k, the depth of one wgmma
//   TAIL      4 units each that are left after the k-steps of all blocks: forward alone, else 0
//   IN_MEMORY 1 if the blocks of a cluster exchange sums through global memory, because their
//             weights leave no room for it in shared memory
//   BACKWARD  1 to compile the backward kernel, 0 for the forward kernel
//
// A block has two warpgroups (chains), each with 64 rows of the batch of its own. A matrix multiply
// has these 64 rows, and all columns that the units of a cluster need. The blocks of a cluster
// split k between them. Each block sends every other one that block's columns of the sums, in the
// layout in which the tensor cores produce them: a thread holds all gates of a few units in two
// rows. It carries the state of these units through time. Its new h has the layout that the next
// multiply reads, 16 bytes a thread and k-step, and goes to all clusters through global memory. So
// blocks synchronise once a step in their cluster and once on the whole GPU. Each warpgroup
// synchronises only with those that have the same rows, and while one waits the other one works.

#define ROWS 64
#define CHAIN 128  // threads that work on the same rows
#define CHAINS 2
#define WIDE (OWN / 4)  // adjacent units of a thread, in each of its two rows
#define PLACES (2 * WIDE)
static_assert(H % WIDE == 0, "all units of a thread exist, or none");

struct Chunk {  // what one thread loads for one k-step: 8 bf16
  u32 part[4];
};

// ---------------------------------------------------------------- synchronisation on the whole GPU

__device__ __forceinline__ void chain_sync(int chain) { asm volatile("bar.sync %0, 128;" ::"r"(chain + 1) : "memory"); }

// A barrier between the same chain of all blocks: a counter in global memory.
struct Meeting {
  u32* counter;
  int chain;
  u32 target = 0;  // the value of the counter when all have arrived

  __device__ __forceinline__ void arrive() {
    target += gridDim.x;
    chain_sync(chain);
    if (threadIdx.x % CHAIN == 0)
      asm volatile("fence.acq_rel.gpu;\nred.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
  }

  __device__ __forceinline__ void await() const {
    if (threadIdx.x % CHAIN == 0) {
      u32 seen;
      do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(counter) : "memory");
      } while ((int)(seen - target) < 0);
    }
    chain_sync(chain);
  }
};

__device__ __forceinline__ Chunk load_chunk(const Chunk* from) {
  Chunk chunk;
  asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(chunk.part[0]), "=r"(chunk.part[1]), "=r"(chunk.part[2]), "=r"(chunk.part[3])
               : "l"(from));
  return chunk;
}

// The tensor cores give a thread two adjacent columns of every 8, in two rows, and take two adjacent
// values of every 8 along k. A column, and an index k, may stand for any unit. So both are numbered
// such that the units of a thread are adjacent.
__device__ __forceinline__ int unit_of(int column) { return column % 8 / 2 * WIDE + column / 8 * 2 + column % 2; }

__device__ __forceinline__ int unit_of_k(int k) { return k / OWN * OWN + unit_of(k % OWN); }

__device__ __forceinline__ constexpr int place_of(int row, int k) { return k / 2 * 4 + row * 2 + k % 2; }

// Write the values of one gate (or of h) where the next multiply reads them. Two blocks of 8 units
// share a k-step.
template <typename Value>
__device__ __forceinline__ void store_chunk(Chunk* to, int block, Value value) {
  if (block * OWN >= H) return;
  u32 pairs[WIDE];
#pragma unroll
  for (int i = 0; i < WIDE; ++i) pairs[i] = as_bf16_pair(value(i % 2, i / 2 * 2), value(i % 2, i / 2 * 2 + 1));
#if OWN == 16
  *(uint4*)to = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
#else
  ((uint2*)to)[block % 2] = make_uint2(pairs[0], pairs[1]);
#endif
}

// ---------------------------------------------------------------- matrix multiply

// The descriptor of B for wgmma. B is k-major without swizzle: 8 columns of 8 values along k are 128
// contiguous bytes.
template <int COLUMNS>
__device__ __forceinline__ u64 descriptor(u32 weights, int step) {
  const u32 start = weights + step * COLUMNS * 32;
  const u64 between_k = COLUMNS * 16 >> 4, between_columns = 128 >> 4;
  return (u64)((start & 0x3ffff) >> 4) | between_k << 16 | between_columns << 32;
}

template <int COLUMNS, typename Weight>
__device__ __forceinline__ void load_weights(unsigned short* shared, Weight weight) {
  for (int i = threadIdx.x; i < STEPS * 16 * COLUMNS; i += CHAIN * CHAINS) {
    const int k = i / COLUMNS, column = i % COLUMNS;
    const int place = (k / 8 * (COLUMNS / 8) + column / 8) * 64 + column % 8 * 8 + k % 8;
    shared[place] = weight(column, k);
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// sum = A B over the block's part of k. The chunks of A are loaded in groups, RING - 1 groups in
// advance. A thread waits for a whole group at once, because it can wait for only six different
// things.
#define GROUP 4
#define RING 4
#define GROUPS ((STEPS + GROUP - 1) / GROUP)
template <int COLUMNS>
__device__ __forceinline__ void product(float (&sum)[COLUMNS / 2], u32 weights, const Chunk* chunks) {
  Chunk a[RING][GROUP];
  const auto read = [&](int group) {
#pragma unroll
    for (int j = 0; j < GROUP; ++j)
      if (group * GROUP + j < STEPS) a[group % RING][j] = load_chunk(chunks + (group * GROUP + j) * CHAIN);
    __syncwarp();  // or the compiler would move the loads to where their values are used
  };
#pragma unroll
  for (int group = 0; group < RING - 1; ++group) read(group);
#pragma unroll
  for (int group = 0; group < GROUPS; ++group) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int j = 0; j < GROUP; ++j) {
      const int step = group * GROUP + j;
      if (step < STEPS) multiply(sum, a[group % RING][j].part, descriptor<COLUMNS>(weights, step), step > 0);
    }
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 1;" ::: "memory");
    if (group + RING - 1 < GROUPS) read(group + RING - 1);
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

#if TAIL
// The product of the last units, which are fewer than a k-step and have the shared memory that they
// need. The first block of a cluster adds it. Its registers are laid out as those of wgmma.
template <int COLUMNS>
struct Tail {
  uint2 weights[COLUMNS][TAIL];

  template <typename Weight>
  __device__ __forceinline__ void open(Weight weight) {
    for (int i = threadIdx.x; i < COLUMNS * TAIL; i += CHAIN * CHAINS) {
      const auto pair = [&](int k) {
        k += CLUSTER * STEPS * 16 + i % TAIL * 2;
        return (u32)weight(i / TAIL, k) | (u32)weight(i / TAIL, k + 1) << 16;
      };
      weights[i / TAIL][i % TAIL] = make_uint2(pair(0), pair(8));
    }
  }

  __device__ __forceinline__ void add(float (&sum)[COLUMNS / 2], const Chunk& a, int lane) const {
#pragma unroll
    for (int j = 0; j < COLUMNS / 8; ++j) {
      const uint2 b = lane % 4 < TAIL ? weights[j * 8 + lane / 4][lane % 4] : make_uint2(0, 0);
      mma(sum + 4 * j, a.part[0], a.part[1], a.part[2], a.part[3], b.x, b.y);
    }
  }
};
#endif

// ---------------------------------------------------------------- division of work

struct Place {
  int row, unit;  // unit is the first of the thread's adjacent units
  bool active;
};

struct Here {
  int chain, thread, block, rank;

  __device__ __forceinline__ Here()
      : chain(threadIdx.x / CHAIN), thread(threadIdx.x % CHAIN), block(blockIdx.x), rank(block_rank()) {}

  // Call `body` for both rows of the thread; `which` is 0 for the first and 1 for the second.
  template <typename Body>
  __device__ __forceinline__ void for_rows(int first_row, int batch, Body body) const {
#pragma unroll
    for (int which = 0; which < 2; ++which) {
      const int lane = thread % 32;
      const int row = first_row + thread / 32 * 16 + lane / 4 + which * 8;
      const int unit = block * OWN + lane % 4 * WIDE;
      body(which, Place{row, unit, row < batch && unit < H});
    }
  }

  __device__ __forceinline__ int first_of_cluster() const { return block / CLUSTER * CLUSTER * OWN; }
};

// Global memory through which all blocks exchange h, or the gradients of the gates. There are two
// buffers, because some blocks write the next step's values while others still read this step's.
struct Board {
  u32* counters;  // one for each chain
  Chunk* chunks;  // [2][CHAINS][CLUSTER * STEPS, and the tail][CHAIN]
  Chunk* sums;    // of the exchange through memory

  __device__ __forceinline__ Chunk* at(int turn, int step, const Here& here) const {
    const long long first = ((turn & 1) * CHAINS + here.chain) * (long long)(CLUSTER * STEPS + (TAIL > 0));
    return chunks + (first + step) * CHAIN + here.thread;
  }
};

// ---------------------------------------------------------------- exchange in the cluster

// Four sums in three words, each without its last 8 bits. What is left is still 128 times as fine
// as a bf16. The smaller messages leave room in shared memory for larger clusters, which read less.
__device__ __forceinline__ void pack(u32* words, const float* sums) {
  const u32 a = __float_as_uint(sums[0]), b = __float_as_uint(sums[1]);
  const u32 c = __float_as_uint(sums[2]), d = __float_as_uint(sums[3]);
  words[0] = __byte_perm(a, b, 0x5321);
  words[1] = __byte_perm(b, c, 0x6532);
  words[2] = __byte_perm(c, d, 0x7653);
}

__device__ __forceinline__ void add_packed(float* sums, const u32* words) {
  sums[0] += __uint_as_float(words[0] << 8);
  sums[1] += __uint_as_float(__byte_perm(words[0], words[1], 0x5430) & 0xffffff00u);
  sums[2] += __uint_as_float(__byte_perm(words[1], words[2], 0x4320) & 0xffffff00u);
  sums[3] += __uint_as_float(words[2] & 0xffffff00u);
}

// run: own = the sum over all blocks of the cluster of their parts of this block's columns, added
// in a fixed order. Through global memory nobody overwrites what is not read yet, because all blocks
// of a chain meet between two exchanges.
template <int EACH>
struct Exchange {
  static constexpr int CHUNKS = (EACH / 4 * 3 + 3) / 4;
  static constexpr u32 BYTES = IN_MEMORY ? 0 : (CLUSTER - 1) * CHUNKS * CHAIN * 16;
#if !IN_MEMORY
  alignas(16) Chunk parts[CHAINS][CLUSTER - 1][CHUNKS][CHAIN];
#endif
  u64 arrived[CHAINS];

  __device__ __forceinline__ void open() const {
    open_barriers(shared_address(arrived), CHAINS, BYTES, IN_MEMORY ? CLUSTER - 1 : 1);
  }

  __device__ __forceinline__ void run(float (&own)[EACH], const float (&sum)[CLUSTER * EACH], const Board& board,
                                      const Here& here, u32 parity) {
    const u32 barrier = shared_address(&arrived[here.chain]);
    const u32 rank = here.rank;  // a copy: of `here.rank` the compiler makes an index into an array in memory
    const auto place = [&](int owner, int slot, int j) {
#if IN_MEMORY
      const int first = ((here.block - rank + owner) * CHAINS + here.chain) * (CLUSTER - 1) + slot;
      return board.sums + (long long)first * CHUNKS * CHAIN + here.thread + j * CHAIN;
#else
      return &parts[here.chain][slot][j][here.thread];
#endif
    };
#pragma unroll
    for (int owner = 0; owner < CLUSTER; ++owner) {
      if (owner == rank) {
#pragma unroll
        for (int j = 0; j < EACH; ++j) own[j] = sum[owner * EACH + j];
        continue;
      }
      const int slot = rank < owner ? rank : rank - 1;
      u32 words[CHUNKS * 4] = {};
#pragma unroll
      for (int j = 0; j < EACH / 4; ++j) pack(words + 3 * j, sum + owner * EACH + 4 * j);
#pragma unroll
      for (int j = 0; j < CHUNKS; ++j) {
        const u32* four = words + 4 * j;
        Chunk* to = place(owner, slot, j);
        if (IN_MEMORY) *(uint4*)to = make_uint4(four[0], four[1], four[2], four[3]);
        else send16(in_block(shared_address(to), owner), in_block(barrier, owner), four[0], four[1], four[2], four[3]);
      }
    }
    if (IN_MEMORY) chain_sync(here.chain);
    if (IN_MEMORY && here.thread < CLUSTER && here.thread != rank) barrier_arrive(in_block(barrier, here.thread));
    barrier_wait(barrier, parity);
    if (!IN_MEMORY && here.thread == 0) barrier_expect(barrier, BYTES);
#pragma unroll
    for (int slot = 0; slot < CLUSTER - 1; ++slot) {
      u32 words[CHUNKS * 4];
#pragma unroll
      for (int j = 0; j < CHUNKS; ++j) {
        const Chunk* from = place(rank, slot, j);
        if (IN_MEMORY) *(Chunk*)(words + 4 * j) = load_chunk(from);
        else *(uint4*)(words + 4 * j) = *(const uint4*)from;
      }
#pragma unroll
      for (int j = 0; j < EACH / 4; ++j) add_packed(own + 4 * j, words + 3 * j);
    }
  }
};

// A block's shared memory: its weights for the whole sequence, and what its cluster sends it.
template <int COLUMNS, int EACH>
struct Shared {
  alignas(128) unsigned short weights[STEPS * 16 * COLUMNS];
  Exchange<EACH> exchange;
#if TAIL
  Tail<COLUMNS> tail;
#endif

  template <typename Weight>
  __device__ __forceinline__ void open(Weight weight) {
    load_weights<COLUMNS>(weights, weight);
#if TAIL
    tail.open(weight);
#endif
    exchange.open();
  }

  // Multiply everything that was written to the board for this turn with the weights; `own` gets
  // this block's columns.
  __device__ __forceinline__ void multiply_all(float (&own)[EACH], const Board& board, int turn, u32 exchanged,
                                               const Here& here) {
    float sum[COLUMNS / 2];
#if TAIL
    const Chunk rest = load_chunk(board.at(turn, CLUSTER * STEPS, here));
#endif
    product<COLUMNS>(sum, shared_address(weights), board.at(turn, here.rank * STEPS, here));
#if TAIL
    if (here.rank == 0) tail.add(sum, rest, here.thread % 32);
#endif
    exchange.run(own, sum, board, here, exchanged & 1);
  }
};

// ---------------------------------------------------------------- forward

#if !BACKWARD
#define EACH_GATES (GATES * PLACES)
typedef Shared<CLUSTER * GATES * OWN, EACH_GATES> ForwardShared;

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(CHAIN * CHAINS, 1)
    forward(const Stored* input, const Stored* weight, UnitForward at, const long long* lengths, Sizes sizes,
            Board board) {
  extern __shared__ __align__(128) char memory[];
  ForwardShared& shared = *(ForwardShared*)memory;
  const Here here;
  const int first_unit = here.first_of_cluster();
  shared.open([&](int column, int k) -> unsigned short {
    const int unit = first_unit + column / (GATES * OWN) * OWN + unit_of(column % OWN), gate = column / OWN % GATES;
    const int from = (here.rank * STEPS + k / 16) * 16 + unit_of_k(k % 16);
    return unit < H && from < H ? weight[(gate * (long long)H + unit) * H + from] : 0;
  });

  Meeting meeting = {board.counters + here.chain, here.chain};
  u32 exchanged = 0;  // how often the chain has exchanged sums in its cluster
  for (int first_row = here.chain * ROWS; first_row < sizes.batch; first_row += CHAINS * ROWS) {
    Unit states[2][WIDE];
    int length[2];
    here.for_rows(first_row, sizes.batch, [&](int which, const Place& p) {
      length[which] = p.active ? sizes.length(lengths, p.row) : 0;
#pragma unroll
      for (int k = 0; k < WIDE; ++k) {
        states[which][k].prepare(at, p.active, p.unit + k);
        states[which][k].start(at, p.active, p.row, p.unit + k);
      }
    });
    const auto publish = [&](int turn) {
      store_chunk(board.at(turn, here.block * OWN / 16, here), here.block,
                  [&](int which, int k) { return states[which][k].hidden(); });
      meeting.arrive();
    };
    publish(0);
    for (int i = 0; i < sizes.time; ++i) {
      const int t = sizes.forward_time(i);
      Neighbours<WIDE> x[2][INPUTS];
      here.for_rows(first_row, sizes.batch, [&](int which, const Place& p) {
        const Stored* from = input + (t * (long long)sizes.batch + p.row) * INPUTS * H + p.unit;
#pragma unroll
        for (int n = 0; n < INPUTS; ++n) {
          x[which][n] = {};
          if (p.active) x[which][n] = load<WIDE>(from + n * H);
        }
      });
      meeting.await();
      float own[EACH_GATES];
      shared.multiply_all(own, board, i, exchanged++, here);
#pragma unroll
      for (int which = 0; which < 2; ++which)
#pragma unroll
        for (int k = 0; k < WIDE; ++k) {
          float given[INPUTS], recurrent[GATES];
#pragma unroll
          for (int n = 0; n < INPUTS; ++n) given[n] = x[which][n][k];
#pragma unroll
          for (int gate = 0; gate < GATES; ++gate) recurrent[gate] = own[gate * PLACES + place_of(which, k)];
          states[which][k].step(given, recurrent, t < length[which]);
        }
      if (i + 1 < sizes.time) publish(i + 1);
      here.for_rows(first_row, sizes.batch, [&](int which, const Place& p) {
        const bool running = t < length[which];
        if (running) {
#pragma unroll
          for (int k = 0; k < WIDE; ++k) states[which][k].carry_on();
        }
        Unit::record(states[which], at, p.active, running, t, sizes.batch, p.row, p.unit);
      });
    }
    here.for_rows(first_row, sizes.batch, [&](int which, const Place& p) {
#pragma unroll
      for (int k = 0; k < WIDE; ++k) states[which][k].finish(at, p.active, p.row, p.unit + k);
    });
    meeting.arrive();  // the next rows write to a buffer that other blocks may still read
    meeting.await();
  }
  cluster_sync();  // no block exits while another one may still write to its shared memory
}

extern "C" __device__ int shared_bytes[1] = {sizeof(ForwardShared)};

// ---------------------------------------------------------------- backward

#else
typedef Shared<CLUSTER * OWN, PLACES> BackwardShared;

// The order of k in the backward multiply: 16 units of one gate, then the same 16 units of the next
// gate, and after the last gate the next 16 units.
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(CHAIN * CHAINS, 1)
    backward(const Stored* weight, UnitBackward at, const long long* lengths, Sizes sizes, Board board) {
  extern __shared__ __align__(128) char memory[];
  BackwardShared& shared = *(BackwardShared*)memory;
  const Here here;
  const int first_unit = here.first_of_cluster();
  shared.open([&](int column, int k) -> unsigned short {
    const int step = here.rank * STEPS + k / 16, gate = step % GATES;
    const int unit = step / GATES * 16 + unit_of_k(k % 16);
    const int to = first_unit + column / OWN * OWN + unit_of(column % OWN);
    return unit < H && to < H ? weight[(gate * (long long)H + unit) * H + to] : 0;
  });

  Meeting meeting = {board.counters + here.chain, here.chain};
  u32 exchanged = 0;
  for (int first_row = here.chain * ROWS; first_row < sizes.batch; first_row += CHAINS * ROWS) {
    UnitGradient states[2][WIDE];
    UnitGradient::Values<WIDE> values[2];
    int length[2];
    float d_hidden[2][WIDE];
    const auto fetch = [&](int i) {
      const int t = sizes.backward_time(i);
      here.for_rows(first_row, sizes.batch, [&](int which, const Place& p) {
        UnitGradient::fetch(values[which], at, p.active && i < sizes.time, t, sizes.time_before(t),
                            length[which], sizes.batch, p.row, p.unit);
      });
    };
    here.for_rows(first_row, sizes.batch, [&](int which, const Place& p) {
      length[which] = p.active ? sizes.length(lengths, p.row) : 0;
#pragma unroll
      for (int k = 0; k < WIDE; ++k) {
        states[which][k].prepare(at, p.active, p.unit + k);
        states[which][k].start(at, p.active, p.row, p.unit + k);
        d_hidden[which][k] = states[which][k].first();
      }
    });
    fetch(0);
    for (int i = 0; i < sizes.time; ++i) {
      const int t = sizes.backward_time(i);
      float d_gates[2][WIDE][GATES];
#pragma unroll
      for (int which = 0; which < 2; ++which)
#pragma unroll
        for (int k = 0; k < WIDE; ++k)
          states[which][k].step(states[which][k].factors(values[which], k), d_hidden[which][k], t < length[which],
                                d_gates[which][k]);
#pragma unroll
      for (int gate = 0; gate < GATES; ++gate) {
        const int step = here.block * OWN / 16 * GATES + gate;
        store_chunk(board.at(i, step, here), here.block,
                    [&](int which, int k) { return d_gates[which][k][gate]; });
      }
      meeting.arrive();
      here.for_rows(first_row, sizes.batch, [&](int which, const Place& p) {
        UnitGradient::record(states[which], at, p.active, t, sizes.batch, p.row, p.unit);
      });
      fetch(i + 1);
      meeting.await();
      float own[PLACES];
      shared.multiply_all(own, board, i, exchanged++, here);
#pragma unroll
      for (int which = 0; which < 2; ++which)
#pragma unroll
        for (int k = 0; k < WIDE; ++k)
          if (t < length[which]) d_hidden[which][k] = states[which][k].carried() + own[place_of(which, k)];
    }
    here.for_rows(first_row, sizes.batch, [&](int which, const Place& p) {
#pragma unroll
      for (int k = 0; k < WIDE; ++k)
        states[which][k].finish(at, p.active, d_hidden[which][k], p.row, p.unit + k);
    });
    meeting.arrive();  // the next rows write to a buffer that other blocks may still read
    meeting.await();
  }
  cluster_sync();
}

extern "C" __device__ int shared_bytes[1] = {sizeof(BackwardShared)};
#endif
