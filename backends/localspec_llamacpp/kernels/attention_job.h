// One flash attention: its tensors, and how it is cut into tasks.
#pragma once

#include "attention_leaf.h"

#include "ggml.h"

#include <cmath>

namespace localspec {
namespace attention {

constexpr int TASKS = 8;  // per thread, so that a late thread delays nobody for long

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

}  // namespace attention
}  // namespace localspec
