// Joins llama.cpp: a type of buffers whose matrices lie in panels, put before llama.cpp's own types.
//
// llama.cpp asks each such type which matrices it takes, lets it lay them out while it reads a file,
// and runs its products on llama.cpp's threads, in llama.cpp's graph.
#include "attention.h"
#include "lanes.h"

#include "ggml-backend-impl.h"
#include "ggml-cpu.h"
#include "ggml-cpu-impl.h"
#include "traits.h"

#include <atomic>
#include <thread>
#include <vector>

extern "C" {
void ggml_barrier(struct ggml_threadpool * pool);
void ggml_threadpool_chunk_set(struct ggml_threadpool * pool, int value);
int ggml_threadpool_chunk_add(struct ggml_threadpool * pool, int value);

GGML_BACKEND_API const char * localspec_products(void);
GGML_BACKEND_API void localspec_products_use(int on);
GGML_BACKEND_API void localspec_products_choose(const uint8_t * panels, int count);
}

#ifndef LOCALSPEC_LANES

const char * localspec_products(void) { return ""; }
void localspec_products_use(int) {}
void localspec_products_choose(const uint8_t *, int) {}

#else

#include "panels.h"

namespace localspec {

static std::atomic<bool> in_use{true};

static const Product * product_of(ggml_type type) {
    switch (type) {
        case GGML_TYPE_Q4_0: return product<Q4_0>();
        case GGML_TYPE_Q4_1: return product<Q4_1>();
        case GGML_TYPE_Q5_0: return product<Q5_0>();
        case GGML_TYPE_Q5_1: return product<Q5_1>();
        case GGML_TYPE_Q8_0: return product<Q8_0>();
        case GGML_TYPE_IQ4_NL: return product<IQ4_NL>();
        case GGML_TYPE_MXFP4: return product<MXFP4>();
        case GGML_TYPE_Q4_K: return product<Q4_K>();
        case GGML_TYPE_Q5_K: return product<Q5_K>();
        case GGML_TYPE_Q6_K: return product<Q6_K>();
        case GGML_TYPE_Q2_K: return product<Q2_K>();
        case GGML_TYPE_Q3_K: return product<Q3_K>();
        case GGML_TYPE_IQ4_XS: return product<IQ4_XS>();
        default: return nullptr;
    }
}

// Returns the product of a matrix, or of several of experts; nullptr where its shape is not served.
static const Product * product_of(const ggml_tensor * matrix) {
    const Product * product = product_of(matrix->type);
    const bool fits = product && matrix->ne[0] % product->block == 0 && matrix->ne[1] % LANES == 0;
    return fits && matrix->ne[3] == 1 && !matrix->view_src && ggml_is_contiguous(matrix) ? product : nullptr;
}

// A matrix of weights as it lies in a buffer.
struct Matrix {
    const Product * product;
    int blocks;  // of a row
    int panels;  // of a matrix, of which experts have several
    const char * data;

    explicit Matrix(const ggml_tensor * t)
        : product(product_of(t)), blocks(int(t->ne[0] / product->block)), panels(int(t->ne[1] / LANES)),
          data((const char *) t->data) {}

    size_t panel_bytes() const { return blocks * product->panel_bytes; }
    size_t row_bytes() const { return blocks * product->activation_bytes; }
    const char * panel(int64_t index) const { return data + index * panel_bytes(); }
};

static size_t packed_bytes(const ggml_tensor * t) {
    const Matrix matrix(t);
    return matrix.panel_bytes() * matrix.panels * t->ne[2];
}

static char * aligned(void * data) { return (char *) (((uintptr_t) data + 63) & ~(uintptr_t) 63); }

// The panels of an output matrix that forwards of this thread are to compute; nullptr: all.
struct Choice { const uint8_t * panels; int count; };
static thread_local Choice choice{};
static const float NEVER = -1e20f;  // results of the others: as good as -inf, and still a number

static const uint8_t * chosen_panels(const ggml_tensor * matrix) {
    const bool is_output = !std::strcmp(matrix->name, "output.weight") || !std::strcmp(matrix->name, "token_embd.weight");
    return is_output && choice.count == matrix->ne[1] / LANES ? choice.panels : nullptr;
}

// The work of all threads: what the calling one chose, then rows of activations.
static const uint8_t *& chosen(const ggml_compute_params * params) { return *(const uint8_t **) aligned(params->wdata); }
static char * activations(const ggml_compute_params * params) { return aligned(params->wdata) + 64; }

static void * row_of(const ggml_tensor * t, int64_t row) {
    const int64_t i1 = row % t->ne[1], i2 = row / t->ne[1] % t->ne[2], i3 = row / t->ne[1] / t->ne[2];
    return (char *) t->data + i1 * t->nb[1] + i2 * t->nb[2] + i3 * t->nb[3];
}

// Quantises all rows of activations, of which each thread takes some blocks.
static void quantise_rows(const Matrix & matrix, const ggml_tensor * x, const ggml_compute_params * params) {
    const Product * product = matrix.product;
    char * to = activations(params);
    const int64_t count = ggml_nrows(x) * matrix.blocks;
    const int64_t end = count * (params->ith + 1) / params->nth;
    for (int64_t i = count * params->ith / params->nth; i < end; i++) {
        const float * row = (const float *) row_of(x, i / matrix.blocks);
        product->quantise(row + i % matrix.blocks * product->block, to + i * product->activation_bytes);
    }
}

// Rows of activations, and where their results go.
struct Row { const char * activations; float * out; };

// Some panels of a matrix, and of these what was chosen.
struct Panels { int64_t first; int from, to; const uint8_t * chosen; };

// Multiplies panels by rows, a tile of rows after another.
template <class RowAt>
static void multiply_panels(const Matrix & matrix, const Panels & panels, int rows, RowAt row_at) {
    const int tiles = (rows + TILE - 1) / TILE;
    for (int tile = 0; tile < tiles; tile++) {
        const int begin = rows * tile / tiles, count = rows * (tile + 1) / tiles - begin;
        const char * activations[TILE];
        float * start[TILE], * out[TILE];
        for (int r = 0; r < count; r++) {
            const Row row = row_at(begin + r);
            activations[r] = row.activations;
            start[r] = row.out;
        }
        for (int panel = panels.from; panel < panels.to; panel++) {
            for (int r = 0; r < count; r++) out[r] = start[r] + (int64_t) panel * LANES;
            if (!panels.chosen || panels.chosen[panel]) {
                matrix.product->multiply(matrix.panel(panels.first + panel), matrix.blocks, activations, out, count);
            } else {
                for (int r = 0; r < count; r++) std::fill_n(out[r], LANES, NEVER);
            }
        }
    }
}

// Panels that a thread takes at once: few enough to share work, and to stay in its cache.
static int panels_at_once(const Matrix & matrix, int threads) {
    const int by_cache = int(192 * 1024 / matrix.panel_bytes()), by_share = (matrix.panels + 4 * threads - 1) / (4 * threads);
    return std::max(1, std::min(by_cache, by_share));
}

static void multiply_matrix(const ggml_compute_params * params, ggml_tensor * op) {
    const Matrix matrix(op->src[0]);
    const ggml_tensor * x = op->src[1];
    const int rows = int(ggml_nrows(x)), step = panels_at_once(matrix, params->nth);
    quantise_rows(matrix, x, params);
    if (params->ith == 0) {  // the calling thread
        chosen(params) = chosen_panels(op->src[0]);
        ggml_threadpool_chunk_set(params->threadpool, params->nth);
    }
    ggml_barrier(params->threadpool);
    const char * quantised = activations(params);
    const auto row_at = [&](int r) { return Row{quantised + r * matrix.row_bytes(), (float *) row_of(op, r)}; };
    for (int chunk = params->ith; chunk * step < matrix.panels; chunk = ggml_threadpool_chunk_add(params->threadpool, 1)) {
        const Panels panels{0, chunk * step, std::min(matrix.panels, (chunk + 1) * step), chosen(params)};
        multiply_panels(matrix, panels, rows, row_at);
    }
}

// The rows that each expert takes, in the order of experts.
struct Shares {
    int32_t * first;  // of each expert among `rows`, and the end
    int32_t * rows;   // each an index into the chosen experts: token * used + place

    static size_t bytes(const ggml_tensor * op) {
        return (op->src[0]->ne[2] + 1 + ggml_nelements(op->src[2])) * sizeof(int32_t);
    }
    Shares(void * data, const ggml_tensor * op) : first((int32_t *) data), rows(first + op->src[0]->ne[2] + 1) {}

    void fill(const ggml_tensor * op) {
        const ggml_tensor * ids = op->src[2];
        const int experts = int(op->src[0]->ne[2]);
        const auto expert_of = [&](int64_t i) {
            return *(const int32_t *) ((const char *) ids->data + i / ids->ne[0] * ids->nb[1] + i % ids->ne[0] * ids->nb[0]);
        };
        std::fill(first, first + experts + 1, 0);
        for (int64_t i = 0; i < ggml_nelements(ids); i++) {
            GGML_ASSERT(expert_of(i) >= 0 && expert_of(i) < experts);
            first[expert_of(i) + 1]++;
        }
        for (int e = 0; e < experts; e++) first[e + 1] += first[e];
        std::vector<int32_t> next(first, first + experts);
        for (int64_t i = 0; i < ggml_nelements(ids); i++) rows[next[expert_of(i)]++] = int32_t(i);
    }
};

static void multiply_experts(const ggml_compute_params * params, ggml_tensor * op) {
    const Matrix matrix(op->src[0]);
    const ggml_tensor * x = op->src[1], * ids = op->src[2];
    const int experts = int(op->src[0]->ne[2]), step = panels_at_once(matrix, params->nth);
    const int chunks = (matrix.panels + step - 1) / step;
    char * quantised = activations(params);
    Shares shares(quantised + ggml_nrows(x) * matrix.row_bytes(), op);
    quantise_rows(matrix, x, params);
    if (params->ith == 0) {
        shares.fill(op);
        ggml_threadpool_chunk_set(params->threadpool, params->nth);
    }
    ggml_barrier(params->threadpool);
    int chunk = params->ith, before = 0;
    for (int e = 0; e < experts; e++) {
        const int32_t * mine = shares.rows + shares.first[e];
        const int rows = shares.first[e + 1] - shares.first[e];
        if (rows == 0) continue;
        const auto row_at = [&](int r) {
            const int64_t used = mine[r] % ids->ne[0], token = mine[r] / ids->ne[0];
            const int64_t source = token * x->ne[1] + used % x->ne[1];
            return Row{quantised + source * matrix.row_bytes(), (float *) ((char *) op->data + used * op->nb[1] + token * op->nb[2])};
        };
        for (; chunk < before + chunks; chunk = ggml_threadpool_chunk_add(params->threadpool, 1)) {
            const int from = (chunk - before) * step;
            const Panels panels{(int64_t) e * matrix.panels, from, std::min(matrix.panels, from + step), nullptr};
            multiply_panels(matrix, panels, rows, row_at);
        }
        before += chunks;
    }
}

// Looks up rows, as of embeddings that are the output as well and lie in memory once.
static void look_up_rows(const ggml_compute_params * params, ggml_tensor * op) {
    const Matrix matrix(op->src[0]);
    const ggml_tensor * ids = op->src[1];
    for (int64_t i = params->ith; i < ggml_nelements(ids); i += params->nth) {
        const int64_t i0 = i % ids->ne[0], i1 = i / ids->ne[0];
        const int64_t row = *(const int32_t *) ((const char *) ids->data + i0 * ids->nb[0] + i1 * ids->nb[1]);
        GGML_ASSERT(row >= 0 && row < op->src[0]->ne[1]);
        float * to = (float *) ((char *) op->data + i0 * op->nb[1] + i1 * op->nb[2]);
        const char * panel = matrix.panel(row / LANES);
        for (int b = 0; b < matrix.blocks; b++) {
            matrix.product->weights(panel + b * matrix.product->panel_bytes, int(row % LANES), to + b * matrix.product->block);
        }
    }
}

// Lays out rows of a file in panels, by several threads.
static void pack_rows(ggml_tensor * t, const char * data) {
    const Matrix matrix(t);
    const size_t row_bytes = matrix.blocks * matrix.product->file_bytes;
    const int64_t panels = matrix.panels * t->ne[2];
    std::atomic<int64_t> next{0};
    const auto work = [&]() {
        for (int64_t panel = next++; panel < panels; panel = next++) {
            char * to = (char *) t->data + panel * matrix.panel_bytes();
            for (int b = 0; b < matrix.blocks; b++) {
                const char * rows[LANES];
                for (int lane = 0; lane < LANES; lane++) {
                    rows[lane] = data + (panel * LANES + lane) * row_bytes + b * matrix.product->file_bytes;
                }
                matrix.product->pack(rows, to + b * matrix.product->panel_bytes);
            }
        }
    };
    const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
    std::vector<std::thread> helpers;
    for (int64_t i = 1; i < std::min<int64_t>(cores, panels / 16); i++) helpers.emplace_back(work);
    work();
    for (std::thread & helper : helpers) helper.join();
}

struct PackedTraits : ggml::cpu::tensor_traits {
    bool work_size(int, const ggml_tensor * op, size_t & size) override {
        size = 0;
        if (op->op == GGML_OP_GET_ROWS) return true;
        if (op->op != GGML_OP_MUL_MAT && op->op != GGML_OP_MUL_MAT_ID) return false;
        size = 128 + ggml_nrows(op->src[1]) * Matrix(op->src[0]).row_bytes();
        if (op->op == GGML_OP_MUL_MAT_ID) size += Shares::bytes(op);
        return true;
    }
    bool compute_forward(ggml_compute_params * params, ggml_tensor * op) override {
        switch (op->op) {
            case GGML_OP_MUL_MAT: multiply_matrix(params, op); return true;
            case GGML_OP_MUL_MAT_ID: multiply_experts(params, op); return true;
            case GGML_OP_GET_ROWS: look_up_rows(params, op); return true;
            default: return false;
        }
    }
};

static ggml_backend_buffer_type_t packed_buffers();

static bool is_packed(const ggml_tensor * t) { return t && t->buffer && t->buffer->buft == packed_buffers(); }

struct PackedBuffers : ggml::cpu::extra_buffer_type {
    bool supports_op(ggml_backend_dev_t, const ggml_tensor * op) override {
        const ggml_tensor * matrix = op->src[0], * x = op->src[1];
        if (!is_packed(matrix) || !product_of(matrix) || (!in_use && !matrix->data)) return false;
        if (x->buffer && !ggml_backend_buft_is_host(x->buffer->buft)) return false;
        const bool rows = x->type == GGML_TYPE_F32 && x->nb[0] == sizeof(float);
        switch (op->op) {
            case GGML_OP_MUL_MAT: return rows && matrix->ne[2] == 1;
            case GGML_OP_MUL_MAT_ID: return rows;
            // Only for embeddings, which may be the output as well.
            case GGML_OP_GET_ROWS: return matrix->ne[2] == 1 && !std::strcmp(matrix->name, "token_embd.weight");
            default: return false;
        }
    }
    ggml::cpu::tensor_traits * get_tensor_traits(const ggml_tensor * op) override {
        static PackedTraits packed;
        if (is_packed(op->src[0])) return product_of(op->src[0]) ? &packed : nullptr;
        if (!in_use) return nullptr;
        ggml::cpu::tensor_traits * traits = attention_traits(op);
        return traits ? traits : plain_traits(op);
    }
};

static ggml_backend_buffer_t allocated(ggml_backend_buffer_type_t type, size_t size) {
    ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), size);
    if (!buffer) return nullptr;
    buffer->buft = type;
    buffer->iface.set_tensor = [](ggml_backend_buffer_t, ggml_tensor * t, const void * data, size_t offset, size_t size) {
        GGML_ASSERT(offset == 0 && size == ggml_nbytes(t) && product_of(t));
        pack_rows(t, (const char *) data);
    };
    buffer->iface.get_tensor = nullptr;
    buffer->iface.cpy_tensor = nullptr;
    return buffer;
}

static ggml_backend_buffer_type_t packed_buffers() {
    static PackedBuffers context;
    static ggml_backend_buffer_type type = {
        {
            [](ggml_backend_buffer_type_t) { return "CPU_LOCALSPEC"; },
            allocated,
            [](ggml_backend_buffer_type_t) { return (size_t) 64; },
            nullptr,
            [](ggml_backend_buffer_type_t, const ggml_tensor * t) { return product_of(t) ? packed_bytes(t) : ggml_nbytes(t); },
            nullptr,
        },
        ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0),
        &context,
    };
    return &type;
}

// llama.cpp copies the list of types at its first model: this is done as soon as the library is loaded.
static const bool is_joined = [] {
    auto & types = ggml_backend_cpu_get_extra_buffer_types();
    types.insert(types.begin(), packed_buffers());
    return true;
}();

}  // namespace localspec

const char * localspec_products(void) { return localspec::INSTRUCTIONS; }
void localspec_products_use(int on) { localspec::in_use = on != 0; }
void localspec_products_choose(const uint8_t * panels, int count) { localspec::choice = {panels, count}; }

#endif
