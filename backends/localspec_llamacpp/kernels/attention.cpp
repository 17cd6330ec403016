// Flash attention whose rows do not depend on what stands beside them.
//
// The cells of a cache are cut into leaves at fixed places. A leaf yields its largest score, the
// sum of its weights and the weighted values; leaves are joined in pairs, pairs in pairs, by their
// place alone. Threads, neighbours and cells that a row may not see change no bit of it.
#include "attention.h"

#include "attention_task.h"

#include "ggml-cpu-impl.h"

extern "C" {
void ggml_barrier(struct ggml_threadpool * pool);
void ggml_threadpool_chunk_set(struct ggml_threadpool * pool, int value);
int ggml_threadpool_chunk_add(struct ggml_threadpool * pool, int value);
}

namespace localspec {
namespace attention {

// Writes a query's finished row.
static void finish(const Job & job, const Node & node, int query, int row, int head, int stream) {
    const float top = node.tops[query];
    float total = node.totals[query], share = 1.0f;
    if (job.sinks) {
        const float sink = ((const float *) job.sinks->data)[head];
        const float higher = std::max(top, sink);
        share = total == 0.0f ? 0.0f : lanes::exp(top - higher);
        total = lanes::first(lanes::fma(lanes::all(total), lanes::all(share),
                                        lanes::all(lanes::exp(sink - higher))));
    }
    const int64_t at = (int64_t) stream * job.rows * job.op->ne[1] +
                       (int64_t) row * job.op->ne[1] + head;
    float * out = (float *) ((char *) job.op->data + at * job.op->nb[1]);
    const float * sums = node.sums + (int64_t) query * job.value_size;
    const bool nothing = node.totals[query] == 0.0f;
    for (int i = 0; i < job.op->ne[0]; ++i) out[i] = nothing ? 0.0f : sums[i] * (share / total);
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
           (ggml_is_quantized(type) && ggml_get_type_traits(type)->to_float);
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
