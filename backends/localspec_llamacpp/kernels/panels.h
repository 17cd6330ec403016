// Panels of LANES rows of a matrix, and their products with rows of activations.
//
// The sums of a row are formed in one order, whatever stands beside it: the same bits in a batch of
// any width.
#pragma once
#include "looks_ahead.h"
#include "types.h"

namespace localspec {

// Sub-blocks that share a vector of high bits. Four neighbouring weights of each row lie side by
// side: a group. A byte holds the low bits of several groups of its sub-block, another the high ones.
template <class T> struct Part {
    static constexpr int VECTORS = T::GROUPS * T::LOW / 8;  // of low bits, for each sub-block
    static constexpr int SHARED = T::HIGH ? 8 / (T::GROUPS * T::HIGH) : 1;
    uint8_t low[SHARED][VECTORS][4 * LANES];
    uint8_t high[4 * LANES];
};
template <class T> struct LowPart {
    static constexpr int VECTORS = Part<T>::VECTORS, SHARED = 1;
    uint8_t low[1][VECTORS][4 * LANES];
};

// A block of LANES rows, in the order in which it is read: processors read ahead of what goes forward.
template <class T> struct Panel {
    static constexpr int VECTORS = Part<T>::VECTORS, SHARED = Part<T>::SHARED;
    typename T::Scales scales;
    alignas(T::BLOCK == 256 ? 4 * LANES : 2)
        std::conditional_t<(T::HIGH > 0), Part<T>, LowPart<T>> parts[T::SUBS / SHARED];
};

// A block of a row of activations, in 8 bits.
template <class T> struct alignas(64) Activations {
    int8_t q[T::BLOCK];
    float d;
    float whole;             // the sum of all of them
    int8_t fine[T::SUBS], coarse[T::SUBS];  // those of sub-blocks: fine + 128 * coarse
    int32_t start[T::SUBS];  // what the codes' offset takes away
};

// Gather bits of several groups of codes into the four bytes of a lane: BITS of each from SHIFT on.
template <int BITS, int SHIFT, int STEP> inline void gather(const uint8_t * codes, uint8_t * to) {
    uint32_t gathered = 0;
    for (int field = 0; field < 8 / BITS; field++) {
        uint32_t four;
        std::memcpy(&four, codes + 4 * STEP * field, 4);
        gathered |= ((four >> SHIFT) & 0x01010101u * ((1u << BITS) - 1)) << (field * BITS);
    }
    std::memcpy(to, &gathered, 4);
}

template <class T> void pack(const typename T::File * const * rows, Panel<T> & panel) {
    constexpr int VECTORS = Panel<T>::VECTORS, SHARED = Panel<T>::SHARED;
    for (int lane = 0; lane < LANES; lane++) {
        alignas(64) uint8_t codes[T::BLOCK];
        T::read(*rows[lane], lane, panel.scales, codes);
        for (int sub = 0; sub < T::SUBS; sub++) {
            auto & part = panel.parts[sub / SHARED];
            const uint8_t * from = codes + sub * T::SUB;
            for (int v = 0; v < VECTORS; v++) {
                gather<T::LOW, 0, VECTORS>(from + 4 * v, part.low[sub % SHARED][v] + 4 * lane);
            }
            if constexpr (T::HIGH > 0) {
                if (sub % SHARED == 0) gather<T::HIGH, T::LOW, 1>(from, part.high + 4 * lane);
            }
        }
    }
}

// Quantise a block of activations. Rounding by the addition of 1.5 * 2^23 is to the nearest.
template <class T> void quantise(const float * x, Activations<T> & a) {
    constexpr float NEAREST = 12582912.0f;
    int32_t largest = 0;
    for (int i = 0; i < T::BLOCK; i++) {
        int32_t bits;
        std::memcpy(&bits, x + i, 4);
        largest = std::max(largest, bits & 0x7fffffff);
    }
    float most;
    std::memcpy(&most, &largest, 4);
    const float inverse = most > 0 ? 127.0f / most : 0.0f;
    a.d = most / 127.0f;
    for (int i = 0; i < T::BLOCK; i++) {
        const float y = x[i] * inverse + NEAREST;
        int32_t bits;
        std::memcpy(&bits, &y, 4);
        a.q[i] = (int8_t) bits;
    }
    int32_t whole = 0;
    for (int sub = 0; sub < T::SUBS; sub++) {
        int32_t sum = 0;
        for (int i = 0; i < T::SUB; i++) sum += a.q[sub * T::SUB + i];
        whole += sum;
        a.fine[sub] = (int8_t) (sum & 127);
        a.coarse[sub] = (int8_t) (sum >> 7);
        a.start[sub] = -T::OFFSET * sum;
    }
    a.whole = (float) whole;
}

template <class T, int GROUP> inline Bytes code(const Bytes * low, Bytes high, Bytes table) {
    constexpr int VECTORS = Panel<T>::VECTORS;
    Bytes x = right<GROUP / VECTORS * T::LOW>(low[GROUP % VECTORS]);
    if constexpr (T::LOW < 8) x = both(x, all_bytes((1 << T::LOW) - 1));
    if constexpr (T::HIGH > 0) {
        const Bytes bits = right<GROUP * T::HIGH - T::LOW>(high);
        x = joined(x, bits, all_bytes(((1 << T::HIGH) - 1) << T::LOW));
    }
    if constexpr (T::TABLE != nullptr) x = looked_up(table, x);
    return x;
}

// Unpack the codes of a sub-block, four weights of each row to a vector. What lies so many bytes ahead
// is asked of the memory meanwhile.
template <class T> inline void unpack(const Panel<T> & panel, int sub, Bytes table, Bytes * codes, size_t ahead) {
    const auto & part = panel.parts[sub / Panel<T>::SHARED];
    Bytes low[Panel<T>::VECTORS], high = all_bytes(0);
    for (int v = 0; v < Panel<T>::VECTORS; v++) {
        const uint8_t * at = part.low[sub % Panel<T>::SHARED][v];
        prefetch(at + ahead);
        low[v] = load(at);
    }
    if constexpr (T::HIGH > 0) {
        prefetch(part.high + ahead);
        high = load(part.high);
        if (sub % Panel<T>::SHARED) high = right<4>(high);
    }
    codes[0] = code<T, 0>(low, high, table);
    codes[1] = code<T, 1>(low, high, table);
    codes[2] = code<T, 2>(low, high, table);
    codes[3] = code<T, 3>(low, high, table);
    if constexpr (T::GROUPS == 8) {
        codes[4] = code<T, 4>(low, high, table);
        codes[5] = code<T, 5>(low, high, table);
        codes[6] = code<T, 6>(low, high, table);
        codes[7] = code<T, 7>(low, high, table);
    }
}

template <class T> inline Bytes table() {
    if constexpr (T::TABLE != nullptr) return table_of(T::TABLE);
    return all_bytes(0);
}

// Take the minima away: those of sub-blocks are bytes, whose products with the sums of activations
// are sums of integers.
template <class T, int ROWS>
inline void take_minima(
    const Panel<T> & panel, Floats least, const Activations<T> * const * a, int b, Floats * sum) {
    if constexpr (T::SUBS == 1) {
        for (int r = 0; r < ROWS; r++) sum[r] = taken(least, all(a[r][b].whole), sum[r]);
    } else {
        Bytes minima[T::SUBS / 4];
        Ints fine[ROWS], coarse[ROWS];
        const int8_t * x[ROWS], * y[ROWS];
        for (int g = 0; g < T::SUBS / 4; g++) minima[g] = panel.scales.minima(g);
        for (int r = 0; r < ROWS; r++) {
            fine[r] = coarse[r] = ints(0);
            x[r] = a[r][b].fine;
            y[r] = a[r][b].coarse;
        }
        add_products<T::SUBS / 4, 63, ROWS>(minima, x, fine);
        add_products<T::SUBS / 4, 63, ROWS>(minima, y, coarse);
        for (int r = 0; r < ROWS; r++) {
            const Floats both = as_floats(plus(fine[r], shifted_left<7>(coarse[r])));
            sum[r] = taken(least, both, sum[r]);
        }
    }
}

// Multiply LANES rows of a matrix by ROWS rows of activations.
template <class T, int ROWS>
void multiply(const Panel<T> * panel, int blocks, const Activations<T> * const * a, float * const * out) {
    // Measured. Many rows keep processors so busy that they look ahead too little; of few rows the
    // activations leave the first cache between two panels.
    const bool few = LOOKS_AHEAD && ROWS <= (T::BLOCK == 256 ? FEW_ROWS : 1);
    const size_t ahead = few ? 256 : FAR_AHEAD, activations_ahead = 384;  // bytes
    const Bytes values = table<T>();
    Floats total[ROWS];
    for (int r = 0; r < ROWS; r++) total[r] = zeros();
    for (int b = 0; b < blocks; b++) {
        for (int r = 0; few && r < ROWS; r++) {
            const char * at = (const char *) (a[r] + b) + activations_ahead;
            for (size_t i = 0; i < sizeof(Activations<T>); i += 64) prefetch(at + i);
        }
        const auto opened = panel[b].scales.opened();
        Floats sum[ROWS];
        for (int r = 0; r < ROWS; r++) sum[r] = zeros();
        for (int sub = 0; sub < T::SUBS; sub++) {
            Bytes codes[T::GROUPS];
            unpack(panel[b], sub, values, codes, ahead);
            const Floats scale = panel[b].scales.scale(opened, sub);
            Ints dots[ROWS];
            const int8_t * x[ROWS];
            for (int r = 0; r < ROWS; r++) {
                dots[r] = T::OFFSET ? ints(a[r][b].start[sub]) : ints(0);
                x[r] = a[r][b].q + sub * T::SUB;
            }
            add_products<T::GROUPS, T::LARGEST, ROWS>(codes, x, dots);
            for (int r = 0; r < ROWS; r++) sum[r] = added(as_floats(dots[r]), scale, sum[r]);
        }
        if constexpr (T::MINIMA) take_minima<T, ROWS>(panel[b], opened.least, a, b, sum);
        for (int r = 0; r < ROWS; r++) total[r] = added(sum[r], all(a[r][b].d), total[r]);
    }
    for (int r = 0; r < ROWS; r++) store(out[r], total[r]);
}

template <class T> float minimum_of(const Panel<T> & panel, int lane, int sub) {
    float least[LANES];
    if constexpr (T::MINIMA) store(least, panel.scales.opened().least);
    if constexpr (T::MINIMA && T::SUBS > 1) {
        uint8_t minima[4 * LANES];
        store(minima, panel.scales.minima(sub / 4));
        return least[lane] * (float) minima[4 * lane + sub % 4];
    }
    return T::MINIMA ? least[lane] : 0.0f;
}

// Write out the weights of one row of a block.
template <class T> void weights(const Panel<T> & panel, int lane, float * to) {
    const auto opened = panel.scales.opened();
    for (int sub = 0; sub < T::SUBS; sub++) {
        Bytes codes[T::GROUPS];
        alignas(64) uint8_t bytes[T::GROUPS][4 * LANES];
        float scales[LANES];
        unpack(panel, sub, table<T>(), codes, 0);
        for (int g = 0; g < T::GROUPS; g++) store(bytes[g], codes[g]);
        store(scales, panel.scales.scale(opened, sub));
        const float minimum = minimum_of<T>(panel, lane, sub);
        for (int i = 0; i < T::SUB; i++) {
            const uint8_t code = bytes[i / 4][4 * lane + i % 4];
            const int value = T::LARGEST == WIDE && !WIDE_OFFSET ? (int8_t) code : (int) code - T::OFFSET;
            to[sub * T::SUB + i] = scales[lane] * (float) value - minimum;
        }
    }
}

// What there is to do with a type of weights, by untyped pointers.
struct Product {
    int block;  // weights of a row in a panel
    size_t file_bytes, panel_bytes, activation_bytes;  // of a block
    void (*pack)(const char * const * rows, char * panel);
    void (*quantise)(const float * x, char * activations);
    void (*multiply)(const char * panel, int blocks, const char * const * rows, float * const * out, int count);
    void (*weights)(const char * panel, int lane, float * to);
};

template <class T, int ROWS>
void multiply_by(const char * panel, int blocks, const char * const * rows, float * const * out, int count) {
    if constexpr (ROWS > 1) {
        if (count < ROWS) return multiply_by<T, ROWS - 1>(panel, blocks, rows, out, count);
    }
    multiply<T, ROWS>((const Panel<T> *) panel, blocks, (const Activations<T> * const *) rows, out);
}

template <class T> const Product * product() {
    static_assert(sizeof(typename T::File) * 8 >= (size_t) T::BLOCK * (T::LOW + T::HIGH), "a block of a file");
    static const Product made = {
        T::BLOCK, sizeof(typename T::File), sizeof(Panel<T>), sizeof(Activations<T>),
        [](const char * const * rows, char * panel) {
            pack<T>((const typename T::File * const *) rows, *(Panel<T> *) panel);
        },
        [](const float * x, char * activations) { quantise<T>(x, *(Activations<T> *) activations); },
        multiply_by<T, TILE>,
        [](const char * panel, int lane, float * to) { weights<T>(*(const Panel<T> *) panel, lane, to); },
    };
    return &made;
}

}  // namespace localspec
