// Vectors of 8 numbers: NEON with products of four bytes, two registers to a vector.
//
// The products of i8mm, of two rows by two, are not used: the order of a panel would be another.
#pragma once
#define LOCALSPEC_LANES
#include <arm_neon.h>
#include <cstdint>
#include <cstring>

namespace localspec {

constexpr const char * INSTRUCTIONS = "NEON dot products";
constexpr int LANES = 8;        // rows of a matrix that are multiplied side by side
constexpr int TILE = 4;         // rows of activations whose sums stay in registers
constexpr int FEW_ROWS = 1;     // of activations: multiplied as fast as memory gives the weights
constexpr int WIDE_OFFSET = 0;  // both sides of a product are signed

struct Floats { float32x4_t a, b; };
struct Ints { int32x4_t a, b; };
struct Bytes { uint8x16_t a, b; };  // four for each lane

inline Floats zeros() { return {vdupq_n_f32(0), vdupq_n_f32(0)}; }
inline Floats all(float x) { return {vdupq_n_f32(x), vdupq_n_f32(x)}; }
inline Floats multiplied(Floats x, Floats y) { return {vmulq_f32(x.a, y.a), vmulq_f32(x.b, y.b)}; }
inline Floats added(Floats x, Floats y, Floats sum) {
    return {vfmaq_f32(sum.a, x.a, y.a), vfmaq_f32(sum.b, x.b, y.b)};
}
inline Floats taken(Floats x, Floats y, Floats sum) {
    return {vfmsq_f32(sum.a, x.a, y.a), vfmsq_f32(sum.b, x.b, y.b)};
}
inline Floats as_floats(Ints x) { return {vcvtq_f32_s32(x.a), vcvtq_f32_s32(x.b)}; }
inline void store(float * to, Floats x) {
    vst1q_f32(to, x.a);
    vst1q_f32(to + 4, x.b);
}
inline void store(uint8_t * to, Bytes x) {
    vst1q_u8(to, x.a);
    vst1q_u8(to + 16, x.b);
}

inline Floats halves(const uint16_t * x) {
    const float16x8_t all_halves = vreinterpretq_f16_u16(vld1q_u16(x));
    return {vcvt_f32_f16(vget_low_f16(all_halves)), vcvt_high_f32_f16(all_halves)};
}
inline Ints unsigned_bytes(const uint8_t * x) {
    const uint16x8_t words = vmovl_u8(vld1_u8(x));
    const uint32x4_t low = vmovl_u16(vget_low_u16(words)), high = vmovl_high_u16(words);
    return {vreinterpretq_s32_u32(low), vreinterpretq_s32_u32(high)};
}
inline Ints signed_bytes(const int8_t * x) {
    const int16x8_t words = vmovl_s8(vld1_s8(x));
    return {vmovl_s16(vget_low_s16(words)), vmovl_high_s16(words)};
}
template <int N> inline Ints shifted_left(Ints x) {
    return {vshlq_n_s32(x.a, N), vshlq_n_s32(x.b, N)};
}
template <int N> inline Ints shifted_right(Ints x) {
    return {vshrq_n_s32(x.a, N), vshrq_n_s32(x.b, N)};
}
inline Ints low_nibble(Ints x) {
    return {vandq_s32(x.a, vdupq_n_s32(15)), vandq_s32(x.b, vdupq_n_s32(15))};
}
inline Floats bits_as_floats(Ints x) {
    return {vreinterpretq_f32_s32(x.a), vreinterpretq_f32_s32(x.b)};
}
inline Ints ints(int x) { return {vdupq_n_s32(x), vdupq_n_s32(x)}; }
inline Ints plus(Ints x, Ints y) { return {vaddq_s32(x.a, y.a), vaddq_s32(x.b, y.b)}; }

inline Bytes load(const uint8_t * x) { return {vld1q_u8(x), vld1q_u8(x + 16)}; }
inline Bytes all_bytes(uint8_t x) { return {vdupq_n_u8(x), vdupq_n_u8(x)}; }
inline Bytes both(Bytes x, Bytes y) { return {vandq_u8(x.a, y.a), vandq_u8(x.b, y.b)}; }
inline Bytes joined(Bytes x, Bytes y, Bytes mask) {
    return {vorrq_u8(x.a, vandq_u8(y.a, mask.a)), vorrq_u8(x.b, vandq_u8(y.b, mask.b))};
}
template <int N> inline Bytes right(Bytes x) {
    if constexpr (N > 0) return {vshrq_n_u8(x.a, N), vshrq_n_u8(x.b, N)};
    if constexpr (N < 0) return {vshlq_n_u8(x.a, -N), vshlq_n_u8(x.b, -N)};
    return x;
}
inline Bytes table_of(const int8_t * values) {
    const uint8x16_t table = vreinterpretq_u8_s8(vld1q_s8(values));
    static_assert(WIDE_OFFSET == 0, "values as they are");
    return {table, table};
}
inline Bytes looked_up(Bytes table, Bytes codes) {
    return {vqtbl1q_u8(table.a, codes.a), vqtbl1q_u8(table.b, codes.b)};
}

// Add the products of four weights of each lane with the LANE-th four of 16 activations.
template <int LANE> inline void add_four(Bytes weights, int8x16_t x, Ints & sum) {
    sum.a = vdotq_laneq_s32(sum.a, vreinterpretq_s8_u8(weights.a), x, LANE);
    sum.b = vdotq_laneq_s32(sum.b, vreinterpretq_s8_u8(weights.b), x, LANE);
}

// Add the products of 4 * GROUPS weights of each lane with activations of some rows; sums of one
// or two rows are split. Sums of integers have no order.
template <int GROUPS, int LARGEST, int ROWS>
inline void add_products(const Bytes * weights, const int8_t * const * x, Ints * sums) {
    constexpr bool SPLIT = ROWS < 3;
    Ints more[ROWS];
    for (int r = 0; r < ROWS; r++) more[r] = ints(0);
    constexpr int TOGETHER = GROUPS < 4 ? GROUPS : 4;
#pragma GCC unroll 2
    for (int g = 0; g < GROUPS; g += TOGETHER) {
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; r++) {
            int8x16_t some;  // activations
            std::memcpy(&some, x[r] + 4 * g, 4 * TOGETHER);
            Ints & other = SPLIT ? more[r] : sums[r];
            add_four<0>(weights[g], some, sums[r]);
            add_four<1>(weights[g + 1], some, other);
            if constexpr (TOGETHER < 4) continue;
            add_four<2>(weights[g + 2], some, sums[r]);
            add_four<3>(weights[g + 3], some, other);
        }
    }
    for (int r = 0; SPLIT && r < ROWS; r++) {
        sums[r] = plus(sums[r], more[r]);
    }
}

inline void prefetch(const void * x) { __builtin_prefetch(x); }

}  // namespace localspec
