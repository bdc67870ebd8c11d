// One direction of one layer over time, forward and backward, for any unit.
//
// Compiled after vectors.cpp and the text of a unit (text.py), which defines:
//   X_ONLY, BOTH, H_ONLY  gates by what they see: W x, W x + W h, W h. They are stored in this order,
//                         so that W x and W h are each one matrix product
//   STATES                values that a unit carries from step to step
//   SEQUENCES, VALUES     of every step, parts of the state and other values that are kept
//   SEQUENCE_OF           for each part of the state: where a backward step finds it; 0 the output,
//                         k the sequence k - 1, -1 nowhere
//   WEIGHTS               learned values of a unit that are the same at every step
//   BLOCKS                gradients of a step: of the gates in their order, then of weights
//   STARTS                for each part of the state: the unit's own start
//   step, hidden_of, gradient, start_gradient
//
// Vectors run over units: one block of lanes holds every gate of its units. So the unit's
// mathematics follows the matrix product without a trip through main memory. Threads split the batch
// once for the whole sequence and then never wait for each other. If the batch is too small for that,
// they split the units, and each step waits for the step before.

constexpr int FROM_X = X_ONLY + BOTH, FROM_H = BOTH + H_ONLY, GATES = X_ONLY + BOTH + H_ONLY;
constexpr int at_least_one(int count) { return count > 0 ? count : 1; }

struct Sizes {
  int64_t time, batch, units, inputs;
  int32_t reverse, threads;

  int64_t time_of(int64_t index) const { return reverse ? time - 1 - index : index; }
};

inline int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t max(int64_t a, int64_t b) { return a > b ? a : b; }

// ---- Products with weights packed into panels of vectors ----

// Gates that are multiplied at once, of so many, and rows: the sums, the weights of the gates and a
// factor have to fit in the registers.
constexpr int panel_of(int gates) {
  const int widest = REGISTERS > 16 ? 4 : gates % 3 && gates > 3 ? 2 : 3;
  return gates < widest ? gates : widest;
}
constexpr int rows_at_once(int panel) {
  const int room = (REGISTERS - 1 - panel) / at_least_one(panel);
  return room > 8 ? 8 : room;
}
constexpr int BACK = 2;  // vectors in a panel of the backward product
constexpr int FORWARD_ROWS = rows_at_once(panel_of(FROM_H)), BACKWARD_ROWS = rows_at_once(BACK);
constexpr int MOST_ROWS = FORWARD_ROWS > BACKWARD_ROWS ? FORWARD_ROWS : BACKWARD_ROWS;

// A panel is [k][PANEL vectors]; acc[i] += rows[i] * panel, where acc has WIDTH vectors in a row.
template <int ROWS, int PANEL, int WIDTH>
inline void product_of(const T* rows, int64_t stride, const T* panel, int64_t depth, V* acc) {
  V sum[ROWS][PANEL];
  for (int i = 0; i < ROWS; ++i)
    for (int j = 0; j < PANEL; ++j) sum[i][j] = acc[i * WIDTH + j];
  const V* weights = (const V*)panel;
  for (int64_t k = 0; k < depth; ++k, weights += PANEL)
    for (int i = 0; i < ROWS; ++i)
      for (int j = 0; j < PANEL; ++j) sum[i][j] += rows[i * stride + k] * weights[j];
  for (int i = 0; i < ROWS; ++i)
    for (int j = 0; j < PANEL; ++j) acc[i * WIDTH + j] = sum[i][j];
}

template <int PANEL, int WIDTH, int ROWS = MOST_ROWS>
inline void product(int rows, const T* source, int64_t stride, const T* panel, int64_t depth, V* acc) {
  if (rows == ROWS) return product_of<ROWS, PANEL, WIDTH>(source, stride, panel, depth, acc);
  if constexpr (ROWS > 1) product<PANEL, WIDTH, ROWS - 1>(rows, source, stride, panel, depth, acc);
}

// The same for all gates of a block, from the weights as pack_gates has packed them.
template <int COUNT, int WIDTH, int FIRST = 0>
inline void product_of_gates(int rows, const T* source, int64_t stride, const T* packed, int64_t blocks,
                             int64_t block, int64_t depth, V* acc) {
  if constexpr (FIRST < COUNT) {
    constexpr int PANEL = COUNT - FIRST < panel_of(COUNT) ? COUNT - FIRST : panel_of(COUNT);
    const T* panel = packed + (FIRST * blocks + block * PANEL) * depth * LANES;
    product<PANEL, WIDTH>(rows, source, stride, panel, depth, acc + FIRST);
    product_of_gates<COUNT, WIDTH, FIRST + PANEL>(rows, source, stride, packed, blocks, block, depth, acc);
  }
}

// Four neighbouring lanes, and the vector with the sums of four vectors.
typedef T Four __attribute__((vector_size(4 * sizeof(T)), aligned(sizeof(T)), may_alias));

inline Four folded(V x) {
  Four sum = {};
  if constexpr (LANES < 4) sum = Four{x[0], x[1]};
  for (int k = 0; k < LANES / 4; ++k) sum += ((const Four*)&x)[k];
  return sum;
}

inline Four totals(const V* x) {
  const Four p = folded(x[0]), q = folded(x[1]), r = folded(x[2]), s = folded(x[3]);
  const Four pq = Four{p[0], q[0], p[1], q[1]} + Four{p[2], q[2], p[3], q[3]};
  const Four rs = Four{r[0], s[0], r[1], s[1]} + Four{r[2], s[2], r[3], s[3]};
  return Four{pq[0], pq[1], rs[0], rs[1]} + Four{pq[2], pq[3], rs[2], rs[3]};
}

// For fewer rows and steps, packing costs more than it saves. Measured at 64 and at 250 units.
constexpr int WORTH_PACKING = REGISTERS > 16 ? 16 : 8;

// The same with weights that are not packed, (PANEL * units, depth).
template <int PANEL, int WIDTH, int ROWS = (REGISTERS > 16 ? 4 : 2)>
inline void product_unpacked(int rows, const T* source, int64_t stride, const T* weight, int64_t units,
                             int64_t unit, int lanes, int64_t depth, V* acc) {
  if constexpr (ROWS > 1)
    if (rows < ROWS)
      return product_unpacked<PANEL, WIDTH, ROWS - 1>(rows, source, stride, weight, units, unit, lanes, depth, acc);
  constexpr int UNITS = ROWS == 1 && LANES > 4 ? 8 : 4;
  for (int j = 0; j < PANEL; ++j)
    for (int lane = 0; lane < lanes; lane += UNITS) {
      const T* from[UNITS];
      for (int u = 0; u < UNITS; ++u) from[u] = weight + (j * units + unit + min(lane + u, lanes - 1)) * depth;
      V sum[ROWS][UNITS] = {};
      const auto add = [&](int64_t k, int width) {
        for (int i = 0; i < ROWS; ++i)
          for (int u = 0; u < UNITS; ++u) sum[i][u] += load(source + i * stride + k, width) * load(from[u] + k, width);
      };
      int64_t k = 0;
      for (; k + LANES <= depth; k += LANES) add(k, LANES);
      if (k < depth) add(k, (int)(depth - k));
      for (int i = 0; i < ROWS; ++i)
        for (int u = 0; u < UNITS; u += 4) {
          const Four found = totals(sum[i] + u);
          V& to = acc[i * WIDTH + j];
          if constexpr (LANES < 4) to += V{found[0], found[1]};
          else ((Four*)&to)[(lane + u) / 4] += found;
        }
    }
  if (rows > ROWS)
    product_unpacked<PANEL, WIDTH, ROWS>(rows - ROWS, source + ROWS * stride, stride, weight, units, unit, lanes,
                                         depth, acc + ROWS * WIDTH);
}

inline int64_t blocks_of(int64_t units) { return (units + LANES - 1) / LANES; }

// (gates * units, depth) -> panels over units: [panel of gates][block][k][gate][lane], for some blocks
inline void pack_gates(const T* weight, int gates, int64_t units, int64_t depth, T* packed, int64_t begin,
                       int64_t end) {
  for (int first = 0; first < gates;) {
    const int panel = gates - first < panel_of(gates) ? gates - first : panel_of(gates);
    for (int64_t block = begin; block < end; ++block)
      for (int gate = 0; gate < panel; ++gate)
        for (int lane = 0; lane < LANES; ++lane) {
          const int64_t unit = block * LANES + lane;
          const T* from = weight + ((first + gate) * units + unit) * depth;
          T* to = packed + ((first * blocks_of(units) + block * panel) * depth + gate) * LANES + lane;
          for (int64_t k = 0; k < depth; ++k) to[k * panel * LANES] = unit < units ? from[k] : T(0);
        }
    first += panel;
  }
}

// (gates * units, units) -> panels over columns: [pair of blocks][row of weight][2 vectors]
inline void pack_columns(const T* weight, int64_t rows, int64_t units, T* packed, int64_t begin, int64_t end) {
  packed += begin * rows * BACK * LANES;
  for (int64_t pair = begin; pair < end; ++pair)
    for (int64_t k = 0; k < rows; ++k)
      for (int lane = 0; lane < BACK * LANES; ++lane) {
        const int64_t unit = pair * BACK * LANES + lane;
        *packed++ = unit < units ? weight[k * units + unit] : T(0);
      }
}

// ---- Memory ----

// Aligned memory that ends with its scope. Where there is none, `data` is null.
struct Memory {
  T* data;
  explicit Memory(int64_t count) : data(nullptr) {
    void* found = nullptr;
    if (!posix_memalign(&found, VECTOR_BYTES, sizeof(T) * max(count, 1))) data = (T*)found;
  }
  ~Memory() { free(data); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
};

// ---- Threads ----

// Threads that work on the same rows share the units of every step, and a step can begin when the
// one before is finished. A thread may be off its core for milliseconds when other processes want
// it. So nobody waits for a thread to arrive: each takes its own share first, and then those that
// their owners have not begun. Only a share that was begun is waited for.

// A cache line of its own: two counters in one line would slow each other down.
struct alignas(64) Counter {
  std::atomic<int64_t> value{0};
};

struct Counters {
  Counter *begun, *finished;
  explicit Counters(int threads) : begun(new Counter[threads]), finished(new Counter[threads]) {}
  ~Counters() {
    delete[] begun;
    delete[] finished;
  }
};

inline void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

// A few microseconds. A member that runs begins its share sooner, and looking at another member's
// counter would take the cache line from it.
constexpr int SPINS = 100;

// One thread's view of its team.
struct Member {
  Counter* begun;     // for each share, the rounds in which it was begun
  Counter* finished;  // shares finished, over all rounds
  int number, members;
  int64_t round;

  Member(Counters& counters, int team, int number, int members)
      : begun(counters.begun + team * members), finished(counters.finished + team), number(number),
        members(members), round(0) {}

  // Returns when work(share) was called for every share, here or by other members.
  template <class Work> inline void share(const Work& work) {
    if (members == 1) return work(0);
    const int64_t all_finished = (round + 1) * members;
    for (int64_t tries = 0;; ++tries) {
      const int candidate = (int)((number + tries) % members);
      if (begin(candidate)) {
        work(candidate);
        finished->value.fetch_add(1, std::memory_order_acq_rel);
      } else if (tries >= members) {
        sched_yield();  // all is begun: let those run that are at it
      }
      for (int spins = 0; spins < SPINS; ++spins) {
        if (finished->value.load(std::memory_order_acquire) >= all_finished) {
          ++round;
          return;
        }
        pause_briefly();
      }
    }
  }

  bool begin(int share) {
    std::atomic<int64_t>& rounds = begun[share].value;
    int64_t expected = round;
    return rounds.load(std::memory_order_relaxed) == expected &&
           rounds.compare_exchange_strong(expected, round + 1, std::memory_order_relaxed);
  }
};

// How the rows are split over teams, and the pairs of blocks of units over a team's members. Rows
// come first, because teams never wait for each other.
struct Division {
  int teams, members;
  int64_t batch, pairs;

  Division(int threads, int64_t batch, int64_t pairs)
      : teams((int)max(1, min(threads, batch / 8))), members((int)max(1, min(threads / teams, pairs / 2))),
        batch(batch), pairs(pairs) {}
  int64_t row(int team) const { return batch * team / teams; }
  int64_t pair(int share) const { return pairs * share / members; }
};

// No more threads than have work, and one for so few products: where other processes want the cores, a
// short call would wait for its second thread many times as long as it takes.
constexpr int64_t FEW_PRODUCTS = 1 << 20;
template <class Body>
void in_parallel(int threads, int64_t products, int64_t batch, int64_t pairs, const Body& body) {
  const Division needed(threads, batch, pairs);
  threads = products < FEW_PRODUCTS ? 1 : needed.teams * needed.members;
#ifdef _OPENMP
  if (threads > 1) {
#pragma omp parallel num_threads(threads)
    body(omp_get_thread_num(), omp_get_num_threads());
    return;
  }
#endif
  body(0, 1);
}

struct Tiles {  // groups of rows of nearly equal size, each small enough for the registers
  int64_t begin, rows, count;
  Tiles(int64_t begin, int64_t end, int most)
      : begin(begin), rows(end - begin), count((end - begin + most - 1) / most) {}
  int64_t start(int64_t tile) const { return begin + rows * tile / count; }
};

// ---- Forward ----

struct Forward {
  const T *input, *input_weight, *bias, *weight;  // null input_weight: the input is W x + b already
  const int64_t* lengths;                         // null: every row runs to the end
  T *output, *saved;                              // null saved: there is no backward pass
  const T* start[STATES];                         // null: the unit's own start
  T* state[STATES];
  T* sequences[at_least_one(SEQUENCES)];
  const T* weights[at_least_one(WEIGHTS)];
};

struct Packed {
  bool is_packed;
  T *recurrent, *from_x, *x_only, *hidden[2];
};

// The gates of some rows and one block of units, before their non-linearities.
inline void gates_of(const Forward& x, const Sizes& n, const Packed& panels, const T* h, int64_t t,
                     int64_t first, int rows, int64_t block, int lanes, V* gates) {
  const int64_t H = n.units, unit = block * LANES;
  const int64_t width = x.input_weight ? n.inputs : FROM_X * H;
  const T* in = x.input + (t * n.batch + first) * width;
  if (x.input_weight) {
    for (int j = 0; j < FROM_X; ++j) {
      const V bias = x.bias ? load(x.bias + j * H + unit, lanes) : all(0);
      for (int i = 0; i < rows; ++i) gates[i * GATES + j] = bias;
    }
    if (panels.is_packed) {
      product_of_gates<X_ONLY, GATES>(rows, in, width, panels.x_only, blocks_of(H), block, width, gates);
      product_of_gates<BOTH, GATES>(rows, in, width, panels.from_x, blocks_of(H), block, width, gates + X_ONLY);
    } else {
      product_unpacked<FROM_X, GATES>(rows, in, width, x.input_weight, H, unit, lanes, width, gates);
    }
  } else {
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < FROM_X; ++j) gates[i * GATES + j] = load(in + i * width + j * H + unit, lanes);
  }
  for (int i = 0; i < rows; ++i)
    for (int j = FROM_X; j < GATES; ++j) gates[i * GATES + j] = all(0);
  const T* source = h + first * H;
  if (panels.is_packed)
    product_of_gates<FROM_H, GATES>(rows, source, H, panels.recurrent, blocks_of(H), block, H, gates + X_ONLY);
  else
    product_unpacked<FROM_H, GATES>(rows, source, H, x.weight, H, unit, lanes, H, gates + X_ONLY);
}

// One step for the rows of `tiles` and the blocks of units from `block_begin` to `block_end`.
inline void forward_step(const Forward& x, const Sizes& n, const Packed& panels, const Tiles& tiles,
                         int64_t index, int64_t block_begin, int64_t block_end) {
  const int64_t H = n.units, t = n.time_of(index);
  const T* h_before = panels.hidden[index % 2];
  T* h_after = panels.hidden[1 - index % 2];
  for (int64_t block = block_begin; block < block_end; ++block) {
    const int64_t unit = block * LANES;
    const int lanes = (int)min(LANES, H - unit);
    V weights[at_least_one(WEIGHTS)];
    for (int k = 0; k < WEIGHTS; ++k) weights[k] = load(x.weights[k] + unit, lanes);
    for (int64_t tile = 0; tile < tiles.count; ++tile) {
      const int64_t first = tiles.start(tile);
      const int rows = (int)(tiles.start(tile + 1) - first);
      V gates[MOST_ROWS * GATES];
      gates_of(x, n, panels, h_before, t, first, rows, block, lanes, gates);
      for (int i = 0; i < rows; ++i) {
        const int64_t row = first + i, place = row * H + unit;
        const int64_t out = (t * n.batch + row) * H + unit;
        T* saved = x.saved ? x.saved + (t * n.batch + row) * VALUES * H + unit : nullptr;
        if (x.lengths && t >= x.lengths[row]) {
          store(h_after + place, load(h_before + place, lanes), lanes);
          store(x.output + out, all(0), lanes);
          for (int k = 0; saved && k < SEQUENCES; ++k) store(x.sequences[k] + out, all(0), lanes);
          for (int k = 0; saved && k < VALUES; ++k) store(saved + k * H, all(0), lanes);
          continue;
        }
        V state[STATES], sequences[at_least_one(SEQUENCES)], values[at_least_one(VALUES)], h, o;
        for (int k = 0; k < STATES; ++k) state[k] = load(x.state[k] + place, lanes);
        step(gates + i * GATES, weights, state, sequences, values, h, o);
        for (int k = 0; k < STATES; ++k) store(x.state[k] + place, state[k], lanes);
        store(h_after + place, h, lanes);
        store(x.output + out, o, lanes);
        if (saved) {
          for (int k = 0; k < SEQUENCES; ++k) store(x.sequences[k] + out, sequences[k], lanes);
          for (int k = 0; k < VALUES; ++k) store(saved + k * H, values[k], lanes);
        }
      }
    }
  }
}

inline void forward_rows(const Forward& x, const Sizes& n, const Packed& panels, const Division& division,
                         int team, Member& member) {
  const Tiles tiles(division.row(team), division.row(team + 1), FORWARD_ROWS);
  const int64_t blocks = blocks_of(n.units);
  for (int64_t index = 0; index < n.time; ++index)
    member.share([&](int share) {
      forward_step(x, n, panels, tiles, index, division.pair(share) * BACK,
                   min(division.pair(share + 1) * BACK, blocks));
    });
}

// The state before the first step, and the h that it gives.
inline void begin_rows(const Forward& x, const Sizes& n, T* hidden, int64_t row_begin, int64_t row_end) {
  const int64_t H = n.units;
  for (int64_t row = row_begin; row < row_end; ++row)
    for (int64_t unit = 0; unit < H; unit += LANES) {
      const int lanes = (int)min(LANES, H - unit);
      V state[STATES];
      for (int k = 0; k < STATES; ++k) {
        state[k] = x.start[k] ? load(x.start[k] + row * H + unit, lanes) : all(STARTS[k]);
        store(x.state[k] + row * H + unit, state[k], lanes);
      }
      store(hidden + row * H + unit, hidden_of(state), lanes);
    }
}

bool run_forward(const Forward& x, const Sizes& n) {
  const int64_t H = n.units, state = n.batch * H, inputs = x.input_weight ? n.inputs : 0;
  const int64_t blocks = blocks_of(H), pairs = (blocks + BACK - 1) / BACK;
  Packed panels;
  panels.is_packed = n.time * n.batch >= WORTH_PACKING;
  const int64_t packed = panels.is_packed ? blocks * LANES : 0;  // units, padded to whole vectors
  Memory memory(packed * (H * FROM_H + inputs * FROM_X) + 2 * state);
  if (!memory.data) return false;
  panels.recurrent = memory.data;
  panels.from_x = panels.recurrent + packed * H * FROM_H;
  panels.x_only = panels.from_x + packed * inputs * BOTH;
  panels.hidden[0] = panels.x_only + packed * inputs * X_ONLY;
  panels.hidden[1] = panels.hidden[0] + state;
  Counters for_packing(n.threads), for_steps(n.threads);
  in_parallel(n.threads, n.time * state * (H * FROM_H + inputs * FROM_X), n.batch, pairs, [&](int thread, int threads) {
    Member(for_packing, 0, thread, threads).share([&](int share) {
      const int64_t begin = blocks * share / threads, end = blocks * (share + 1) / threads;
      if (panels.is_packed) {
        pack_gates(x.weight, FROM_H, H, H, panels.recurrent, begin, end);
        pack_gates(x.input_weight, X_ONLY, H, inputs, panels.x_only, begin, end);
        pack_gates(x.input_weight + X_ONLY * H * inputs, BOTH, H, inputs, panels.from_x, begin, end);
      }
      begin_rows(x, n, panels.hidden[0], n.batch * share / threads, n.batch * (share + 1) / threads);
    });
    const Division division(threads, n.batch, pairs);
    const int team = thread / division.members;
    if (team >= division.teams) return;
    Member member(for_steps, team, thread % division.members, division.members);
    forward_rows(x, n, panels, division, team, member);
  });
  return true;
}

// ---- Backward ----

struct Backward {
  const T *d_output, *weight, *output, *saved;
  const int64_t* lengths;
  T* d_blocks;                        // (time, batch, BLOCKS * units)
  const T* d_final[STATES];           // null: zeros
  const T* start[STATES];
  T* d_state[STATES];                 // becomes the gradient of the start
  const T* sequences[at_least_one(SEQUENCES)];
  const T* weights[at_least_one(WEIGHTS)];
};

// The gradients of one step's gates, from what came back to its output, its h and its state.
inline void backward_gates(const Backward& x, const Sizes& n, T* d_hidden, int64_t index, int64_t row_begin,
                           int64_t row_end, int64_t block_begin, int64_t block_end) {
  const int64_t H = n.units, t = n.time_of(index), before = n.reverse ? t + 1 : t - 1;
  for (int64_t row = row_begin; row < row_end; ++row) {
    const int64_t length = x.lengths ? x.lengths[row] : n.time;
    const bool running = t < length, is_first = n.reverse ? t == length - 1 : t == 0;
    for (int64_t block = block_begin; block < block_end; ++block) {
      const int64_t unit = block * LANES, place = row * H + unit;
      const int lanes = (int)min(LANES, H - unit);
      T* d_blocks = x.d_blocks + (t * n.batch + row) * BLOCKS * H + unit;
      if (!running) {
        for (int k = 0; k < BLOCKS; ++k) store(d_blocks + k * H, all(0), lanes);
        continue;
      }
      const int64_t out = (t * n.batch + row) * H + unit, out_before = (before * n.batch + row) * H + unit;
      V after[STATES], old[STATES], d_state[STATES];
      for (int k = 0; k < STATES; ++k) {
        d_state[k] = load(x.d_state[k] + place, lanes);
        if (SEQUENCE_OF[k] < 0) continue;
        const T* sequence = SEQUENCE_OF[k] ? x.sequences[SEQUENCE_OF[k] - 1] : x.output;
        after[k] = load(sequence + out, lanes);
        if (!is_first) old[k] = load(sequence + out_before, lanes);
        else old[k] = x.start[k] ? load(x.start[k] + place, lanes) : all(STARTS[k]);
      }
      V values[at_least_one(VALUES)], weights[at_least_one(WEIGHTS)], blocks[BLOCKS], carried;
      for (int k = 0; k < VALUES; ++k)
        values[k] = load(x.saved + (t * n.batch + row) * VALUES * H + unit + k * H, lanes);
      for (int k = 0; k < WEIGHTS; ++k) weights[k] = load(x.weights[k] + unit, lanes);
      gradient(values, weights, after, old, load(x.output + out, lanes), load(x.d_output + out, lanes),
               load(d_hidden + place, lanes), d_state, carried, blocks);
      for (int k = 0; k < STATES; ++k) store(x.d_state[k] + place, d_state[k], lanes);
      for (int k = 0; k < BLOCKS; ++k) store(d_blocks + k * H, blocks[k], lanes);
      store(d_hidden + place, carried, lanes);
    }
  }
}

// The gradient of the h that a step read: its gates' gradients through the recurrent weights, added
// to what reached it past the gates.
inline void backward_hidden(const Backward& x, const Sizes& n, const T* packed, T* d_hidden, const Tiles& tiles,
                            int64_t index, int64_t pair_begin, int64_t pair_end) {
  const int64_t H = n.units, row_size = BLOCKS * H, t = n.time_of(index);
  for (int64_t pair = pair_begin; pair < pair_end; ++pair)
    for (int64_t tile = 0; tile < tiles.count; ++tile) {
      const int64_t first = tiles.start(tile);
      const int rows = (int)(tiles.start(tile + 1) - first);
      V acc[MOST_ROWS * BACK] = {};
      product<BACK, BACK>(rows, x.d_blocks + (t * n.batch + first) * row_size + X_ONLY * H, row_size,
                          packed + pair * FROM_H * H * BACK * LANES, FROM_H * H, acc);
      for (int i = 0; i < rows; ++i) {
        if (x.lengths && t >= x.lengths[first + i]) continue;
        for (int j = 0; j < BACK; ++j) {
          const int64_t unit = (pair * BACK + j) * LANES;
          const int lanes = (int)min(LANES, H - unit);
          if (lanes <= 0) continue;
          T* place = d_hidden + (first + i) * H + unit;
          store(place, load(place, lanes) + acc[i * BACK + j], lanes);
        }
      }
    }
}

// The gradient of the first h goes on to the start.
inline void backward_start(const Backward& x, const Sizes& n, const T* d_hidden, int64_t row_begin,
                           int64_t row_end, int64_t block_begin, int64_t block_end) {
  for (int64_t row = row_begin; row < row_end; ++row)
    for (int64_t block = block_begin; block < block_end; ++block) {
      const int64_t unit = block * LANES, place = row * n.units + unit;
      const int lanes = (int)min(LANES, n.units - unit);
      V start[STATES], d_state[STATES];
      for (int k = 0; k < STATES; ++k) {
        start[k] = x.start[k] ? load(x.start[k] + place, lanes) : all(STARTS[k]);
        d_state[k] = load(x.d_state[k] + place, lanes);
      }
      start_gradient(start, load(d_hidden + place, lanes), d_state);
      for (int k = 0; k < STATES; ++k) store(x.d_state[k] + place, d_state[k], lanes);
    }
}

inline void backward_rows(const Backward& x, const Sizes& n, const T* packed, T* d_hidden,
                          const Division& division, int team, Member& member) {
  const int64_t row_begin = division.row(team), row_end = division.row(team + 1);
  const int64_t blocks = blocks_of(n.units);
  const Tiles tiles(row_begin, row_end, BACKWARD_ROWS);
  // The gradient of h needs the gates' gradients of all units; a gate's gradient needs only the
  // gradient of h of its own unit. So h of one step and the gates of the step before make one round.
  for (int64_t index = n.time - 1; index >= -1; --index)
    member.share([&](int share) {
      const int64_t pair_begin = division.pair(share), pair_end = division.pair(share + 1);
      const int64_t block_begin = pair_begin * BACK, block_end = min(pair_end * BACK, blocks);
      if (index + 1 < n.time) backward_hidden(x, n, packed, d_hidden, tiles, index + 1, pair_begin, pair_end);
      if (index >= 0) backward_gates(x, n, d_hidden, index, row_begin, row_end, block_begin, block_end);
      else backward_start(x, n, d_hidden, row_begin, row_end, block_begin, block_end);
    });
}

bool run_backward(const Backward& x, const Sizes& n) {
  const int64_t H = n.units, state = n.batch * H;
  const int64_t pairs = (blocks_of(H) + BACK - 1) / BACK;
  Memory packed(pairs * BACK * LANES * H * FROM_H), d_hidden(state);
  if (!packed.data || !d_hidden.data) return false;
  Counters for_packing(n.threads), for_steps(n.threads);
  in_parallel(n.threads, n.time * state * H * FROM_H, n.batch, pairs, [&](int thread, int threads) {
    Member(for_packing, 0, thread, threads).share([&](int share) {
      const int64_t begin = pairs * share / threads, end = pairs * (share + 1) / threads;
      pack_columns(x.weight, FROM_H * H, H, packed.data, begin, end);
      for (int64_t i = state * share / threads; i < state * (share + 1) / threads; ++i) {
        for (int k = 0; k < STATES; ++k) x.d_state[k][i] = x.d_final[k] ? x.d_final[k][i] : T(0);
        d_hidden.data[i] = HIDDEN_PART < 0 ? T(0) : x.d_state[HIDDEN_PART < 0 ? 0 : HIDDEN_PART][i];
      }
    });
    const Division division(threads, n.batch, pairs);
    const int team = thread / division.members;
    if (team >= division.teams) return;
    Member member(for_steps, team, thread % division.members, division.members);
    backward_rows(x, n, packed.data, d_hidden.data, division, team, member);
  });
  return true;
}

}  // namespace

// 0, or 1 if there was no memory for the packed weights.
extern "C" {
int rda_forward(const Forward* x, const Sizes* n) { return run_forward(*x, *n) ? 0 : 1; }
int rda_backward(const Backward* x, const Sizes* n) { return run_backward(*x, *n) ? 0 : 1; }
int rda_vector_bytes() { return VECTOR_BYTES; }
int rda_has_threads() {
#ifdef _OPENMP
  return 1;
#else
  return 0;
#endif
}
}
