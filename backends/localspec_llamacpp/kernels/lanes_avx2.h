// Vectors of 8 numbers: AVX2, with VNNI where there is one.
#pragma once
#define LOCALSPEC_LANES
#include <immintrin.h>
#include <cstdint>
#include <cstring>

#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
#define LOCALSPEC_DOT _mm256_dpbusd_epi32
#elif defined(__AVXVNNI__)
#define LOCALSPEC_DOT _mm256_dpbusd_avx_epi32
#endif

namespace localspec {

constexpr int LANES = 8;  // rows of a matrix that are multiplied side by side
constexpr int TILE = 6;   // rows of activations at once; measured: 2, 3 and 4 are slower
constexpr int FEW_ROWS = 1;  // of activations: multiplied as fast as memory gives the weights
#ifdef LOCALSPEC_DOT
constexpr const char * INSTRUCTIONS = "AVX2 VNNI";
constexpr int WIDE_OFFSET = 128;  // for signed weights: VNNI multiplies unsigned by signed bytes
#else
constexpr const char * INSTRUCTIONS = "AVX2";
constexpr int WIDE_OFFSET = 0;  // signed weights stay: their signs go over to the activations
#endif

using Floats = __m256;
using Ints = __m256i;
using Bytes = __m256i;  // four for each lane

inline Floats zeros() { return _mm256_setzero_ps(); }
inline Floats all(float x) { return _mm256_set1_ps(x); }
inline Floats multiplied(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
inline Floats added(Floats a, Floats b, Floats sum) { return _mm256_fmadd_ps(a, b, sum); }
inline Floats taken(Floats a, Floats b, Floats sum) { return _mm256_fnmadd_ps(a, b, sum); }
inline Floats as_floats(Ints x) { return _mm256_cvtepi32_ps(x); }
inline void store(float * to, Floats x) { _mm256_storeu_ps(to, x); }
inline void store(uint8_t * to, Bytes x) { _mm256_storeu_si256((__m256i *) to, x); }

inline Floats halves(const uint16_t * x) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *) x));
}
inline Ints unsigned_bytes(const uint8_t * x) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *) x));
}
inline Ints signed_bytes(const int8_t * x) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *) x));
}
template <int N> inline Ints shifted_left(Ints x) { return _mm256_slli_epi32(x, N); }
template <int N> inline Ints shifted_right(Ints x) { return _mm256_srli_epi32(x, N); }
inline Ints low_nibble(Ints x) { return _mm256_and_si256(x, _mm256_set1_epi32(15)); }
inline Floats bits_as_floats(Ints x) { return _mm256_castsi256_ps(x); }
inline Ints ints(int x) { return _mm256_set1_epi32(x); }
inline Ints plus(Ints a, Ints b) { return _mm256_add_epi32(a, b); }

inline Bytes load(const uint8_t * x) { return _mm256_loadu_si256((const __m256i *) x); }
inline Bytes all_bytes(uint8_t x) { return _mm256_set1_epi8((char) x); }
inline Bytes both(Bytes a, Bytes b) { return _mm256_and_si256(a, b); }
inline Bytes joined(Bytes a, Bytes b, Bytes mask) {
    return _mm256_or_si256(a, _mm256_and_si256(b, mask));
}
// Shift bits within 16-bit words: a mask takes away what crosses from one byte to the next.
template <int N> inline Bytes right(Bytes x) {
    if constexpr (N > 0) return _mm256_srli_epi16(x, N);
    if constexpr (N < 0) return _mm256_slli_epi16(x, -N);
    return x;
}
inline Bytes table_of(const int8_t * values) {
    const __m256i table = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *) values));
    return _mm256_add_epi8(table, all_bytes(WIDE_OFFSET));
}
inline Bytes looked_up(Bytes table, Bytes codes) { return _mm256_shuffle_epi8(table, codes); }

inline Ints four(const int8_t * x) {
    int value;
    std::memcpy(&value, x, 4);
    return _mm256_set1_epi32(value);
}

#ifdef LOCALSPEC_DOT
inline Ints dot(Ints sum, Bytes weights, Ints x) { return LOCALSPEC_DOT(sum, weights, x); }
#else
// Multiply four weights of each lane by four activations: sums of two neighbours, in 16 bits.
// Weights that fill their bytes are signed: at most 128 * 127 * 2, which fits.
template <int LARGEST> inline Ints pairs(Bytes weights, Bytes x) {
    if constexpr (LARGEST > 127) {
        return _mm256_maddubs_epi16(_mm256_abs_epi8(weights), _mm256_sign_epi8(x, weights));
    }
    return _mm256_maddubs_epi16(weights, x);
}

// Keep a sum as it is: GCC would form trees of sums, with more of them at once than registers.
inline Ints kept(Ints x) {
#if defined(__GNUC__)
    __asm__("" : "+x"(x));
#endif
    return x;
}

// Add the products of 4 * GROUPS weights of each lane with activations of some rows: as many
// groups in 16 bits as the largest code allows, then in 32.
template <int GROUPS, int LARGEST, int ROWS>
inline void add_products(const Bytes * weights, const int8_t * const * x, Ints * sums) {
    constexpr int FIT = LARGEST > 127 ? 1 : 32767 / (LARGEST * 2 * 127);
    constexpr int TOGETHER = FIT < GROUPS ? FIT : GROUPS;
    static_assert(TOGETHER > 0 && GROUPS % TOGETHER == 0, "whole sums in 16 bits");
    Ints part[ROWS];
#pragma GCC unroll 8
    for (int g = 0; g < GROUPS; g++) {
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; r++) {
            const Ints product = pairs<LARGEST>(weights[g], four(x[r] + 4 * g));
            part[r] = kept(g % TOGETHER ? _mm256_add_epi16(part[r], product) : product);
            if ((g + 1) % TOGETHER) continue;
            sums[r] = _mm256_add_epi32(sums[r], _mm256_madd_epi16(part[r], _mm256_set1_epi16(1)));
        }
    }
}
#endif

inline void prefetch(const void * x) { _mm_prefetch((const char *) x, _MM_HINT_T0); }

}  // namespace localspec

#ifdef LOCALSPEC_DOT
#include "lanes_vnni.h"
#undef LOCALSPEC_DOT
#endif
