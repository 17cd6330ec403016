// Rows of numbers, as floats or narrower, and their products with rows of floats.
#pragma once

#include "float_lanes.h"
#include "looks_ahead.h"

#include <cstddef>

namespace localspec {

using lanes::Vec;
using lanes::WIDTH;

// Rows of memory that are read later on.
struct Ahead {
    const char * base;  // nullptr: nothing is
    size_t stride;
    int bytes;
    void fetch(int index) const { lanes::fetch(base + (size_t) index * stride, bytes); }
};

// Rows of a matrix, of keys or of values: their place, the bytes from one to the next, the
// numbers in each.
struct Rows {
    const char * base;
    size_t stride;
    int size;
    const char * at(int index) const { return base + (size_t) index * stride; }
};

// What is asked for ahead: nothing, four rows that follow in one piece, or the rows at hand.
enum class Next { NOTHING, FOUR_ROWS, SAME_ROWS };

// The part of a product's sum that is added up at once, and where sums wait between the parts.
struct Stretch {
    int from, to;
    float * sums;  // of N x 4 vectors; not used by a stretch that is the whole row
    Next next;
};

// Memory is read fastest in its own order, which trains the processor to read ahead: twice as fast
// as four short rows at a time. Long rows are read well four at a time.
constexpr int ONE_BY_ONE = 8192;    // bytes of a row up to which a single row of numbers takes one
constexpr int FOUR_AT_ONCE = 4096;  // bytes up to which four rows are asked for in one piece

// How numbers are stored, unpacked, and multiplied by those of the other factor.
struct Singles {
    using Pack = Vec;
    static constexpr int STEP = WIDTH, BYTES = 4;
    static Vec at(const char * row, int i) { return lanes::load((const float *) row + i); }
    static Vec part(const char * row, int i, int) {
        return lanes::load_part((const float *) row + i);
    }
    static Vec number(const void * x, int i) { return lanes::load((const float *) x + i); }
    static Vec some(const void * x, int i, int) { return lanes::load_part((const float *) x + i); }
    static Vec add(Vec a, Vec b, Vec sum) { return lanes::fma(a, b, sum); }
};
struct Halves : Singles {
    static constexpr int BYTES = 2;
    static Vec at(const char * row, int i) { return lanes::load_half(row + 2 * i); }
    static Vec part(const char * row, int i, int) { return lanes::load_half_part(row + 2 * i); }
};
struct Brains : Singles {
    static constexpr int BYTES = 2;
    static Vec at(const char * row, int i) { return lanes::load_brain(row + 2 * i); }
    static Vec part(const char * row, int i, int) { return lanes::load_brain_part(row + 2 * i); }
};
#if defined(LOCALSPEC_AVX512) && defined(__AVX512BF16__)
#define LOCALSPEC_BRAIN_PAIRS
// Both factors in BF16: twice as many products at a time.
struct BrainPairs {
    using Pack = __m512bh;
    static constexpr int STEP = 2 * WIDTH, BYTES = 2;
    static Pack at(const char * row, int i) {
        return (Pack) _mm512_loadu_si512((const __m512i *) (row + 2 * i));
    }
    static Pack part(const char * row, int i, int size) {
        return (Pack) _mm512_maskz_loadu_epi16((1u << (size - i)) - 1, row + 2 * i);
    }
    static Pack number(const void * x, int i) { return at((const char *) x, i); }
    static Pack some(const void * x, int i, int size) { return part((const char *) x, i, size); }
    static Vec add(Pack a, Pack b, Vec sum) { return _mm512_dpbf16_ps(sum, a, b); }
};
#endif

// Up to MOST_ROWS rows of numbers that meet four rows of a matrix, and where each one's four
// products go.
struct Factors {
    const void * numbers[lanes::MOST_ROWS];
    float * products[lanes::MOST_ROWS];
    int count;
    int four[4];

    Factors(int count, int first, int last) : count(count) {
        for (int j = 0; j < 4; ++j) four[j] = first + j < last ? first + j : last;
    }
};

// Multiplies N rows by four rows of a matrix, over a stretch of them. Each product is a sum of its
// own, whose order depends on the length of a row alone.
template <class Kind, int N>
static void multiply_four(const Factors & of, const Rows & matrix, const Stretch & stretch) {
    using Pack = typename Kind::Pack;
    const char * row[4];
    for (int j = 0; j < 4; ++j) row[j] = matrix.at(of.four[j]);
    const char * after = matrix.at(of.four[0] + 4);
    Vec sums[N][4];
    for (int n = 0; n < N; ++n)
        for (int j = 0; j < 4; ++j)
            sums[n][j] = stretch.from ? lanes::load(stretch.sums + (4 * n + j) * WIDTH)
                                      : lanes::zero();
    int i = stretch.from;
    for (int j = 0; N == 1 && Kind::BYTES * matrix.size <= ONE_BY_ONE && j < 4; ++j)
        for (i = stretch.from; i + Kind::STEP <= stretch.to; i += Kind::STEP) {
            if (!LOOKS_AHEAD) lanes::fetch(row[j] + Kind::BYTES * i + FAR_AHEAD, 1);
            sums[0][j] = Kind::add(Kind::number(of.numbers[0], i), Kind::at(row[j], i), sums[0][j]);
        }
    for (; i + Kind::STEP <= stretch.to; i += Kind::STEP) {
        Pack weight[4];
        for (int j = 0; j < 4; ++j) weight[j] = Kind::at(row[j], i);
        if (stretch.next == Next::FOUR_ROWS)
            lanes::fetch(after + 4 * Kind::BYTES * i, 4 * Kind::BYTES * Kind::STEP);
        for (int j = 0; stretch.next == Next::SAME_ROWS && j < 4; ++j)
            lanes::fetch(row[j] + Kind::BYTES * i + 1024, 1);
        for (int n = 0; n < N; ++n) {
            Pack number = Kind::number(of.numbers[n], i);
            lanes::hold(number);
            for (int j = 0; j < 4; ++j) sums[n][j] = Kind::add(number, weight[j], sums[n][j]);
        }
    }
    for (int n = 0; i < stretch.to && n < N; ++n) {
        const Pack number = Kind::some(of.numbers[n], i, matrix.size);
        for (int j = 0; j < 4; ++j)
            sums[n][j] = Kind::add(number, Kind::part(row[j], i, matrix.size), sums[n][j]);
    }
    for (int n = 0; n < N; ++n) {
        if (stretch.to == matrix.size)
            lanes::sum_four(sums[n][0], sums[n][1], sums[n][2], sums[n][3], of.products[n]);
        for (int j = 0; stretch.to < matrix.size && j < 4; ++j)
            lanes::store(stretch.sums + (4 * n + j) * WIDTH, sums[n][j]);
    }
}

// Multiplies up to MOST rows by four rows of a matrix.
template <class Kind, int MOST = lanes::MOST_ROWS>
static void multiply(const Factors & of, const Rows & matrix, const Stretch & stretch) {
    if (of.count == MOST) return multiply_four<Kind, MOST>(of, matrix, stretch);
    if constexpr (MOST > 1) multiply<Kind, MOST - 1>(of, matrix, stretch);
}

}  // namespace localspec
