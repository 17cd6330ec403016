// Attention of a few queries over one leaf: CELLS neighbouring cells of a KV cache.
//
// A query's result over a leaf depends on the query and on the cells that it may see. Which other
// queries share the work decides about speed alone: every sum has one order.
#pragma once

#include "float_rows.h"

#include <algorithm>

namespace localspec {
namespace attention {

constexpr int CELLS = 128;   // of a leaf
constexpr int QUERIES = 48;  // of a tile: query heads of one head of keys, of one row or several

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

// Values to be mixed: vectors [from, to) of the cells that some queries may see.
struct Mixing {
    Rows values;
    Ahead next;
    const Sight * sight;
    int from, to;
};

// Adds up D vectors of values for N queries, cell after cell.
template <class Values, int N, int D>
static void mix(const float * const * weights, const Mixing & of, int from, float * const * sums) {
    Vec mixed[N][D];
    for (int n = 0; n < N; ++n)
        for (int d = 0; d < D; ++d) mixed[n][d] = lanes::zero();
    for (int c = 0; c < of.sight->count; ++c) {
        const int cell = of.sight->cells[c];
        const char * row = of.values.at(cell);
        if (from == 0 && of.next.base) of.next.fetch(cell);
        Vec weight[N];
        for (int n = 0; n < N; ++n) weight[n] = lanes::all(weights[n][cell]);
        for (int d = 0; d < D; ++d) {
            const int i = from + d * WIDTH;
            const bool part = D == 1 && i + WIDTH > of.values.size;
            const Vec value = part ? Values::part(row, i, of.values.size) : Values::at(row, i);
            for (int n = 0; n < N; ++n) mixed[n][d] = lanes::fma(weight[n], value, mixed[n][d]);
        }
    }
    for (int n = 0; n < N; ++n)
        for (int d = 0; d < D; ++d) lanes::store(sums[n] + from + d * WIDTH, mixed[n][d]);
}

template <class Values, int N>
static void mix_span(const float * const * weights, const Mixing & of, float * const * sums) {
    constexpr int MOST = N <= 3 ? 8 : 4;  // vectors of sums that registers hold
    int i = of.from;
    for (; i + MOST * WIDTH <= of.to; i += MOST * WIDTH)
        mix<Values, N, MOST>(weights, of, i, sums);
    for (; i + 4 * WIDTH <= of.to; i += 4 * WIDTH) mix<Values, N, 4>(weights, of, i, sums);
    for (; i < of.to; i += WIDTH) mix<Values, N, 1>(weights, of, i, sums);
}

// Mixes the values of up to MOST queries.
template <class Values, int MOST = lanes::MOST_ROWS>
static void mix_values(int n, const float * const * weights, const Mixing & of,
                       float * const * sums) {
    if (n == MOST) return mix_span<Values, MOST>(weights, of, sums);
    if constexpr (MOST > 1) mix_values<Values, MOST - 1>(n, weights, of, sums);
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
