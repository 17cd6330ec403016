// Vectors of 16 numbers: AVX-512 with VNNI.
#pragma once
#define LOCALSPEC_LANES
#include <immintrin.h>
#include <cstdint>
#include <cstring>

namespace localspec {

constexpr const char * INSTRUCTIONS = "AVX-512 VNNI";
constexpr int LANES = 16;       // rows of a matrix that are multiplied side by side
constexpr int TILE = 8;         // rows of activations whose sums stay in registers
constexpr int FEW_ROWS = 4;     // of activations: multiplied as fast as memory gives the weights
constexpr int WIDE_OFFSET = 128;  // added to signed weights: VNNI multiplies unsigned by signed bytes

using Floats = __m512;
using Ints = __m512i;
using Bytes = __m512i;  // four for each lane

inline Floats zeros() { return _mm512_setzero_ps(); }
inline Floats all(float x) { return _mm512_set1_ps(x); }
inline Floats multiplied(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
inline Floats added(Floats a, Floats b, Floats sum) { return _mm512_fmadd_ps(a, b, sum); }
inline Floats taken(Floats a, Floats b, Floats sum) { return _mm512_fnmadd_ps(a, b, sum); }
inline Floats as_floats(Ints x) { return _mm512_cvtepi32_ps(x); }
inline void store(float * to, Floats x) { _mm512_storeu_ps(to, x); }
inline void store(uint8_t * to, Bytes x) { _mm512_storeu_si512(to, x); }

inline Floats halves(const uint16_t * x) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *) x)); }
inline Ints unsigned_bytes(const uint8_t * x) { return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *) x)); }
inline Ints signed_bytes(const int8_t * x) { return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *) x)); }
template <int N> inline Ints shifted_left(Ints x) { return _mm512_slli_epi32(x, N); }
template <int N> inline Ints shifted_right(Ints x) { return _mm512_srli_epi32(x, N); }
inline Ints low_nibble(Ints x) { return _mm512_and_si512(x, _mm512_set1_epi32(15)); }
inline Floats bits_as_floats(Ints x) { return _mm512_castsi512_ps(x); }
inline Ints ints(int x) { return _mm512_set1_epi32(x); }
inline Ints plus(Ints a, Ints b) { return _mm512_add_epi32(a, b); }

inline Bytes load(const uint8_t * x) { return _mm512_loadu_si512(x); }
inline Bytes all_bytes(uint8_t x) { return _mm512_set1_epi8((char) x); }
inline Bytes both(Bytes a, Bytes b) { return _mm512_and_si512(a, b); }
inline Bytes joined(Bytes a, Bytes b, Bytes mask) { return _mm512_ternarylogic_epi32(a, b, mask, 0xF8); }  // a | (b & mask)
// Shift bits within 16-bit words: a mask takes away what crosses from one byte to the next.
template <int N> inline Bytes right(Bytes x) {
    if constexpr (N > 0) return _mm512_srli_epi16(x, N);
    if constexpr (N < 0) return _mm512_slli_epi16(x, -N);
    return x;
}
inline Bytes table_of(const int8_t * values) {
    const __m512i table = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *) values));
    return _mm512_add_epi8(table, all_bytes(WIDE_OFFSET));
}
inline Bytes looked_up(Bytes table, Bytes codes) { return _mm512_shuffle_epi8(table, codes); }

inline Ints four(const int8_t * x) {
    int value;
    std::memcpy(&value, x, 4);
    return _mm512_set1_epi32(value);
}

inline Ints dot(Ints sum, Bytes weights, Ints x) { return _mm512_dpbusd_epi32(sum, weights, x); }
inline void prefetch(const void * x) { _mm_prefetch((const char *) x, _MM_HINT_T0); }

}  // namespace localspec

#include "lanes_vnni.h"
