// Reads cases of quantised matrices and activations, and writes what the kernels make of them.
//
// A case: its type's name in 8 bytes, the numbers of blocks in a row and of rows of activations, 16
// rows of blocks, the activations. For what is written, see answer().
#include "panels.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

using namespace localspec;

namespace {

constexpr int MATRIX_ROWS = 16;

// A vector whose first element is as aligned as the type of a panel asks.
struct Aligned {
    explicit Aligned(size_t size) : data((char *) std::aligned_alloc(64, (size + 63) / 64 * 64)) {}
    Aligned(const Aligned &) = delete;
    ~Aligned() { std::free(data); }
    char * data;
};

const Product * find(const std::string & name) {
#define LOCALSPEC_TYPE(T) if (name == #T) return product<T>();
    LOCALSPEC_TYPE(Q4_0)
    LOCALSPEC_TYPE(Q4_1)
    LOCALSPEC_TYPE(Q5_0)
    LOCALSPEC_TYPE(Q5_1)
    LOCALSPEC_TYPE(Q8_0)
    LOCALSPEC_TYPE(IQ4_NL)
    LOCALSPEC_TYPE(MXFP4)
    LOCALSPEC_TYPE(Q4_K)
    LOCALSPEC_TYPE(Q5_K)
    LOCALSPEC_TYPE(Q6_K)
    LOCALSPEC_TYPE(Q2_K)
    LOCALSPEC_TYPE(Q3_K)
    LOCALSPEC_TYPE(IQ4_XS)
    std::fprintf(stderr, "no type is called %s\n", name.c_str());
    std::exit(2);
}

struct Case {
    const Product * product;
    int blocks, rows;
    std::vector<char> files;  // a row of the matrix after another
    std::vector<float> x;
};

bool read(std::FILE * from, Case & it) {
    char name[9] = {};
    int sizes[2];
    if (std::fread(name, 1, 8, from) != 8 || std::fread(sizes, 4, 2, from) != 2) return false;
    it.product = find(name);
    it.blocks = sizes[0];
    it.rows = sizes[1];
    it.files.resize(it.product->file_bytes * MATRIX_ROWS * it.blocks);
    it.x.resize((size_t) it.product->block * it.blocks * it.rows);
    return std::fread(it.files.data(), 1, it.files.size(), from) == it.files.size() &&
           std::fread(it.x.data(), 4, it.x.size(), from) == it.x.size();
}

void pack(const Case & it, char * panels) {
    const Product & p = *it.product;
    for (int first = 0; first < MATRIX_ROWS; first += LANES) {
        for (int b = 0; b < it.blocks; b++, panels += p.panel_bytes) {
            const char * rows[LANES];
            for (int i = 0; i < LANES; i++) {
                rows[i] = it.files.data() + ((size_t) (first + i) * it.blocks + b) * p.file_bytes;
            }
            p.pack(rows, panels);
        }
    }
}

void write_weights(const Case & it, const char * panels, std::FILE * to) {
    std::vector<float> block(it.product->block);
    for (int row = 0; row < MATRIX_ROWS; row++) {
        for (int b = 0; b < it.blocks; b++) {
            const size_t at = ((size_t) (row / LANES) * it.blocks + b) * it.product->panel_bytes;
            it.product->weights(panels + at, row % LANES, block.data());
            std::fwrite(block.data(), 4, block.size(), to);
        }
    }
}

struct Part { int first, count; };

// Multiply a part of the rows, which stand side by side.
void multiply(const Case & it, const char * panels, const char * x, Part part, float * out) {
    const size_t row_bytes = it.product->activation_bytes * it.blocks;
    for (int at = 0; at < MATRIX_ROWS; at += LANES, panels += it.blocks * it.product->panel_bytes) {
        const char * rows[TILE];
        float * to[TILE];
        for (int i = 0; i < part.count; i++) {
            rows[i] = x + (part.first + i) * row_bytes;
            to[i] = out + (size_t) (part.first + i) * MATRIX_ROWS + at;
        }
        it.product->multiply(panels, it.blocks, rows, to, part.count);
    }
}

// Write the weights, the activations in 8 bits with their scales, and for each width from 1 to the
// number of rows the products of all rows, so many rows at a time.
void answer(const Case & it, std::FILE * to) {
    const Product & p = *it.product;
    Aligned panels(p.panel_bytes * (MATRIX_ROWS / LANES) * it.blocks);
    Aligned activations(p.activation_bytes * it.blocks * it.rows);
    pack(it, panels.data);
    write_weights(it, panels.data, to);
    for (int i = 0; i < it.rows * it.blocks; i++) {
        char * block = activations.data + i * p.activation_bytes;
        p.quantise(it.x.data() + (size_t) i * p.block, block);
        std::fwrite(block, 1, p.block + 4, to);  // q, d
    }
    std::vector<float> out((size_t) it.rows * MATRIX_ROWS);
    for (int width = 1; width <= it.rows; width++) {
        std::fill(out.begin(), out.end(), -1.0f);
        for (int first = 0; first < it.rows; first += width) {
            const int count = std::min(width, it.rows - first), parts = (count + TILE - 1) / TILE;
            for (int part = 0; part < parts; part++) {
                const int from = count * part / parts, until = count * (part + 1) / parts;
                const Part beside = {first + from, until - from};
                multiply(it, panels.data, activations.data, beside, out.data());
            }
        }
        std::fwrite(out.data(), 4, out.size(), to);
    }
}

}  // namespace

int main(int count, char ** names) {
    if (count != 3) return 2;
    std::FILE * from = std::fopen(names[1], "rb"), * to = std::fopen(names[2], "wb");
    if (!from || !to) return 2;
    Case it;
    while (read(from, it)) answer(it, to);
    std::fclose(from);
    if (std::fclose(to)) return 2;
    std::printf("%s, %d\n", INSTRUCTIONS, TILE);
}
