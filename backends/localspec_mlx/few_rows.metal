// Up to 16 rows of numbers times a quantised matrix, by matrix units of 8x8.
//
// A threadgroup computes OUTPUTS outputs of all rows. Each of its simdgroups sums up a part of the
// inputs, in blocks of 32 and 4 steps a block; the parts are added in order at the end. An output is
// so summed up in one order for any number of rows: a row has the same bits alone and beside others.
//
// A fragment is laid out so that a lane reads what lies together: its row of weights, eight inputs
// (a word of 4 bits each), and of the numbers four inputs of two rows. In step s row k of the numbers
// and column k of the weights are input 4k + s of the block.
//
// Tests compile this text as C++, with loops for the lanes and simdgroups that a GPU runs at once.
#ifdef __METAL_VERSION__
#include <metal_simdgroup_matrix>
#include <metal_stdlib>
using namespace metal;
typedef simdgroup_matrix<float, 8, 8> Fragment;
#define ELEMENT(fragment, index) fragment.thread_elements()[index]
#define EACH_PART
#define EACH_LANE
#define BARRIER threadgroup_barrier(mem_flags::mem_threadgroup);
#define UNROLL _Pragma("clang loop unroll(full)")
#endif

constant constexpr int AFFINE = 0;
constant constexpr int MXFP4 = 1;
constant constexpr int NVFP4 = 2;
constant constexpr uint PARTS = 4;    // simdgroups of a threadgroup
constant constexpr uint HEIGHT = 2;   // fragments of weights of a threadgroup
constant constexpr uint OUTPUTS = 8 * HEIGHT;
constant constexpr uint BLOCK = 32;   // inputs
constant constexpr uint STEPS = BLOCK / 8;

// A lane holds two elements of a fragment: in this row, this column and the next.
inline uint row_of(uint lane) { return lane / 16 * 4 + lane / 2 % 4; }
inline uint column_of(uint lane) { return lane / 8 % 2 * 4 + lane % 2 * 2; }

// Twice a number of four bits: a sign, two of its exponent, one of its mantissa.
inline float twice(uint code) {
    const uint exponent = code >> 1 & 3, mantissa = code & 1;
    const float size = float(exponent == 0 ? mantissa : (2 + mantissa) << (exponent - 1));
    return code & 8 ? -size : size;
}

// The scale of a group: a power of two (mxfp4), or a sign, four bits and three (nvfp4).
template <int FORM>
inline float scale_of(uint code) {
    if (FORM == MXFP4) return as_type<float>(code == 0 ? 0x400000u : code << 23);
    const uint exponent = code >> 3 & 15, mantissa = code & 7;
    const float eighths = float(exponent == 0 ? mantissa : 8 + mantissa);
    return eighths * as_type<float>((max(exponent, 1u) + 117) << 23);
}

// Unpack eight weights from this one on.
template <int FORM, uint BITS, uint GROUP, typename Words, typename Scales, typename Biases>
inline void unpack(Words words, Scales scales, Biases biases, uint first, thread float* weights) {
    const uint in_word = 32 / BITS, mask = (1 << BITS) - 1, group = first / GROUP;
    UNROLL for (uint i = 0; i < 8; ++i) {
        const uint code = words[first / in_word + i / in_word] >> BITS * (i % in_word) & mask;
        if (FORM == AFFINE)
            weights[i] = fma(float(scales[group]), float(code), float(biases[group]));
        else
            weights[i] = twice(code) * (0.5f * scale_of<FORM>(uint(float(scales[group]))));
    }
}

// TILES: fragments of 8 rows of numbers. `sums` holds PARTS * OUTPUTS * 8 * TILES numbers.
template <typename Number, int FORM, uint BITS, uint GROUP, uint TILES, typename Numbers,
          typename Words, typename Scales, typename Biases, typename Products, typename Sums>
inline void few_rows(Numbers x, Words words, Scales scales, Biases biases, Products products,
                     Sums sums, uint rows, uint inputs, uint outputs, uint group, uint part,
                     uint lane) {
    const uint first = group * OUTPUTS, blocks = inputs / BLOCK;
    const uint run = (blocks + PARTS - 1) / PARTS, cells = OUTPUTS * 8 * TILES;
    EACH_PART {
        Fragment totals[HEIGHT][TILES];
        EACH_LANE {
            UNROLL for (uint o = 0; o < HEIGHT; ++o)
                UNROLL for (uint t = 0; t < TILES; ++t)
                    UNROLL for (uint i = 0; i < 2; ++i) ELEMENT(totals[o][t], i) = 0;
        }
        const uint end = min((part + 1) * run, blocks);
        for (uint block = part * run; block < end; ++block) {
            Fragment weights[HEIGHT][STEPS], numbers[TILES][STEPS];
            EACH_LANE {
                const uint row = row_of(lane), column = column_of(lane), at = block * BLOCK;
                UNROLL for (uint o = 0; o < HEIGHT; ++o) {
                    const uint output = min(first + 8 * o + row, outputs - 1);
                    float eight[8];
                    unpack<FORM, BITS, GROUP>(words, scales, biases,
                                              output * inputs + at + 4 * column, eight);
                    UNROLL for (uint i = 0; i < 8; ++i)
                        ELEMENT(weights[o][i % STEPS], i / STEPS) = eight[i];
                }
                UNROLL for (uint t = 0; t < TILES; ++t)
                    UNROLL for (uint i = 0; i < 2; ++i) {
                        const uint text_row = min(8 * t + column + i, rows - 1);
                        UNROLL for (uint s = 0; s < STEPS; ++s)
                            ELEMENT(numbers[t][s], i) =
                                float(x[text_row * inputs + at + STEPS * row + s]);
                    }
            }
            UNROLL for (uint s = 0; s < STEPS; ++s)
                UNROLL for (uint o = 0; o < HEIGHT; ++o)
                    UNROLL for (uint t = 0; t < TILES; ++t)
                        simdgroup_multiply_accumulate(totals[o][t], weights[o][s], numbers[t][s],
                                                      totals[o][t]);
        }
        EACH_LANE {
            UNROLL for (uint o = 0; o < HEIGHT; ++o)
                UNROLL for (uint t = 0; t < TILES; ++t)
                    UNROLL for (uint i = 0; i < 2; ++i)
                        sums[part * cells + (8 * t + column_of(lane) + i) * OUTPUTS + 8 * o +
                             row_of(lane)] = ELEMENT(totals[o][t], i);
        }
    }
    BARRIER
    EACH_PART EACH_LANE {
        for (uint cell = 32 * part + lane; cell < cells; cell += 32 * PARTS) {
            float total = sums[cell];
            UNROLL for (uint p = 1; p < PARTS; ++p) total += sums[p * cells + cell];
            const uint row = cell / OUTPUTS, output = first + cell % OUTPUTS;
            if (row < rows && output < outputs)
                products[row * outputs + output] = static_cast<Number>(total);
        }
    }
}
