// Products with matrices of F32, F16 and BF16 that lie in ordinary memory: each number of a result
// is one sum in one order, for one row as for many.
#include "attention.h"

#include "float_rows.h"

#include "ggml-backend.h"
#include "ggml-cpu-impl.h"
#include "ggml-cpu.h"
#include "ggml.h"

#include <algorithm>

extern "C" {
void ggml_threadpool_chunk_set(struct ggml_threadpool * pool, int value);
int ggml_threadpool_chunk_add(struct ggml_threadpool * pool, int value);
void ggml_barrier(struct ggml_threadpool * pool);
}

namespace localspec {
namespace plain {

constexpr int64_t NEAR = 256 << 10;  // bytes that stay in a core's cache beside as many others
constexpr int64_t STRETCH = 4096;    // bytes of a row: four of them stay in the nearest cache
constexpr int64_t SHARE = 64 << 10;  // bytes of a matrix that are worth a task
constexpr int TASKS = 8;             // per thread
constexpr int MOST = lanes::MOST_ROWS;

// The operation, and how it is cut: pieces of a matrix, tiles of the rows that they meet.
struct Job {
    const ggml_tensor *op, *matrix, *floats;
    int outputs, rows, group;  // rows that meet one matrix, of `group` rows each
    int matrices, piece, pieces, tile, spans, stretch;
    bool pairs;  // rows are turned into BF16

    int tasks() const { return matrices * pieces * spans; }
    size_t sums_floats() const {
        return stretch < matrix->ne[0] ? (size_t) piece * (tile + MOST) * WIDTH : 0;
    }
    size_t packed_bytes() const { return pairs ? ggml_nelements(floats) * 2 : 0; }
};

#if defined(LOCALSPEC_BRAIN_PAIRS)
constexpr bool PAIRS = true;
using WholeBrains = BrainPairs;
#else
constexpr bool PAIRS = false;
using WholeBrains = Brains;
#endif

static int64_t up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

static Job job_of(const ggml_tensor * op, int threads) {
    Job job = {};
    job.op = op, job.matrix = op->src[0], job.floats = op->src[1];
    const ggml_tensor *w = job.matrix, *x = job.floats;
    job.pairs = PAIRS && w->type == GGML_TYPE_BF16;
    job.outputs = (int) w->ne[1], job.group = (int) x->ne[1];
    job.rows = (int) (x->ne[1] * (x->ne[2] / w->ne[2]));
    job.matrices = (int) (w->ne[2] * x->ne[3]);
    const int64_t size = w->ne[0], row_bytes = ggml_row_size(w->type, size);
    job.stretch = (int) size;
    if (job.rows > MOST && row_bytes > 2 * STRETCH)
        job.stretch = (int) (STRETCH / (row_bytes / size));
    job.tile = (int) std::max<int64_t>(MOST, NEAR / (4 * job.stretch) / MOST * MOST);
    job.tile = std::min(std::min(job.tile, 96), job.rows);
    job.spans = 1;
    const int64_t all = (int64_t) job.outputs * job.matrices;
    const int64_t fair = (all + TASKS * threads - 1) / (TASKS * threads);
    const int64_t least = std::max<int64_t>(4, std::min(SHARE / row_bytes, all / threads));
    const int64_t most = std::max<int64_t>(4, NEAR * size / (row_bytes * job.stretch));
    job.piece = (int) up(std::max(std::min(fair, most), std::min(least, most)), 4);
    job.piece = std::min<int>(job.piece, up(job.outputs, 4));
    job.pieces = (job.outputs + job.piece - 1) / job.piece;
    return job;
}

// Where a row of floats, or of products, lies in a tensor.
static char * row_at(const Job & job, const ggml_tensor * tensor, int matrix, int row) {
    const int64_t matrices = job.matrix->ne[2], shares = job.floats->ne[2] / matrices;
    return (char *) tensor->data + row % job.group * tensor->nb[1] +
           (matrix % matrices * shares + row / job.group) * tensor->nb[2] +
           matrix / matrices * tensor->nb[3];
}

static int64_t row_number(const Job & job, int matrix, int row) {
    const ggml_tensor * x = job.floats;
    const int64_t matrices = job.matrix->ne[2], shares = x->ne[2] / matrices;
    const int64_t second = matrix % matrices * shares + row / job.group;
    return (matrix / matrices * x->ne[2] + second) * x->ne[1] + row % job.group;
}

static Rows rows_of(const Job & job, int matrix) {
    const ggml_tensor * w = job.matrix;
    const int64_t third = matrix / w->ne[2] / (job.floats->ne[3] / w->ne[3]);
    const char * base = (const char *) w->data + matrix % w->ne[2] * w->nb[2] + third * w->nb[3];
    return {base, w->nb[1], (int) w->ne[0]};
}

// One thread's work: a piece of a matrix by a tile of rows.
struct Block {
    const Job & job;
    const uint16_t * packed;  // all rows in BF16, where they are turned into it
    float * sums;
    int matrix, first, last, from, to;

    const void * numbers(int row) const {
        if (job.pairs) return packed + row_number(job, matrix, row) * job.matrix->ne[0];
        return row_at(job, job.floats, matrix, row);
    }
};

// Multiplies rows [row, row + n) by four rows of the matrix, or by what is left of four.
template <class Kind>
static void group(const Block & at, const Stretch & stretch, int output, int row, int n) {
    const int width = std::min(4, at.last - output);
    float aside[MOST][4];
    Factors of(n, output, at.last - 1);
    const auto products = [&](int i) {
        return (float *) row_at(at.job, at.job.op, at.matrix, row + i) + output;
    };
    for (int i = 0; i < n; ++i) {
        of.numbers[i] = at.numbers(row + i);
        of.products[i] = width == 4 ? products(i) : aside[i];
    }
    multiply<Kind>(of, rows_of(at.job, at.matrix), stretch);
    for (int i = 0; width < 4 && stretch.to == at.job.matrix->ne[0] && i < n; ++i)
        std::copy(aside[i], aside[i] + width, products(i));
}

template <class Kind> static void multiply_block(const Block & at) {
    const Rows weights = rows_of(at.job, at.matrix);
    const int count = at.to - at.from, groups = (count + MOST - 1) / MOST;
    const bool close = weights.stride <= FOUR_AT_ONCE;
    const Next next = close ? Next::FOUR_ROWS : Next::SAME_ROWS;
    for (int from = 0; from < weights.size; from += at.job.stretch) {
        float * sums = at.sums;
        const int to = std::min(from + at.job.stretch, weights.size);
        for (int output = at.first; output < at.last; output += 4)
            for (int g = 0; g < groups; ++g) {
                const int row = at.from + g * count / groups;
                const int n = at.from + (g + 1) * count / groups - row;
                const Stretch stretch = {from, to, sums, g ? Next::NOTHING : next};
                group<Kind>(at, stretch, output, row, n);
                sums += 4 * n * WIDTH;
            }
    }
}

static void multiply_any(const Block & at) {
    switch (at.job.matrix->type) {
        case GGML_TYPE_F16: return multiply_block<Halves>(at);
        case GGML_TYPE_BF16: return multiply_block<WholeBrains>(at);
        default: return multiply_block<Singles>(at);
    }
}

class Traits : public ggml::cpu::tensor_traits {
    bool work_size(int threads, const ggml_tensor * op, size_t & size) override {
        const Job job = job_of(op, threads);
        size = 4 * threads * job.sums_floats() + job.packed_bytes() + 64;
        return true;
    }

    bool compute_forward(ggml_compute_params * params, ggml_tensor * op) override {
        const Job job = job_of(op, params->nth);
        float * memory = (float *) (((uintptr_t) params->wdata + 63) & ~(uintptr_t) 63);
        float * sums = memory + params->ith * job.sums_floats();
        uint16_t * packed = (uint16_t *) (memory + params->nth * job.sums_floats());
        if (job.pairs) pack(job, params, packed);
        if (params->ith == 0) ggml_threadpool_chunk_set(params->threadpool, params->nth);
        ggml_barrier(params->threadpool);
        for (int index = params->ith; index < job.tasks();
             index = ggml_threadpool_chunk_add(params->threadpool, 1)) {
            const int matrix = index / job.pieces, first = index % job.pieces * job.piece;
            const int last = std::min(first + job.piece, job.outputs);
            for (int from = 0; from < job.rows; from += job.tile) {
                const int to = std::min(from + job.tile, job.rows);
                multiply_any({job, packed, sums, matrix, first, last, from, to});
            }
        }
        return true;
    }

    static void pack(const Job & job, const ggml_compute_params * params, uint16_t * packed) {
        const int64_t size = job.matrix->ne[0], all = (int64_t) job.rows * job.matrices;
        for (int64_t i = params->ith; i < all; i += params->nth) {
            const int matrix = (int) (i / job.rows), row = (int) (i % job.rows);
            const float * from = (const float *) row_at(job, job.floats, matrix, row);
            ggml_get_type_traits_cpu(GGML_TYPE_BF16)
                ->from_float(from, packed + row_number(job, matrix, row) * size, size);
        }
    }
};

static bool served(const ggml_tensor * op) {
    const ggml_tensor *w = op->src[0], *x = op->src[1];
    if (w->type != GGML_TYPE_F32 && w->type != GGML_TYPE_F16 && w->type != GGML_TYPE_BF16)
        return false;
    if (x->type != GGML_TYPE_F32 || w->ne[0] % 8 != 0) return false;
    if (w->nb[0] != ggml_type_size(w->type) || x->nb[0] != sizeof(float)) return false;
    if (ggml_get_op_params_i32(op, 1) == GGML_HINT_SRC0_IS_HADAMARD) return false;
    return !w->buffer || ggml_backend_buffer_is_host(w->buffer);
}

}  // namespace plain

ggml::cpu::tensor_traits * plain_traits(const ggml_tensor * op) {
    static plain::Traits traits;
    return op->op == GGML_OP_MUL_MAT && plain::served(op) ? &traits : nullptr;
}

}  // namespace localspec
