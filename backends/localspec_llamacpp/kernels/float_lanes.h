// Vectors of floats, as wide as the processor's: a dozen functions per instruction set.
//
// Every function rounds one way wherever it is called. A product is added by `fma` alone, so that
// no compiler decides where to fuse.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#define LOCALSPEC_AVX512
#include <immintrin.h>
#elif defined(__AVX2__) && (defined(_MSC_VER) || (defined(__FMA__) && defined(__F16C__)))
#define LOCALSPEC_AVX2
#include <immintrin.h>
#elif defined(__ARM_NEON) && defined(__aarch64__)
#define LOCALSPEC_NEON
#include <arm_neon.h>
#endif

namespace localspec {
namespace lanes {

// Widens one number of 16 bits by integers alone.
static inline float half_to_float(uint16_t half) {
    const uint32_t sign = (uint32_t) (half & 0x8000) << 16, rest = half & 0x7fff;
    if (rest < 0x400) {  // zero, or too small for an exponent of its own
        const float small = (float) rest * (1.0f / 16777216.0f);
        return sign ? -small : small;
    }
    const uint32_t bits = sign | ((rest << 13) + (rest < 0x7c00 ? 0x38000000u : 0x70000000u));
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float brain_to_float(uint16_t brain) {
    const uint32_t bits = (uint32_t) brain << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#if defined(LOCALSPEC_AVX512)

constexpr int WIDTH = 16, MOST_ROWS = 6;
using Vec = __m512;

static inline Vec zero() { return _mm512_setzero_ps(); }
static inline Vec all(float value) { return _mm512_set1_ps(value); }
static inline Vec load(const float * at) { return _mm512_loadu_ps(at); }
static inline void store(float * at, Vec a) { _mm512_storeu_ps(at, a); }
static inline Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
static inline Vec sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
static inline Vec mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
static inline Vec div(Vec a, Vec b) { return _mm512_div_ps(a, b); }
static inline Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
static inline Vec max(Vec a, Vec b) { return _mm512_max_ps(a, b); }
static inline Vec min(Vec a, Vec b) { return _mm512_min_ps(a, b); }
static inline Vec nearest(Vec a) { return _mm512_roundscale_ps(a, 8); }
static inline uint32_t above(Vec a, Vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
static inline Vec where_above(Vec a, Vec b, Vec yes, Vec no) {
    return _mm512_mask_mov_ps(no, _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ), yes);
}
static inline Vec power_of_two(Vec whole) {
    const __m512i exponent = _mm512_add_epi32(_mm512_cvtps_epi32(whole), _mm512_set1_epi32(127));
    return _mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23));
}
static inline Vec load_half(const void * at) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *) at));
}
static inline Vec load_brain(const void * at) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *) at));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
static inline Vec load_bytes(const void * at) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *) at)));
}
// The first half of a vector; the rest is zero.
static inline Vec load_part(const float * at) { return _mm512_maskz_loadu_ps(0xff, at); }
static inline Vec load_half_part(const void * at) {
    return _mm512_cvtph_ps(_mm256_zextsi128_si256(_mm_loadu_si128((const __m128i *) at)));
}
static inline Vec load_brain_part(const void * at) {
    const __m256i part = _mm256_zextsi128_si256(_mm_loadu_si128((const __m128i *) at));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(part), 16));
}
// Adds up four vectors, each for itself.
static inline void sum_four(Vec a, Vec b, Vec c, Vec d, float * out) {
    const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    const __m512d x = _mm512_castps_pd(ab), y = _mm512_castps_pd(cd);
    const __m512 all_four = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(x, y)),
                                          _mm512_castpd_ps(_mm512_unpackhi_pd(x, y)));
    const __m256 half =
        _mm256_add_ps(_mm512_castps512_ps256(all_four), _mm512_extractf32x8_ps(all_four, 1));
    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
}

#elif defined(LOCALSPEC_AVX2)

constexpr int WIDTH = 8, MOST_ROWS = 3;
using Vec = __m256;

static inline Vec zero() { return _mm256_setzero_ps(); }
static inline Vec all(float value) { return _mm256_set1_ps(value); }
static inline Vec load(const float * at) { return _mm256_loadu_ps(at); }
static inline void store(float * at, Vec a) { _mm256_storeu_ps(at, a); }
static inline Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
static inline Vec sub(Vec a, Vec b) { return _mm256_sub_ps(a, b); }
static inline Vec mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
static inline Vec div(Vec a, Vec b) { return _mm256_div_ps(a, b); }
static inline Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
static inline Vec max(Vec a, Vec b) { return _mm256_max_ps(a, b); }
static inline Vec min(Vec a, Vec b) { return _mm256_min_ps(a, b); }
static inline Vec nearest(Vec a) { return _mm256_round_ps(a, 8); }
static inline uint32_t above(Vec a, Vec b) {
    return (uint32_t) _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ));
}
static inline Vec where_above(Vec a, Vec b, Vec yes, Vec no) {
    return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_GT_OQ));
}
static inline Vec power_of_two(Vec whole) {
    const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(whole), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
}
static inline Vec load_half(const void * at) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *) at));
}
static inline Vec load_brain(const void * at) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *) at));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
static inline Vec load_bytes(const void * at) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *) at)));
}
static inline void sum_four(Vec a, Vec b, Vec c, Vec d, float * out) {
    const __m256 all_four = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(all_four),
                                  _mm256_extractf128_ps(all_four, 1)));
}

#elif defined(LOCALSPEC_NEON)

constexpr int WIDTH = 4, MOST_ROWS = 6;
using Vec = float32x4_t;

static inline Vec zero() { return vdupq_n_f32(0.0f); }
static inline Vec all(float value) { return vdupq_n_f32(value); }
static inline Vec load(const float * at) { return vld1q_f32(at); }
static inline void store(float * at, Vec a) { vst1q_f32(at, a); }
static inline Vec add(Vec a, Vec b) { return vaddq_f32(a, b); }
static inline Vec sub(Vec a, Vec b) { return vsubq_f32(a, b); }
static inline Vec mul(Vec a, Vec b) { return vmulq_f32(a, b); }
static inline Vec div(Vec a, Vec b) { return vdivq_f32(a, b); }
static inline Vec fma(Vec a, Vec b, Vec c) { return vfmaq_f32(c, a, b); }
static inline Vec max(Vec a, Vec b) { return vmaxq_f32(a, b); }
static inline Vec min(Vec a, Vec b) { return vminq_f32(a, b); }
static inline Vec nearest(Vec a) { return vrndnq_f32(a); }
static inline uint32_t above(Vec a, Vec b) {
    static const uint32_t weights[4] = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32(vcgtq_f32(a, b), vld1q_u32(weights)));
}
static inline Vec where_above(Vec a, Vec b, Vec yes, Vec no) {
    return vbslq_f32(vcgtq_f32(a, b), yes, no);
}
static inline Vec power_of_two(Vec whole) {
    const int32x4_t exponent = vaddq_s32(vcvtq_s32_f32(whole), vdupq_n_s32(127));
    return vreinterpretq_f32_s32(vshlq_n_s32(exponent, 23));
}
static inline Vec load_half(const void * at) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16((const uint16_t *) at)));
}
static inline Vec load_brain(const void * at) {
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16((const uint16_t *) at), 16));
}
static inline Vec load_bytes(const void * at) {
    int32_t four;
    memcpy(&four, at, sizeof four);
    const int16x8_t wide = vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(four)));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide)));
}
static inline void sum_four(Vec a, Vec b, Vec c, Vec d, float * out) {
    vst1q_f32(out, vpaddq_f32(vpaddq_f32(a, b), vpaddq_f32(c, d)));
}

#else

constexpr int WIDTH = 4, MOST_ROWS = 2;
struct Vec {
    float at[WIDTH];
};

template <class F> static inline Vec fill(F number) {
    Vec made;
    for (int i = 0; i < WIDTH; ++i) made.at[i] = number(i);
    return made;
}
static inline Vec all(float value) { return fill([=](int) { return value; }); }
static inline Vec zero() { return all(0.0f); }
static inline Vec load(const float * at) { return fill([=](int i) { return at[i]; }); }
static inline void store(float * at, Vec a) { memcpy(at, a.at, sizeof a.at); }
static inline Vec add(Vec a, Vec b) { return fill([&](int i) { return a.at[i] + b.at[i]; }); }
static inline Vec sub(Vec a, Vec b) { return fill([&](int i) { return a.at[i] - b.at[i]; }); }
static inline Vec mul(Vec a, Vec b) { return fill([&](int i) { return a.at[i] * b.at[i]; }); }
static inline Vec div(Vec a, Vec b) { return fill([&](int i) { return a.at[i] / b.at[i]; }); }
static inline Vec fma(Vec a, Vec b, Vec c) {
#if defined(FP_FAST_FMAF)
    return fill([&](int i) { return std::fma(a.at[i], b.at[i], c.at[i]); });
#else
    return fill([&](int i) { return a.at[i] * b.at[i] + c.at[i]; });
#endif
}
static inline Vec where_above(Vec a, Vec b, Vec yes, Vec no) {
    return fill([&](int i) { return a.at[i] > b.at[i] ? yes.at[i] : no.at[i]; });
}
static inline Vec max(Vec a, Vec b) { return where_above(a, b, a, b); }
static inline Vec min(Vec a, Vec b) { return where_above(a, b, b, a); }
static inline Vec nearest(Vec a) { return fill([&](int i) { return std::nearbyint(a.at[i]); }); }
static inline uint32_t above(Vec a, Vec b) {
    uint32_t bits = 0;
    for (int i = 0; i < WIDTH; ++i) bits |= (uint32_t) (a.at[i] > b.at[i]) << i;
    return bits;
}
static inline Vec power_of_two(Vec whole) {
    return fill([&](int i) {
        const float exponent = whole.at[i];
        return std::fabs(exponent) < 128 ? std::ldexp(1.0f, (int) exponent) : 0.0f;
    });
}
static inline Vec load_half(const void * at) {
    return fill([=](int i) { return half_to_float(((const uint16_t *) at)[i]); });
}
static inline Vec load_brain(const void * at) {
    return fill([=](int i) { return brain_to_float(((const uint16_t *) at)[i]); });
}
static inline Vec load_bytes(const void * at) {
    return fill([=](int i) { return (float) ((const int8_t *) at)[i]; });
}
static inline void sum_four(Vec a, Vec b, Vec c, Vec d, float * out) {
    const Vec * each[4] = {&a, &b, &c, &d};
    for (int i = 0; i < 4; ++i) {
        const float * x = each[i]->at;
        out[i] = (x[0] + x[1]) + (x[2] + x[3]);
    }
}

#endif

// Asks for memory before it is needed, which no processor foresees for rows that lie apart.
static inline void fetch(const void * at, int bytes) {
#if defined(LOCALSPEC_AVX512) || defined(LOCALSPEC_AVX2)
    for (int i = 0; i < bytes; i += 64) _mm_prefetch((const char *) at + i, _MM_HINT_T0);
#elif defined(__GNUC__)
    for (int i = 0; i < bytes; i += 64) __builtin_prefetch((const char *) at + i);
#else
    (void) at, (void) bytes;
#endif
}

// Keeps a vector in a register: GCC would load it anew for every use.
template <class Any> static inline void hold(Any & a) {
#if defined(__GNUC__) && (defined(LOCALSPEC_AVX512) || defined(LOCALSPEC_AVX2))
    __asm__("" : "+v"(a));
#else
    (void) a;
#endif
}

#if !defined(LOCALSPEC_AVX512)  // no multiple of 8 leaves a part of a narrower vector
static inline Vec load_part(const float * at) { return load(at); }
static inline Vec load_half_part(const void * at) { return load_half(at); }
static inline Vec load_brain_part(const void * at) { return load_brain(at); }
#endif

static inline float first(Vec a) {
    float numbers[WIDTH];
    store(numbers, a);
    return numbers[0];
}

static inline float sum(Vec a) {
    float sums[4];
    sum_four(a, zero(), zero(), zero(), sums);
    return sums[0];
}

static inline float largest(Vec a) {
    float numbers[WIDTH], top;
    store(numbers, a);
    top = numbers[0];
    for (int i = 1; i < WIDTH; ++i) top = numbers[i] > top ? numbers[i] : top;
    return top;
}

// e to the power of x with an error below 1.5 units in the last place; 0 below -87.
static inline Vec exp(Vec x) {
    const Vec whole = nearest(mul(x, all(1.44269504f)));
    const Vec rest = fma(whole, all(2.12194440e-4f), fma(whole, all(-0.693359375f), x));
    Vec series = all(0.00138145406f);
    series = fma(series, rest, all(0.00836874545f));
    series = fma(series, rest, all(0.041668389f));
    series = fma(series, rest, all(0.166665211f));
    series = fma(series, rest, all(0.49999994f));
    series = add(fma(series, mul(rest, rest), rest), all(1.0f));
    return where_above(all(-87.0f), x, zero(), mul(series, power_of_two(whole)));
}

static inline float exp(float x) { return first(exp(all(x))); }

static inline Vec tanh(Vec x) {
    const Vec within = max(min(x, all(10.0f)), all(-10.0f));
    const Vec square = exp(add(within, within));
    return div(sub(square, all(1.0f)), add(square, all(1.0f)));
}

}  // namespace lanes
}  // namespace localspec
