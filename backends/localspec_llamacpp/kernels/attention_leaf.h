// Attention of a few queries over one leaf: CELLS neighbouring cells of a KV cache.
//
// A query's result over a leaf depends on the query and on the cells that it may see. Which other
// queries share the work decides about speed alone: every sum has one order.
#pragma once

#include "float_lanes.h"

#include <algorithm>

namespace localspec {
namespace attention {

using lanes::Vec;
using lanes::WIDTH;

constexpr int CELLS = 128;   // of a leaf
constexpr int QUERIES = 48;  // of a tile: query heads of one head of keys, of one row or several

// Rows of memory that are read later on, cell for cell.
struct Ahead {
    const char * base;  // nullptr: nothing is
    size_t stride;
    int bytes;
    void fetch(int index) const { lanes::fetch(base + (size_t) index * stride, bytes); }
};

// Rows of keys or values: a base, the bytes from cell to cell, the numbers in a row.
struct Rows {
    const char * base;
    size_t stride;
    int size;
    Ahead next;
    const char * cell(int index) const { return base + (size_t) index * stride; }
};

struct Singles {
    static Vec at(const char * row, int i) { return lanes::load((const float *) row + i); }
    static Vec part(const char * row, int i) { return lanes::load_part((const float *) row + i); }
};
struct Halves {
    static Vec at(const char * row, int i) { return lanes::load_half(row + 2 * i); }
    static Vec part(const char * row, int i) { return lanes::load_half_part(row + 2 * i); }
};
struct Brains {
    static Vec at(const char * row, int i) { return lanes::load_brain(row + 2 * i); }
    static Vec part(const char * row, int i) { return lanes::load_brain_part(row + 2 * i); }
};

// The cells of a leaf that a row of the batch may see, and what its mask adds to their scores.
struct Sight {
    float bias[CELLS];
    uint8_t cells[CELLS];
    int count;
};

// The state of queries over a span of cells: largest score, sum of weights, weighted values.
struct Node {
    float * tops;
    float * totals;
    float * sums;
};

struct Scoring {
    float scale, softcap;
};

// Multiplies N queries by four rows of keys.
template <class Keys, int N>
static void score_four(const float * const * queries, const Rows & keys, const int * cells,
                       float * const * scores) {
    const char * k[4];
    for (int j = 0; j < 4; ++j) k[j] = keys.cell(cells[j]);
    Vec sums[N][4];
    for (int n = 0; n < N; ++n)
        for (int j = 0; j < 4; ++j) sums[n][j] = lanes::zero();
    int i = 0;
    for (; i + WIDTH <= keys.size; i += WIDTH) {
        Vec key[4];
        for (int j = 0; j < 4; ++j) key[j] = Keys::at(k[j], i);
        for (int n = 0; n < N; ++n) {
            Vec query = lanes::load(queries[n] + i);
            lanes::hold(query);
            for (int j = 0; j < 4; ++j) sums[n][j] = lanes::fma(query, key[j], sums[n][j]);
        }
    }
    if (i < keys.size) {
        for (int n = 0; n < N; ++n) {
            const Vec query = lanes::load(queries[n] + i);
            for (int j = 0; j < 4; ++j)
                sums[n][j] = lanes::fma(query, Keys::part(k[j], i), sums[n][j]);
        }
    }
    for (int n = 0; n < N; ++n)
        lanes::sum_four(sums[n][0], sums[n][1], sums[n][2], sums[n][3], scores[n]);
}

// Adds up D vectors of values for N queries, cell after cell.
template <class Values, int N, int D>
static void mix(const float * const * weights, const Rows & values, const Sight & sight, int from,
                float * const * sums) {
    Vec mixed[N][D];
    for (int n = 0; n < N; ++n)
        for (int d = 0; d < D; ++d) mixed[n][d] = lanes::zero();
    for (int c = 0; c < sight.count; ++c) {
        const int cell = sight.cells[c];
        const char * row = values.cell(cell);
        if (from == 0 && values.next.base) values.next.fetch(cell);
        Vec weight[N];
        for (int n = 0; n < N; ++n) weight[n] = lanes::all(weights[n][cell]);
        for (int d = 0; d < D; ++d) {
            const int i = from + d * WIDTH;
            const Vec value = Values::at(row, i);
            for (int n = 0; n < N; ++n) mixed[n][d] = lanes::fma(weight[n], value, mixed[n][d]);
        }
    }
    for (int n = 0; n < N; ++n)
        for (int d = 0; d < D; ++d) lanes::store(sums[n] + from + d * WIDTH, mixed[n][d]);
}

// Adds up the last half vector of values.
template <class Values, int N>
static void mix_part(const float * const * weights, const Rows & values, const Sight & sight,
                     int from, float * const * sums) {
    Vec mixed[N];
    for (int n = 0; n < N; ++n) mixed[n] = lanes::zero();
    for (int c = 0; c < sight.count; ++c) {
        const int cell = sight.cells[c];
        const Vec value = Values::part(values.cell(cell), from);
        for (int n = 0; n < N; ++n)
            mixed[n] = lanes::fma(lanes::all(weights[n][cell]), value, mixed[n]);
    }
    for (int n = 0; n < N; ++n) lanes::store(sums[n] + from, mixed[n]);
}

// Mixes the vectors [from, to) of N queries' values.
template <class Values, int N>
static void mix_span(const float * const * weights, const Rows & values, const Sight & sight,
                     int from, int to, float * const * sums) {
    int i = from;
    if (N <= 3)
        for (; i + 8 * WIDTH <= to; i += 8 * WIDTH)
            mix<Values, N, N <= 3 ? 8 : 1>(weights, values, sight, i, sums);
    for (; i + 4 * WIDTH <= to; i += 4 * WIDTH)
        mix<Values, N, 4>(weights, values, sight, i, sums);
    for (; i + WIDTH <= to; i += WIDTH) mix<Values, N, 1>(weights, values, sight, i, sums);
    if (i < to) mix_part<Values, N>(weights, values, sight, i, sums);
}

// Turns scores into weights, returns their sum, and sets the largest score.
static float soften(float * scores, const Sight & sight, Scoring scoring, float slope,
                    float & top) {
    const Vec closed = lanes::all(-INFINITY);
    Vec largest = closed;
    for (int i = 0; i < CELLS; i += WIDTH) {
        const Vec bias = lanes::load(sight.bias + i), sloped = lanes::mul(bias, lanes::all(slope));
        Vec score = lanes::load(scores + i);
        if (scoring.softcap == 0.0f) {
            score = lanes::fma(score, lanes::all(scoring.scale), sloped);
        } else {
            score = lanes::tanh(lanes::mul(score, lanes::all(scoring.scale)));
            score = lanes::fma(score, lanes::all(scoring.softcap), sloped);
        }
        score = lanes::where_above(bias, closed, score, closed);
        lanes::store(scores + i, score);
        largest = lanes::max(score, largest);  // in this order x86 passes over what is no number
    }
    top = lanes::largest(largest);
    Vec total = lanes::zero();
    for (int i = 0; i < CELLS; i += WIDTH) {
        const Vec weight = lanes::exp(lanes::sub(lanes::load(scores + i), lanes::all(top)));
        lanes::store(scores + i, weight);
        total = lanes::add(total, weight);
    }
    return lanes::sum(total);
}

// Joins a query's state over later cells, `right`, to that over earlier ones. A total of 0 says
// that it may see none of the cells.
static void join(const Node & left, const Node & right, int query, int size) {
    float * a = left.sums + (size_t) query * size;
    const float * b = right.sums + (size_t) query * size;
    if (right.totals[query] == 0.0f) return;
    if (left.totals[query] == 0.0f) {
        left.tops[query] = right.tops[query];
        left.totals[query] = right.totals[query];
        memcpy(a, b, size * sizeof(float));
        return;
    }
    const float top = std::max(left.tops[query], right.tops[query]);
    const float x = lanes::exp(left.tops[query] - top), y = lanes::exp(right.tops[query] - top);
    const Vec wide_x = lanes::all(x), wide_y = lanes::all(y);
    left.tops[query] = top;
    left.totals[query] = lanes::first(lanes::fma(lanes::all(right.totals[query]), wide_y,
                                      lanes::all(left.totals[query] * x)));
    for (int i = 0; i < size; i += WIDTH) {
        const Vec scaled = lanes::mul(lanes::load(a + i), wide_x);
        lanes::store(a + i, lanes::fma(lanes::load(b + i), wide_y, scaled));
    }
}

}  // namespace attention
}  // namespace localspec
