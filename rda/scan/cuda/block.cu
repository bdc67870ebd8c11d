// The engine `block`: a recurrent layer over time in float32, one block for one or two rows of the
// batch.
//
// Compiled at run time after hardware.cu, functions.cu and a unit with the constants:
//   H        units of the layer
//   ROWS     rows of the batch in a block, 1 or 2
//   PRODUCT  see hardware.cu
//
// Tensor cores do not help small layers. A matrix multiply is a hundred cycles of plain arithmetic,
// and most of the time passes between one h and the next. Inside one block that exchange is only a
// store, a barrier and a load.
//
// Two lanes share a unit. Each holds half of the unit's weights in registers for the whole
// sequence. With two rows each lane computes the unit for one of them; with one row both lanes
// compute the same.

#define LANES 2
#define PADDED ((H + 15) / 16 * 16)
#define THREADS (PADDED * LANES)
#define AHEAD 4  // steps to load in advance: memory takes longer to answer than a step takes

// One lane's half of COUNT weight vectors, to multiply with ROWS vectors in shared memory. A
// quarter is 4 floats, which are 16 bytes. The two lanes take quarters in turn, so that their loads
// hit different banks. There are four partial sums for the row or pair of rows, so that no addition
// waits for the previous one.
template <int COUNT, int SIZE>
struct Part {
  static constexpr int QUARTERS = SIZE / 4 / LANES, CHAINS = 4 / ROWS;
  float held[COUNT][QUARTERS][4];

  template <typename Weight>
  __device__ __forceinline__ void load(int lane, Weight weight) {
#pragma unroll
    for (int n = 0; n < COUNT; ++n)
#pragma unroll
      for (int i = 0; i < QUARTERS; ++i)
#pragma unroll
        for (int c = 0; c < 4; ++c) held[n][i][c] = weight(n, 4 * (i * LANES + lane) + c);
  }

  __device__ __forceinline__ void multiply(float total[COUNT], const float (*rows)[SIZE], int lane) const {
    float sums[COUNT][ROWS][CHAINS] = {};
#pragma unroll
    for (int i = 0; i < QUARTERS; ++i)
#pragma unroll
      for (int row = 0; row < ROWS; ++row) {
        const float4 quarter = ((const float4*)rows[row])[i * LANES + lane];
        const float values[4] = {quarter.x, quarter.y, quarter.z, quarter.w};
#pragma unroll
        for (int n = 0; n < COUNT; ++n)
#pragma unroll
          for (int c = 0; c < 4; ++c) sums[n][row][c % CHAINS] += held[n][i][c] * values[c];
      }
#pragma unroll
    for (int n = 0; n < COUNT; ++n) {
      float of_row[ROWS];
#pragma unroll
      for (int row = 0; row < ROWS; ++row) {
        of_row[row] = sums[n][row][0];
#pragma unroll
        for (int chain = 1; chain < CHAINS; ++chain) of_row[row] += sums[n][row][chain];
      }
      const float mine = of_row[ROWS == 1 ? 0 : lane], others = of_row[ROWS == 1 ? 0 : lane ^ 1];
      total[n] = mine + __shfl_xor_sync(FULL, others, 1);
    }
  }
};

// The unit and the row of this thread, and whether this lane is the one that writes the results.
struct Place {
  int lane, unit, line, row;
  bool active, writes;

  __device__ __forceinline__ Place(const Sizes& sizes)
      : lane(threadIdx.x % LANES),
        unit(threadIdx.x / LANES),
        line(lane % ROWS),
        row(blockIdx.x * ROWS + line),
        active(unit < H && row < sizes.batch),
        writes(lane < ROWS) {}
};

template <typename Step>
__device__ __forceinline__ void for_all_steps(int time, Step step) {
  for (int i = 0; i < time; i += AHEAD) {
    step(Constant<0>{}, i);
    if (i + 1 < time) step(Constant<1>{}, i + 1);
    if (i + 2 < time) step(Constant<2>{}, i + 2);
    if (i + 3 < time) step(Constant<3>{}, i + 3);
  }
}

// ---------------------------------------------------------------- forward

extern "C" __global__ void __launch_bounds__(THREADS)
    forward(const Stored* input, const Stored* weight, UnitForward unit_memory, const long long* lengths, Sizes sizes) {
  __shared__ __align__(16) float h[2][ROWS][PADDED];
  const Place place(sizes);
  const int unit = place.unit, row = place.row;
  Part<GATES, PADDED> part;
  part.load(place.lane, [&](int gate, int k) {
    return unit < H && k < H ? weight[(gate * (long long)H + unit) * H + k] : 0.0f;
  });

  const int length = place.active ? sizes.length(lengths, row) : 0;
  Unit state{};
  state.prepare(unit_memory, place.active, unit);
  state.start(unit_memory, place.active, row, unit);
  if (place.writes) h[0][place.line][unit] = state.hidden();
  __syncthreads();

  float kept[AHEAD][INPUTS];
  const auto fetch = [&](float (&into)[INPUTS], int i) {
    const long long t = sizes.forward_time(i);
    const float* from = input + (t * sizes.batch + row) * INPUTS * H + unit;
#pragma unroll
    for (int k = 0; k < INPUTS; ++k) into[k] = place.active && i < sizes.time ? from[k * H] : 0.0f;
  };
#pragma unroll
  for (int i = 0; i < AHEAD; ++i) fetch(kept[i], i);

  // Runs beside the next multiply, which hides it. It must not branch, or the compiler would place
  // it after the multiply.
  bool was_running = false;
  const auto carry_on = [&] {
    const Kept before = state;
    state.carry_on();
    if (!was_running) (Kept&)state = before;
  };
  for_all_steps(sizes.time, [&](auto slot, int i) {
    constexpr int ring = decltype(slot)::value, buffer = ring % 2;
    const int t = sizes.forward_time(i);
    const bool running = t < length;
    float recurrent[GATES];
    part.multiply(recurrent, h[buffer], place.lane);
    carry_on();
    state.step(kept[ring], recurrent, running);
    if (place.writes) h[buffer ^ 1][place.line][unit] = state.hidden();
    __syncthreads();
    Unit::record(alone(state), unit_memory, place.active && place.writes, running, t, sizes.batch, row, unit);
    was_running = running;
    fetch(kept[ring], i + AHEAD);
  });
  carry_on();
  state.finish(unit_memory, place.active && place.writes, row, unit);
}

// ---------------------------------------------------------------- backward

extern "C" __global__ void __launch_bounds__(THREADS)
    backward(const Stored* weight, UnitBackward unit_memory, const long long* lengths, Sizes sizes) {
  __shared__ __align__(16) float gates[2][ROWS][GATES * PADDED];
  const Place place(sizes);
  const int unit = place.unit, row = place.row;
  Part<1, GATES * PADDED> part;
  part.load(place.lane, [&](int, int k) {
    const int gate = k / PADDED, from = k % PADDED;
    return unit < H && from < H ? weight[(gate * (long long)H + from) * H + unit] : 0.0f;
  });

  const int length = place.active ? sizes.length(lengths, row) : 0;
  UnitGradient state;
  state.prepare(unit_memory, place.active, unit);
  state.start(unit_memory, place.active, row, unit);
  float d_hidden = state.first();

  UnitGradient::Values<1> values[AHEAD];
  const auto fetch = [&](UnitGradient::Values<1>& into, int i) {
    const int t = sizes.backward_time(i);
    UnitGradient::fetch(into, unit_memory, place.active && i < sizes.time, t, sizes.time_before(t), length,
                        sizes.batch, row, unit);
  };
#pragma unroll
  for (int i = 0; i < AHEAD; ++i) fetch(values[i], i);

  for_all_steps(sizes.time, [&](auto slot, int i) {
    constexpr int ring = decltype(slot)::value, buffer = ring % 2;
    const int t = sizes.backward_time(i);
    const bool running = t < length;
    float d_gates[GATES];
    state.step(state.factors(values[ring], 0), d_hidden, running, d_gates);
    if (place.writes) {
#pragma unroll
      for (int gate = 0; gate < GATES; ++gate) gates[buffer][place.line][gate * PADDED + unit] = d_gates[gate];
    }
    __syncthreads();
    float total[1];
    part.multiply(total, gates[buffer], place.lane);
    UnitGradient::record(alone(state), unit_memory, place.active && place.writes, t, sizes.batch, row, unit);
    fetch(values[ring], i + AHEAD);
    if (running) d_hidden = state.carried() + total[0];
  });
  state.finish(unit_memory, place.active && place.writes, d_hidden, row, unit);
}

extern "C" __device__ int shared_bytes[2] = {0, 0};
