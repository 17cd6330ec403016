// Flash attention whose rows do not depend on what stands beside them.
//
// The cells of a cache are cut into leaves at fixed places. A leaf yields its largest score, the
// sum of its weights and the weighted values; leaves are joined in pairs, pairs in pairs, by their
// place alone. Threads, neighbours and cells that a row may not see change no bit of it.
#include "attention.h"

#include "attention_leaf.h"

#include "ggml-cpu-impl.h"
#include "ggml.h"

#include <cmath>

extern "C" {
void ggml_barrier(struct ggml_threadpool * pool);
void ggml_threadpool_chunk_set(struct ggml_threadpool * pool, int value);
int ggml_threadpool_chunk_add(struct ggml_threadpool * pool, int value);
}

namespace localspec {
namespace attention {

constexpr int TASKS = 8;    // per thread, so that a late thread delays nobody for long
constexpr int LEVELS = 32;  // of pairs of leaves: more than any cache has

static int64_t pad(int64_t size) { return (size + 15) / 16 * 16; }

// The operation: its tensors, and how they are cut into tasks.
struct Job {
    const ggml_tensor *op, *q, *k, *v, *mask, *sinks;
    int rows, streams, kv_heads, group;  // group: query heads per head of keys
    int cells, leaves, depth;
    int key_size, value_size;  // padded
    int tile, tiles, span, spans;
    float scale, max_bias, softcap;

    int tasks() const { return streams * kv_heads * tiles * spans; }
    int64_t queries() const { return (int64_t) streams * kv_heads * rows * group; }
    int64_t node_floats(int64_t count) const { return 2 * pad(count) + count * value_size; }
    int64_t thread_floats() const;
    int64_t bytes(int threads) const;
};

static bool packed(const ggml_tensor * tensor) {
    return tensor->type != GGML_TYPE_F16 && tensor->type != GGML_TYPE_F32 &&
           tensor->type != GGML_TYPE_BF16;
}

int64_t Job::thread_floats() const {
    const int64_t sights = pad((sizeof(Sight) + 3) / 4) * std::min(tile, rows);
    const int64_t unpacked =
        packed(k) || packed(v) ? (int64_t) CELLS * std::max(key_size, value_size) : 0;
    return (int64_t) tile * (key_size + CELLS) + sights + depth * node_floats(tile) + unpacked;
}

int64_t Job::bytes(int threads) const {
    const int64_t parts = spans > 1 ? spans * node_floats(queries()) : 0;
    return 4 * (threads * pad(thread_floats()) + parts) + 64;
}

// Cuts a job into enough tasks for the threads: by rows first, then by spans of leaves.
static void cut(Job & job, int threads) {
    const int total = job.rows * job.group, heads = job.streams * job.kv_heads;
    const int most = lanes::MOST_ROWS;
    job.tiles = (total + QUERIES - 1) / QUERIES;
    while (job.tiles * most < total && heads * job.tiles * job.leaves < threads) ++job.tiles;
    job.tile = (total + job.tiles - 1) / job.tiles;
    if (job.tile > most) job.tile = (job.tile + most - 1) / most * most;
    job.tile = std::min(job.tile, total);
    job.tiles = (total + job.tile - 1) / job.tile;
    job.span = 1;
    while (job.span < job.leaves) job.span *= 2;
    job.spans = 1;
    const int enough = threads == 1 ? 1 : TASKS * threads;
    while (job.span > 1 && heads * job.tiles * job.spans < enough) {
        job.span /= 2;
        job.spans = (job.leaves + job.span - 1) / job.span;
    }
    job.depth = 2;
    for (int leaves = 1; leaves < job.span; leaves *= 2) ++job.depth;
}

static Job job_of(const ggml_tensor * op, int threads) {
    Job job = {};
    job.op = op;
    job.q = op->src[0], job.k = op->src[1], job.v = op->src[2];
    job.mask = op->src[3], job.sinks = op->src[4];
    job.rows = (int) job.q->ne[1], job.streams = (int) job.q->ne[3];
    job.kv_heads = (int) job.k->ne[2], job.group = (int) (job.q->ne[2] / job.k->ne[2]);
    job.cells = (int) job.k->ne[1], job.leaves = (job.cells + CELLS - 1) / CELLS;
    job.key_size = (int) pad(job.k->ne[0]), job.value_size = (int) pad(job.v->ne[0]);
    const float * numbers = (const float *) op->op_params;
    job.scale = numbers[0], job.max_bias = numbers[1], job.softcap = numbers[2];
    if (job.softcap != 0.0f) job.scale /= job.softcap;
    cut(job, threads);
    return job;
}

static float slope_of(const Job & job, int head) {
    if (job.max_bias <= 0.0f) return 1.0f;
    const int heads = job.kv_heads * job.group;
    const int power = 1 << (int) std::floor(std::log2((double) heads));
    if (head < power) return std::pow(std::pow(2.0f, -job.max_bias / power), head + 1.0f);
    return std::pow(std::pow(2.0f, -job.max_bias / 2.0f / power), 2.0f * (head - power) + 1.0f);
}

static Node node_at(float * memory, int64_t count) {
    return {memory, memory + pad(count), memory + 2 * pad(count)};
}

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
    Rows rows(const ggml_tensor * tensor, int leaf, int padded);
    void score(int leaf, const int * active, int length);
    void weigh(int leaf, const int * active, int length, const Node & result);
};

// Finds the task's tile, last rows first: they see the most.
void Task::place(int index) {
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
void Task::see(Sight & at, int row, int leaf) {
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

void Task::look(int leaf) {
    std::fill(needed, needed + CELLS / 4, false);
    for (int row = row_of(0); row <= row_of(count - 1); ++row) see(sight_of(row), row, leaf);
}

// Finds a leaf's rows of keys or values; unpacks those in blocks.
Rows Task::rows(const ggml_tensor * tensor, int leaf, int padded) {
    const char * base = (const char *) tensor->data + (int64_t) leaf * CELLS * tensor->nb[1] +
                        kv_head * tensor->nb[2] +
                        stream * tensor->ne[3] / job.streams * tensor->nb[3];
    const int size = (int) tensor->ne[0];
    if (!packed(tensor)) return {base, tensor->nb[1], size};
    const int length = std::min(CELLS, job.cells - leaf * CELLS);
    const ggml_to_float_t unpack = ggml_get_type_traits(tensor->type)->to_float;
    for (int c = 0; c < length; ++c)
        if (needed[c / 4]) unpack(base + c * tensor->nb[1], unpacked + (int64_t) c * padded, size);
    return {(const char *) unpacked, padded * sizeof(float), size};
}

template <class Keys>
static void score_cells(int n, const float * const * q, const Rows & keys, const int * cells,
                        float * const * out) {
    switch (n) {
        case 1: return score_four<Keys, 1>(q, keys, cells, out);
        case 2: return score_four<Keys, 2>(q, keys, cells, out);
        case 3: return score_four<Keys, 3>(q, keys, cells, out);
        case 4: return score_four<Keys, 4>(q, keys, cells, out);
        case 5: return score_four<Keys, 5>(q, keys, cells, out);
        case 6: return score_four<Keys, 6>(q, keys, cells, out);
    }
}

template <class Values>
static void mix_values(int n, const float * const * weights, const Rows & values,
                       const Sight & sight, int from, int to, float * const * sums) {
    switch (n) {
        case 1: return mix_span<Values, 1>(weights, values, sight, from, to, sums);
        case 2: return mix_span<Values, 2>(weights, values, sight, from, to, sums);
        case 3: return mix_span<Values, 3>(weights, values, sight, from, to, sums);
        case 4: return mix_span<Values, 4>(weights, values, sight, from, to, sums);
        case 5: return mix_span<Values, 5>(weights, values, sight, from, to, sums);
        case 6: return mix_span<Values, 6>(weights, values, sight, from, to, sums);
    }
}

void Task::score(int leaf, const int * active, int length) {
    const Rows keys = rows(job.k, leaf, job.key_size);
    const int last = std::min(CELLS, job.cells - leaf * CELLS) - 1;
    const auto kernel = job.k->type == GGML_TYPE_F16    ? score_cells<Halves>
                        : job.k->type == GGML_TYPE_BF16 ? score_cells<Brains>
                                                        : score_cells<Singles>;
    const int groups = (length + lanes::MOST_ROWS - 1) / lanes::MOST_ROWS;
    for (int c = 0; c <= last; c += 4) {
        if (!needed[c / 4]) continue;
        const int cells[4] = {c, std::min(c + 1, last), std::min(c + 2, last),
                              std::min(c + 3, last)};
        for (int g = 0; g < groups; ++g) {
            const int begin = g * length / groups, end = (g + 1) * length / groups;
            const float * q[lanes::MOST_ROWS];
            float * out[lanes::MOST_ROWS];
            for (int n = begin; n < end; ++n) {
                q[n - begin] = queries + (int64_t) active[n] * job.key_size;
                out[n - begin] = scores + (int64_t) active[n] * CELLS + c;
            }
            kernel(end - begin, q, keys, cells, out);
        }
    }
}

// Mixes the values: together for queries that see the same cells.
void Task::weigh(int leaf, const int * active, int length, const Node & result) {
    const Rows values = rows(job.v, leaf, job.value_size);
    const auto kernel = job.v->type == GGML_TYPE_F16    ? mix_values<Halves>
                        : job.v->type == GGML_TYPE_BF16 ? mix_values<Brains>
                                                        : mix_values<Singles>;
    for (int from = 0; from < values.size; from += 8 * WIDTH) {
        const int to = std::min(from + 8 * WIDTH, values.size);
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
            kernel(end - begin, weights, values, seen, from, to, sums);
        }
    }
}

// Computes the tile's state over one leaf.
void Task::over(int leaf, const Node & result) {
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

// Writes a query's finished row.
static void finish(const Job & job, const Node & node, int query, int row, int head, int stream) {
    float top = node.tops[query], total = node.totals[query], share = 1.0f;
    if (job.sinks) {
        const float sink = ((const float *) job.sinks->data)[head];
        const float higher = std::max(top, sink);
        share = top == -INFINITY ? 0.0f : lanes::exp(top - higher);
        total = lanes::first(lanes::fma(lanes::all(total), lanes::all(share),
                                        lanes::all(lanes::exp(sink - higher))));
    }
    const int64_t at = (int64_t) stream * job.rows * job.op->ne[1] +
                       (int64_t) row * job.op->ne[1] + head;
    float * out = (float *) ((char *) job.op->data + at * job.op->nb[1]);
    const float * sums = node.sums + (int64_t) query * job.value_size;
    const bool nothing = top == -INFINITY || total == 0.0f;
    const float factor = nothing ? 0.0f : share / total;
    for (int i = 0; i < job.op->ne[0]; ++i) out[i] = nothing ? 0.0f : sums[i] * factor;
}

class Traits : public ggml::cpu::tensor_traits {
    bool work_size(int threads, const ggml_tensor * op, size_t & size) override {
        size = (size_t) job_of(op, threads).bytes(threads);
        return true;
    }

    bool compute_forward(ggml_compute_params * params, ggml_tensor * op) override {
        Job job = job_of(op, params->nth);
        if (job.bytes(params->nth) > (int64_t) params->wsize) job = job_of(op, 1);
        float * memory = (float *) (((uintptr_t) params->wdata + 63) & ~(uintptr_t) 63);
        float * own = memory + params->ith * pad(job.thread_floats());
        float * parts = memory + params->nth * pad(job.thread_floats());
        if (params->ith == 0) ggml_threadpool_chunk_set(params->threadpool, params->nth);
        ggml_barrier(params->threadpool);
        Task task(job, own);
        for (int index = params->ith; index < job.tasks();
             index = ggml_threadpool_chunk_add(params->threadpool, 1)) {
            const Node node = task.run(index);
            for (int n = 0; n < task.count; ++n) {
                const int row = task.row_of(n), head = task.head_of(n);
                if (job.spans == 1) finish(job, node, n, row, head, task.stream);
                else keep(job, task, node, n, parts);
            }
        }
        if (job.spans == 1) return true;
        ggml_barrier(params->threadpool);
        for (int64_t query = params->ith; query < job.queries(); query += params->nth)
            join_spans(job, parts, (int) query);
        return true;
    }

    // Keeps the state of a span until all are there.
    static void keep(const Job & job, const Task & task, const Node & node, int n, float * parts) {
        const int64_t query = ((int64_t) task.stream * job.kv_heads + task.kv_head) * job.rows *
                                  job.group + task.first + n;
        const int64_t count = job.queries();
        const Node part = node_at(parts + task.span_index * job.node_floats(count), count);
        part.tops[query] = node.tops[n];
        part.totals[query] = node.totals[n];
        memcpy(part.sums + query * job.value_size, node.sums + (int64_t) n * job.value_size,
               job.value_size * sizeof(float));
    }

    static void join_spans(const Job & job, float * parts, int query) {
        const int64_t count = job.queries();
        const auto part = [&](int span) {
            return node_at(parts + span * job.node_floats(count), count);
        };
        for (int step = 1; step < job.spans; step *= 2)
            for (int span = 0; span + step < job.spans; span += 2 * step)
                join(part(span), part(span + step), query, job.value_size);
        const int per_head = job.rows * job.group, within = query % per_head;
        const int kv_head = query / per_head % job.kv_heads;
        finish(job, part(0), query, within / job.group,
               kv_head * job.group + within % job.group, query / per_head / job.kv_heads);
    }
};

static bool served_type(ggml_type type) {
    return type == GGML_TYPE_F16 || type == GGML_TYPE_BF16 || type == GGML_TYPE_F32 ||
           type == GGML_TYPE_Q8_0 || type == GGML_TYPE_Q4_0;
}

static bool served_rows(const ggml_tensor * q, const ggml_tensor * rows) {
    return served_type(rows->type) && rows->nb[0] == ggml_type_size(rows->type) &&
           rows->ne[0] % 8 == 0 && q->ne[2] % rows->ne[2] == 0 && q->ne[3] % rows->ne[3] == 0;
}

static bool served(const ggml_tensor * op) {
    const ggml_tensor *q = op->src[0], *k = op->src[1], *v = op->src[2];
    const ggml_tensor *mask = op->src[3], *sinks = op->src[4];
    if (q->type != GGML_TYPE_F32 || q->nb[0] != sizeof(float)) return false;
    if (!served_rows(q, k) || !served_rows(q, v) || k->ne[2] != v->ne[2]) return false;
    if (op->type != GGML_TYPE_F32 || !ggml_is_contiguous(op)) return false;
    if (sinks && sinks->type != GGML_TYPE_F32) return false;
    return !mask || (mask->type == GGML_TYPE_F16 && mask->nb[0] == 2 && mask->ne[2] == 1);
}

}  // namespace attention

ggml::cpu::tensor_traits * attention_traits(const ggml_tensor * op) {
    static attention::Traits traits;
    return op->op == GGML_OP_FLASH_ATTN_EXT && attention::served(op) ? &traits : nullptr;
}

}  // namespace localspec
