// What a thread does at a time: a tile of queries over a span of leaves.
#pragma once

#include "attention_job.h"

namespace localspec {
namespace attention {

constexpr int AHEAD = 8;    // cells whose keys are on their way from memory
constexpr int LEVELS = 32;  // of pairs of leaves: more than any cache has

// One tile of queries over one span of leaves, in a thread's own memory.
class Task {
  public:
    Task(const Job & whole, float * memory) : job(whole) {
        queries = memory;
        scores = queries + (int64_t) job.tile * job.key_size;
        float * after = scores + (int64_t) job.tile * CELLS;
        sights = after;
        sight_floats = pad((sizeof(Sight) + 3) / 4);
        nodes = after + sight_floats * std::min(job.tile, job.rows);
        unpacked = nodes + job.depth * job.node_floats(job.tile);
    }

    // Returns the state of the tile's queries over the span.
    Node run(int index) {
        place(index);
        int top = 0, levels[LEVELS];
        const int last = std::min(job.leaves, (span_index + 1) * job.span);
        for (int leaf = span_index * job.span; leaf < last; ++leaf) {
            over(leaf, node(top));
            levels[top++] = 0;
            while (top > 1 && levels[top - 1] == levels[top - 2]) merge(top, levels);
        }
        while (top > 1) merge(top, levels);
        return node(0);
    }

    int first, count, stream, kv_head, span_index;  // of the queries of this stream and head

    int row_of(int query) const { return (first + query) / job.group; }
    int head_of(int query) const { return kv_head * job.group + (first + query) % job.group; }

  private:
    const Job & job;
    float *queries, *scores, *sights, *nodes, *unpacked;
    int64_t sight_floats;
    float slopes[QUERIES];
    bool needed[CELLS / 4];

    Node node(int level) {
        return node_at(nodes + level * job.node_floats(job.tile), job.tile);
    }
    Sight & sight_of(int row) {
        return *(Sight *) (sights + (row - row_of(0)) * sight_floats);
    }
    Sight & sight(int query) { return sight_of(row_of(query)); }

    void merge(int & top, int * levels) {
        for (int n = 0; n < count; ++n) join(node(top - 2), node(top - 1), n, job.value_size);
        ++levels[top - 2];
        --top;
    }

    void place(int index);
    void over(int leaf, const Node & result);
    void look(int leaf);
    void see(Sight & at, int row, int leaf);
    const char * row(const ggml_tensor * tensor, int cell) const {
        return (const char *) tensor->data + (int64_t) cell * tensor->nb[1] +
               kv_head * tensor->nb[2] + stream * tensor->ne[3] / job.streams * tensor->nb[3];
    }
    Ahead ahead(const ggml_tensor * tensor, int cell) const {
        return {row(tensor, cell), tensor->nb[1],
                (int) ggml_row_size(tensor->type, tensor->ne[0])};
    }
    Rows rows(const ggml_tensor * tensor, int leaf, int padded);
    void score(int leaf, const int * active, int length);
    void weigh(int leaf, const int * active, int length, const Node & result);
};

// Finds the task's tile, last rows first: they see the most.
inline void Task::place(int index) {
    const int tile = job.tiles - 1 - index % job.tiles;
    index /= job.tiles;
    span_index = index % job.spans;
    index /= job.spans;
    kv_head = index % job.kv_heads;
    stream = index / job.kv_heads;
    first = tile * job.tile;
    count = std::min(job.tile, job.rows * job.group - first);
    for (int n = 0; n < count; ++n) {
        const char * from = (const char *) job.q->data + row_of(n) * job.q->nb[1] +
                            head_of(n) * job.q->nb[2] + stream * job.q->nb[3];
        float * to = queries + (int64_t) n * job.key_size;
        memcpy(to, from, job.q->ne[0] * sizeof(float));
        std::fill(to + job.q->ne[0], to + job.key_size, 0.0f);
        slopes[n] = slope_of(job, head_of(n));
    }
}

// Notes which cells of a leaf a row may see.
inline void Task::see(Sight & at, int row, int leaf) {
    const int from = leaf * CELLS, length = std::min(CELLS, job.cells - from);
    std::fill(at.bias, at.bias + CELLS, -INFINITY);
    const char * mask = job.mask ? (const char *) job.mask->data + row * job.mask->nb[1] +
                                       (stream % job.mask->ne[3]) * job.mask->nb[3] + 2 * from
                                 : nullptr;
    int i = 0;
    if (!mask) std::fill(at.bias, at.bias + length, 0.0f);
    for (; mask && i + WIDTH <= length; i += WIDTH)
        lanes::store(at.bias + i, lanes::load_half(mask + 2 * i));
    for (; mask && i < length; ++i)
        at.bias[i] = lanes::half_to_float(((const uint16_t *) mask)[i]);
    at.count = 0;
    const Vec closed = lanes::all(-INFINITY);
    for (i = 0; i < CELLS; i += WIDTH) {
        const uint32_t open = lanes::above(lanes::load(at.bias + i), closed);
        for (int j = 0; open && j < WIDTH; ++j) {
            at.cells[at.count] = (uint8_t) (i + j);
            at.count += open >> j & 1;
        }
        for (int j = 0; j < WIDTH; j += 4) needed[(i + j) / 4] |= (open >> j & 15) != 0;
    }
}

inline void Task::look(int leaf) {
    std::fill(needed, needed + CELLS / 4, false);
    for (int row = row_of(0); row <= row_of(count - 1); ++row) see(sight_of(row), row, leaf);
}

// Finds a leaf's rows of keys or values; unpacks those in blocks.
inline Rows Task::rows(const ggml_tensor * tensor, int leaf, int padded) {
    const char * base = row(tensor, leaf * CELLS);
    const int size = (int) tensor->ne[0];
    if (!packed(tensor)) return {base, tensor->nb[1], size};
    const int length = std::min(CELLS, job.cells - leaf * CELLS);
    const ggml_to_float_t unpack = ggml_get_type_traits(tensor->type)->to_float;
    for (int c = 0; c < length; ++c)
        if (needed[c / 4]) unpack(base + c * tensor->nb[1], unpacked + (int64_t) c * padded, size);
    return {(const char *) unpacked, padded * sizeof(float), size};
}

inline void Task::score(int leaf, const int * active, int length) {
    const Rows keys = rows(job.k, leaf, job.key_size);
    const Ahead keys_ahead = ahead(job.k, leaf * CELLS + AHEAD);
    const Ahead values_ahead = ahead(job.v, leaf * CELLS);
    const int last = std::min(CELLS, job.cells - leaf * CELLS) - 1;
    const auto kernel = job.k->type == GGML_TYPE_F16    ? multiply<Halves>
                        : job.k->type == GGML_TYPE_BF16 ? multiply<Brains>
                                                        : multiply<Singles>;
    const int groups = (length + lanes::MOST_ROWS - 1) / lanes::MOST_ROWS;
    for (int c = 0; c <= last; c += 4) {
        if (!needed[c / 4]) continue;
        for (int i = c; i < c + 4; ++i) keys_ahead.fetch(i), values_ahead.fetch(i);
        for (int g = 0; g < groups; ++g) {
            const int begin = g * length / groups, end = (g + 1) * length / groups;
            Factors of(end - begin, c, last);
            for (int n = begin; n < end; ++n) {
                of.numbers[n - begin] = queries + (int64_t) active[n] * job.key_size;
                of.products[n - begin] = scores + (int64_t) active[n] * CELLS + c;
            }
            kernel(of, keys, {0, keys.size, nullptr, Next::NOTHING});
        }
    }
}

// Mixes the values: together for queries that see the same cells.
inline void Task::weigh(int leaf, const int * active, int length, const Node & result) {
    Mixing of = {rows(job.v, leaf, job.value_size), {}, nullptr, 0, 0};
    if (job.tiles == 1) of.next = ahead(job.k, (leaf + 1) * CELLS);
    const auto kernel = job.v->type == GGML_TYPE_F16    ? mix_values<Halves>
                        : job.v->type == GGML_TYPE_BF16 ? mix_values<Brains>
                                                        : mix_values<Singles>;
    for (; of.from < of.values.size; of.from = of.to) {
        of.to = std::min(of.from + 8 * WIDTH, of.values.size);
        for (int begin = 0, end; begin < length; begin = end) {
            const Sight & seen = sight(active[begin]);
            const auto alike = [&](const Sight & other) {
                return &other == &seen || (other.count == CELLS && seen.count == CELLS);
            };
            int run = begin + 1;
            while (run < length && alike(sight(active[run]))) ++run;
            const int groups = (run - begin + lanes::MOST_ROWS - 1) / lanes::MOST_ROWS;
            end = begin + (run - begin) / groups;
            const float * weights[lanes::MOST_ROWS];
            float * sums[lanes::MOST_ROWS];
            for (int n = begin; n < end; ++n) {
                weights[n - begin] = scores + (int64_t) active[n] * CELLS;
                sums[n - begin] = result.sums + (int64_t) active[n] * job.value_size;
            }
            of.sight = &seen;
            kernel(end - begin, weights, of, sums);
        }
    }
}

// Computes the tile's state over one leaf.
inline void Task::over(int leaf, const Node & result) {
    look(leaf);
    int active[QUERIES], length = 0;
    for (int n = 0; n < count; ++n) {
        result.tops[n] = -INFINITY;
        result.totals[n] = 0.0f;
        if (sight(n).count) active[length++] = n;
    }
    if (!length) return;
    score(leaf, active, length);
    for (int i = 0; i < length; ++i) {
        const int n = active[i];
        result.totals[n] = soften(scores + (int64_t) n * CELLS, sight(n),
                                  {job.scale, job.softcap}, slopes[n], result.tops[n]);
    }
    weigh(leaf, active, length, result);
}

}  // namespace attention
}  // namespace localspec
