// The sign score, the Laplace score and the bin sums in CUDA C++; cuda_kernels.py compiles and calls them.
//
// Philox with its uniform parts taken out: the counter is (group, block, chunk, nonce), block = candidate / 8. The first
// rounds mix only words of the block with words of the chunk, and words of the group with words of the chunk: `block`
// and `group` make what each needs for itself, and `words` the rest. That leaves 15 wide multiplications (one in the third
// round, two in each of the last seven) and 17 xors for 128 bits. The multiplications are the limit: if a multiprocessor
// starts 32 a clock (half the rate of plain ones), that is 273 bits a clock, or 71 T bits/s on an H200 (132 of them at
// 1.98 GHz). The sign kernel without its products was seen to make 52 T bits/s there.

typedef unsigned int u32;
typedef unsigned long long u64;

constexpr u32 M0 = 0xD2511F53u, M1 = 0xCD9E8D57u, W0 = 0x9E3779B9u, W1 = 0xBB67AE85u;

__device__ __forceinline__ u32 hi(u64 product) { return u32(product >> 32); }
__device__ __forceinline__ u32 lo(u64 product) { return u32(product); }
__device__ __forceinline__ u64 times(u32 a, u32 b) { return u64(a) * b; }

struct Chunk {  // the shared state of all draws of a chunk: its stream, and the round keys from the fourth round on
  u32 key0, key1, nonce, number, k0[7], k1[7];
  __device__ __forceinline__ explicit Chunk(const u32* stream)
      : key0(stream[0]), key1(stream[1]), nonce(stream[2]), number(stream[3]) {
#pragma unroll
    for (int r = 0; r < 7; ++r) k0[r] = key0 + (r + 3) * W0, k1[r] = key1 + (r + 3) * W1;
  }
  __device__ __forceinline__ uint4 group(u32 number_of_group) const {
    const u64 p = times(number_of_group, M0), q = times(hi(p) ^ nonce ^ key1, M1);
    const u64 r = times(hi(q) ^ lo(times(number, M1)) ^ (key0 + W0), M0);
    return make_uint4(lo(p) ^ (key1 + W1), lo(q) ^ (key0 + 2 * W0), hi(r) ^ (key1 + 2 * W1), lo(r) ^ k1[0]);
  }
  __device__ __forceinline__ u64 block(u32 number_of_block) const {
    return times(hi(times(number, M1)) ^ number_of_block ^ key0, M0);
  }
  // The keys of the last round are arguments, so that a caller can flip bits of the words at no cost.
  __device__ __forceinline__ uint4 words(u64 block, uint4 g, u32 last0, u32 last1) const {
    u64 q = times(hi(block) ^ g.x, M1);
    u32 c0 = hi(q) ^ g.y, c1 = lo(q), c2 = lo(block) ^ g.z, c3 = g.w;
#pragma unroll
    for (int r = 0; r < 7; ++r) {
      const u64 p = times(c0, M0);
      q = times(c2, M1);
      c0 = hi(q) ^ c1 ^ (r < 6 ? k0[r] : last0);
      c1 = lo(q);
      c2 = r ? hi(p) ^ c3 ^ (r < 6 ? k1[r] : last1) : hi(p) ^ c3;
      c3 = lo(p);
    }
    return make_uint4(c0, c1, c2, c3);
  }
};

__device__ __forceinline__ void store(int* scores, const int* order, u32 candidate, const int (&score)[4]) {
  const int4 added = order ? *reinterpret_cast<const int4*>(order + candidate) : make_int4(0, 0, 0, 0);
  *reinterpret_cast<int4*>(scores + candidate) =
      make_int4(score[0] + added.x, score[1] + added.y, score[2] + added.z, score[3] + added.w);
}

// ---- Sign: score = 2·Σ_{bit set} m − Σ m, |m| < 2^11 ---------------------------------------------------------------
//
// Σ_{bit set} m = Σ_p ±2^p·popcount(bits & plane p of m), p < 12 in two's complement, by the tensor cores' 1-bit product
// of 16 rows × 256 bits and 256 bits × 8 columns. Two neighbouring threads share a block of eight candidates: thread r of
// them makes the groups ≡ r (mod 2). In the product for word w, a row holds candidate 2w or 2w + 1 of two blocks, half of
// its bits each: a quarter, 64 coordinates, for each of four threads. Columns 0-3 are four planes against the first
// block's half and zeros against the other's, columns 4-7 the reverse, so that no block disturbs another; three products
// make all planes.

constexpr int STEP = 8, STEPS = 96;  // groups of a product, four for each thread; steps whose operands are kept at a time
constexpr int PRODUCTS = 3;          // number of products, of four planes each

__device__ __forceinline__ void count(int (&sum)[4], const u32 (&bits)[4], uint2 planes) {
  asm("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
      : "r"(bits[0]), "r"(bits[1]), "r"(bits[2]), "r"(bits[3]), "r"(planes.x), "r"(planes.y));
}

template <int LIVE>  // number of groups of this thread; a group beyond the last is multiplied by planes of zeros
__device__ __forceinline__ void product(int (&sum)[4][PRODUCTS][4], const Chunk& chunk, u64 block, const uint4* groups,
                                        const uint2* planes) {
  u32 word[4][4] = {};
#pragma unroll
  for (int g = 0; g < LIVE; ++g) {
    const uint4 v = chunk.words(block, groups[2 * g], chunk.k0[6], chunk.k1[6]);
    word[g][0] = v.x, word[g][1] = v.y, word[g][2] = v.z, word[g][3] = v.w;
  }
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    const u32 bits[4] = {__byte_perm(word[0][w], word[1][w], 0x5410), __byte_perm(word[0][w], word[1][w], 0x7632),
                         __byte_perm(word[2][w], word[3][w], 0x5410), __byte_perm(word[2][w], word[3][w], 0x7632)};
#pragma unroll
    for (int t = 0; t < PRODUCTS; ++t) count(sum[w][t], bits, planes[8 * t]);
  }
}

extern "C" __global__ void __launch_bounds__(256)
    sign_scores(const u32* streams, const long long* offsets, const int* shifts, const int* bases, const int* order,
                int* scores, u32 blocks, u32 stride, u32 tiles, u32 passes) {
  __shared__ uint4 groups[STEPS * STEP];
  // [step][product][2·column + thread]: 32 coordinates of the thread's groups 0 and 1, and 32 of its groups 2 and 3. The
  // last step stays zero.
  __shared__ uint2 planes[STEPS + 1][PRODUCTS][8];
  const u32 row = blockIdx.x / tiles, tile = blockIdx.x % tiles;
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32, r = lane % 2;
  const Chunk chunk(streams + 4 * row);
  shifts += offsets[row];
  const u32 size = u32(offsets[row + 1] - offsets[row]), all_groups = (size + 15) / 16;
  // This lane's operand is column lane / 4 against quarter lane % 4; where they belong to different blocks it is zero.
  const bool filled = lane / 16 == lane % 4 / 2;
  const uint2* const mine = planes[filled ? 0 : STEPS][0] + lane / 4 % 4 * 2 + r;
  const u32 step = filled ? PRODUCTS * 8 : 0;
  for (u32 i = threadIdx.x; i < PRODUCTS * 8; i += blockDim.x) planes[STEPS][i / 8][i % 8] = make_uint2(0, 0);

  for (u32 pass = 0; pass < passes; ++pass) {
    const u32 block = ((tile * passes + pass) * blockDim.x + threadIdx.x) / 2;
    const u64 start = chunk.block(block);
    int sum[4][PRODUCTS][4] = {};
    for (u32 first = 0; first < all_groups; first += STEPS * STEP) {
      const u32 here = min(all_groups - first, u32(STEPS * STEP));
      if (pass == 0 || all_groups > STEPS * STEP) {
        __syncthreads();
        for (u32 g = threadIdx.x; g < here + here % 2; g += blockDim.x) groups[g] = chunk.group(first + g);
        for (u32 pair = warp; pair < (here + STEP - 1) / STEP * 4; pair += warps) {  // two groups of a thread
          const u32 which = pair / 4, half = pair / 2 % 2, thread = pair % 2;
          const u32 i = 16 * (first + STEP * which + 4 * half + thread + lane / 16 * 2) + lane % 16;
          const int m = i < size ? shifts[i] : 0;
          u32 kept = 0;
#pragma unroll
          for (u32 p = 0; p < 4 * PRODUCTS; ++p) {
            const u32 plane = __ballot_sync(0xFFFFFFFFu, m >> p & 1);
            kept = lane == p ? plane : kept;
          }
          if (lane < 4 * PRODUCTS)
            reinterpret_cast<u32*>(&planes[which][lane / 4][lane % 4 * 2 + thread])[half] = kept;
        }
        __syncthreads();
      }
      if (block - lane / 2 >= blocks) continue;  // the whole warp lies beyond the candidates
      const uint4* g = groups + r;
      const uint2* p = mine;
      for (u32 left = (here + 1) / STEP; left; --left, g += STEP, p += step) product<4>(sum, chunk, start, g, p);
      const u32 rest = (here + 1) % STEP / 2;
      if (rest == 1) product<1>(sum, chunk, start, g, p);
      if (rest == 2) product<2>(sum, chunk, start, g, p);
      if (rest == 3) product<3>(sum, chunk, start, g, p);
    }
    // This thread has planes 4t + 2r and 4t + 2r + 1 of all eight candidates; it keeps four of them.
    int total[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int(&c)[PRODUCTS][4] = sum[i / 2];
      const int e = i % 2 * 2, top = c[2][e + 1];
      total[i] = c[0][e] + 2 * c[0][e + 1] + 16 * (c[1][e] + 2 * c[1][e + 1]) + 256 * (c[2][e] + 2 * (r ? -top : top));
      total[i] <<= 2 * r;
    }
    int score[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int kept = r ? total[i + 4] : total[i], sent = r ? total[i] : total[i + 4];
      score[i] = 2 * (kept + __shfl_xor_sync(0xFFFFFFFFu, sent, 1)) + bases[row];
    }
    if (block < blocks) store(scores + u64(row) * stride, order, 8 * block + 4 * r, score);
  }
}

// ---- Laplace: score = 2·Σ min(max(±z, 0), |m|) − Σ |m|, the sign that of m ---------------------------------------------
//
// z grows with the draw and mirrors, so flipping bits of the draw (all but the top one for m < 0, the top one for m ≥ 0)
// makes the signed 16-bit half t of a word negative where ±z ≤ 0 and the index of the magnitude elsewhere. One instruction
// clamps both halves to 0 … reach(m), the first index whose magnitude is at least |m|; the clamped index is looked up in
// shared memory, where the many threads that ended at the same bound share one access. Where magnitudes leave GAPS, that
// of the bound can be larger than |m| and is cut down to it.

#ifndef GAPS
#define GAPS 0
#endif

constexpr int BATCH = 256;  // number of coordinates kept at a time

__device__ __forceinline__ u32 clamped(u32 pair, u32 reach) {
#if __CUDA_ARCH__ >= 900
  u32 out;
  asm("min.relu.s16x2 %0, %1, %2;" : "=r"(out) : "r"(pair), "r"(reach));
  return out;
#else
  return __vmaxs2(__vmins2(pair, reach), 0);
#endif
}

extern "C" __global__ void __launch_bounds__(256, 2)
    laplace_scores(const u32* streams, const long long* offsets, const int* shifts, const int* bases, const int* order,
                   int* scores, u32 blocks, u32 stride, u32 tiles, u32 passes, const uint4* table, u32 entries) {
  extern __shared__ uint4 shared_table[];
  __shared__ uint4 groups[BATCH];
  __shared__ uint4 bounds[BATCH];  // flipped last keys, flip, reach in both halves
  __shared__ int limits[GAPS ? BATCH : 1];  // |m|
  const u32 row = blockIdx.x / tiles, tile = blockIdx.x % tiles;
  const Chunk chunk(streams + 4 * row);
  shifts += offsets[row];
  const u32 size = u32(offsets[row + 1] - offsets[row]);
  const unsigned short* const magnitude = reinterpret_cast<const unsigned short*>(shared_table);
  const char* const bytes = reinterpret_cast<const char*>(shared_table);
  for (u32 i = threadIdx.x; i < (entries + 7) / 8; i += blockDim.x) shared_table[i] = table[i];

  for (u32 pass = 0; pass < passes; ++pass) {
    const u32 block = ((tile * passes + pass) * blockDim.x + threadIdx.x) * 2;
    const u64 start[2] = {chunk.block(block), chunk.block(block + 1)};
    int sum[2][8] = {};
    for (u32 first = 0; first < size; first += BATCH) {
      const u32 here = min(size - first, u32(BATCH));
      if (pass == 0 || size > BATCH) {
        __syncthreads();
        for (u32 i = threadIdx.x; i < here; i += blockDim.x) {
          const int m = shifts[first + i], wanted = abs(m);
          u32 reach = 0;
#pragma unroll
          for (u32 bit = 1 << 14; bit; bit >>= 1)  // the number of magnitudes below |m|, or the last index
            if (reach + bit < entries && magnitude[reach + bit - 1] < wanted) reach += bit;
          const u32 flip = m < 0 ? 0x7FFF7FFFu : 0x80008000u;
          if (GAPS) limits[i] = wanted;
          groups[i] = chunk.group(first + i);
          bounds[i] = make_uint4(chunk.k0[6] ^ flip, chunk.k1[6] ^ flip, flip, reach * 0x10001u);
        }
        __syncthreads();
      }
      if (block >= blocks) continue;
#pragma unroll 2
      for (u32 i = 0; i < here; ++i) {
        const uint4 g = groups[i], b = bounds[i];
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          const uint4 v = chunk.words(start[k], g, b.x, b.y);
          const u32 word[4] = {v.x, v.y ^ b.z, v.z, v.w ^ b.z};
#pragma unroll
          for (int w = 0; w < 4; ++w) {
            const u32 t = clamped(word[w], b.w);
            // t >> 15 is twice the high index: the low half is below 2^15.
            const int even = magnitude[t & 0xFFFF], odd = *reinterpret_cast<const unsigned short*>(bytes + (t >> 15));
            sum[k][2 * w] += GAPS ? min(even, limits[i]) : even;
            sum[k][2 * w + 1] += GAPS ? min(odd, limits[i]) : odd;
          }
        }
      }
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      int score[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) score[i] = 2 * sum[k / 2][k % 2 * 4 + i] + bases[row];
      if (block + k / 2 < blocks) store(scores + u64(row) * stride, order, 8 * block + 4 * k, score);
    }
  }
}

// ---- Bin sums: Σ F[f] over the candidates of each whole number of bits (`selection.bin_sums`) ----------------------
//
// Each warp has COPIES of the bins, taken in turn by its lanes, so that few of them meet; a weight of up to 2^40 is added
// as two parts of 20 bits. No part overflows: a warp sees MOST candidates.

constexpr int BINS = 65, COPIES = 4, WARPS = 8, MOST = 2048;

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    bin_sums(u64* out, const int* scores, const int* tops, const u64* weights, u32 candidates, u32 stride, u32 tiles,
             u32 fraction_bits) {
  __shared__ u32 parts[WARPS][2][BINS * COPIES];
  const u32 row = blockIdx.x / tiles, tile = blockIdx.x % tiles, warp = threadIdx.x / 32, copy = threadIdx.x % COPIES;
  for (u32 i = threadIdx.x % 32; i < BINS * COPIES; i += 32) parts[warp][0][i] = parts[warp][1][i] = 0;
  __syncthreads();
  scores += u64(row) * stride;
  const int top = tops[row], furthest = (BINS - 1) << fraction_bits, mask = (1 << fraction_bits) - 1;
  const u32 end = min(candidates, (tile + 1) * WARPS * MOST);
#pragma unroll 4
  for (u32 k = tile * WARPS * MOST + threadIdx.x; k < end; k += 32 * WARPS) {
    const int e = min(top - scores[k], furthest), j = (e >> fraction_bits) * COPIES + copy;
    const u64 weight = weights[e & mask];
    atomicAdd(&parts[warp][0][j], u32(weight) & 0xFFFFF);
    atomicAdd(&parts[warp][1][j], u32(weight >> 20));
  }
  __syncthreads();
  if (threadIdx.x >= BINS) return;
  u64 sum = 0;
  for (int w = 0; w < WARPS; ++w)
    for (int i = 0; i < COPIES; ++i) {
      const u32 j = threadIdx.x * COPIES + i;
      sum += parts[w][0][j] + (u64(parts[w][1][j]) << 20);
    }
  if (sum) atomicAdd(out + u64(row) * BINS + threadIdx.x, sum);
}
