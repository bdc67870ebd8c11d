// The engine `graph`: a recurrent layer over time, one step after another. cuBLAS does the matrix
// multiply of a step. One kernel here does the rest, with one thread for each unit of each row. It
// is for layers whose weights do not fit on chip, and for GPUs without clusters.
//
// Compiled at run time after hardware.cu, functions.cu and a unit with the constants:
//   H        units of the layer
//   PADDED   units in a row of an operand
//   PLANES   most values that a unit carries from step to step, in either pass, and one
//   PRODUCT  see hardware.cu
//
// Steps are recorded as CUDA graphs and replayed on other tensors. So the kernels read from GPU
// memory (ForwardWork, BackwardWork) where the tensors are. `first` is the number of the first step
// of a graph; the last kernel of a graph, `advance`, increases it for the next graph.

struct ForwardWork {
  int first;
  const Stored* input;
  UnitForward unit;
  const long long* lengths;
  Sizes sizes;
};

struct BackwardWork {
  int first;
  UnitBackward unit;
  const long long* lengths;
  Sizes sizes;
};

// Read and write what a unit carries from step to step. Each value has a plane of (batch, H).
template <typename Carried>
__device__ __forceinline__ void take(Carried& carried, const float* planes, int place, int plane) {
#pragma unroll
  for (int k = 0; k < sizeof(Carried) / 4; ++k) ((float*)&carried)[k] = planes[k * (long long)plane + place];
}

template <typename Carried>
__device__ __forceinline__ void keep(const Carried& carried, float* planes, int place, int plane) {
#pragma unroll
  for (int k = 0; k < sizeof(Carried) / 4; ++k) planes[k * (long long)plane + place] = ((const float*)&carried)[k];
}

// The kernel of a step may start while the matrix multiply before it still runs. Until this wait it
// reads only what neither that multiply nor the previous step writes.
__device__ __forceinline__ void wait_for_product() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ int thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

extern "C" __global__ void advance(int* first, int steps) { *first += steps; }

// ---------------------------------------------------------------- forward

extern "C" __global__ void forward_begin(ForwardWork given, ForwardWork* work, Operand* hidden, float* planes) {
  const int place = thread(), plane = given.sizes.batch * H, row = place / H, unit = place % H;
  if (place == 0) *work = given;
  if (place >= plane) return;
  Unit state;
  state.start(given.unit, true, row, unit);
  keep<Kept>(state, planes, place, plane);
  hidden[row * (long long)PADDED + unit] = as_operand(state.hidden());
}

extern "C" __global__ void forward_step(const ForwardWork* work, int ahead, const float* product, Operand* hidden,
                                        float* planes) {
  const Sizes sizes = work->sizes;
  const int i = work->first + ahead, t = sizes.forward_time(i);
  const int place = thread(), plane = sizes.batch * H, row = place / H, unit = place % H;
  if (i >= sizes.time || place >= plane) return;
  const UnitForward at = work->unit;
  const bool running = !work->lengths || t < work->lengths[row];
  Stored kept[INPUTS];
  const Stored* input = work->input + (t * (long long)sizes.batch + row) * INPUTS * H + unit;
#pragma unroll
  for (int k = 0; k < INPUTS; ++k) kept[k] = input[k * H];
  Unit state;
  state.prepare(at, true, unit);
  wait_for_product();
  take<Kept>(state, planes, place, plane);
  float x[INPUTS], recurrent[GATES];
#pragma unroll
  for (int k = 0; k < INPUTS; ++k) x[k] = as_float(kept[k]);
#pragma unroll
  for (int gate = 0; gate < GATES; ++gate) recurrent[gate] = product[(row * GATES + gate) * (long long)PADDED + unit];
  state.step(x, recurrent, running);
  if (running) {
    hidden[row * (long long)PADDED + unit] = as_operand(state.hidden());
    state.carry_on();
  }
  Unit::record(alone(state), at, true, running, t, sizes.batch, row, unit);
  keep<Kept>(state, planes, place, plane);
  if (i == sizes.time - 1) state.finish(at, true, row, unit);
}

// ---------------------------------------------------------------- backward

// The plane behind the unit's own: the gradient of h. It is needed only where no matrix multiply
// brings that gradient: before the first step, and where a row has ended.
__device__ __forceinline__ float* last_plane(float* planes, int plane) {
  return planes + sizeof(GradientKept) / 4 * (long long)plane;
}

// The gradient of the h that step i of the backward pass starts from. `products` holds, in a plane
// for each gate, what step i - 1 sent back through that gate's weights.
__device__ __forceinline__ float returned(const UnitGradient& state, const float* products, const float* last, int i,
                                          int length, const Sizes& sizes, int row, int unit) {
  if (i == 0 || sizes.backward_time(i - 1) >= length) return *last;
  float total = state.carried();
#pragma unroll
  for (int gate = 0; gate < GATES; ++gate) total += products[(gate * (long long)sizes.batch + row) * PADDED + unit];
  return total;
}

extern "C" __global__ void backward_begin(BackwardWork given, BackwardWork* work, float* planes) {
  const int place = thread(), plane = given.sizes.batch * H;
  if (place == 0) *work = given;
  if (place >= plane) return;
  UnitGradient state;
  state.start(given.unit, true, place / H, place % H);
  keep<GradientKept>(state, planes, place, plane);
  last_plane(planes, plane)[place] = state.first();
}

extern "C" __global__ void backward_step(const BackwardWork* work, int ahead, const float* products, Operand* gates,
                                         float* planes) {
  const Sizes sizes = work->sizes;
  const int i = work->first + ahead, t = sizes.backward_time(i);
  const int place = thread(), plane = sizes.batch * H, row = place / H, unit = place % H;
  if (i >= sizes.time || place >= plane) return;
  const UnitBackward at = work->unit;
  const bool ragged = work->lengths;
  const int length = ragged ? (int)work->lengths[row] : sizes.time;
  UnitGradient state;
  state.prepare(at, true, unit);
  UnitGradient::Values<1> values;
  UnitGradient::fetch(values, at, true, t, sizes.time_before(t), length, sizes.batch, row, unit);
  const UnitGradient::Factors factors = state.factors(values, 0);
  float* last = last_plane(planes, plane) + place;
  wait_for_product();
  take<GradientKept>(state, planes, place, plane);
  const float d_hidden = returned(state, products, last, i, length, sizes, row, unit);
  float d_gates[GATES];
  state.step(factors, d_hidden, t < length, d_gates);
#pragma unroll
  for (int gate = 0; gate < GATES; ++gate)
    gates[(gate * (long long)sizes.batch + row) * PADDED + unit] = as_operand(d_gates[gate]);
  UnitGradient::record(alone(state), at, true, t, sizes.batch, row, unit);
  keep<GradientKept>(state, planes, place, plane);
  if (ragged) *last = d_hidden;
}

extern "C" __global__ void backward_end(const BackwardWork* work, const float* products, float* planes) {
  const Sizes sizes = work->sizes;
  const int place = thread(), plane = sizes.batch * H, row = place / H, unit = place % H;
  if (place >= plane) return;
  const int length = sizes.length(work->lengths, row);
  UnitGradient state;
  take<GradientKept>(state, planes, place, plane);
  const float* last = last_plane(planes, plane) + place;
  const float d_hidden = returned(state, products, last, sizes.time, length, sizes, row, unit);
  state.finish(work->unit, true, d_hidden, row, unit);
}

extern "C" __device__ int shared_bytes[6] = {};
static_assert(sizeof(Kept) / 4 <= PLANES && sizeof(GradientKept) / 4 < PLANES, "a plane for each carried value");
