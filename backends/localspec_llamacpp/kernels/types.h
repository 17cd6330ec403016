// The types of weights: how a block lies in a file, and what its codes and scales mean.
//
// A weight is scale * (code - OFFSET) - minimum, with a scale (and a minimum) for each SUB weights
// and a code of LOW + HIGH bits, or one of 16 values of a table.
#pragma once
#include "lanes.h"

namespace localspec {

constexpr int8_t IQ4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
constexpr int8_t FP4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// Scales of a panel's rows: one in 16 bits for each row.
struct HalfScales {
    uint16_t d[LANES];
    struct Opened { Floats d; };
    Opened opened() const { return {halves(d)}; }
    Floats scale(const Opened & o, int) const { return o.d; }
};

// The same with a minimum, which is added.
struct HalfScalesAndMinima {
    uint16_t d[LANES], m[LANES];
    struct Opened { Floats d, least; };
    Opened opened() const { return {halves(d), multiplied(halves(m), all(-1.0f))}; }
    Floats scale(const Opened & o, int) const { return o.d; }
};

// Powers of two, of MXFP4, halved since its values are doubled.
struct PowerScales {
    uint8_t e[LANES];
    struct Opened { Floats d; };
    Opened opened() const {
        const Floats large = bits_as_floats(shifted_left<23>(unsigned_bytes(e)));
        return {multiplied(large, all(0.5f))};
    }
    Floats scale(const Opened & o, int) const { return o.d; }
};

// One in 16 bits for each row, times one of a signed byte for each sub-block.
template <int SUBS> struct SignedScales {
    int8_t s[SUBS][LANES];
    uint16_t d[LANES];
    struct Opened { Floats d; };
    Opened opened() const { return {halves(d)}; }
    Floats scale(const Opened & o, int sub) const { return multiplied(o.d, as_floats(signed_bytes(s[sub]))); }
};

// The same unsigned, and likewise for the minima, of which those of four sub-blocks lie side by side.
template <int SUBS> struct ScalesAndMinima {
    uint8_t s[SUBS][LANES], m[SUBS / 4][4 * LANES];
    uint16_t d[LANES], dmin[LANES];
    struct Opened { Floats d, least; };
    Opened opened() const { return {halves(d), halves(dmin)}; }
    Floats scale(const Opened & o, int sub) const { return multiplied(o.d, as_floats(unsigned_bytes(s[sub]))); }
    Bytes minima(int four) const { return load(m[four]); }
};

// The same in four bits each: two scales, or minima of two times four sub-blocks, to a byte.
template <int SUBS> struct NibbleScales {
    uint8_t s[SUBS / 2][LANES], m[SUBS / 8][4 * LANES];
    uint16_t d[LANES], dmin[LANES];
    struct Opened { Floats d, least; };
    Opened opened() const { return {halves(d), halves(dmin)}; }
    Floats scale(const Opened & o, int sub) const {
        const Ints two = unsigned_bytes(s[sub / 2]);
        return multiplied(o.d, as_floats(sub % 2 ? shifted_right<4>(two) : low_nibble(two)));
    }
    Bytes minima(int four) const {
        const Bytes two = load(m[four / 2]);
        return both(four % 2 ? right<4>(two) : two, all_bytes(15));
    }
};

// What all types share; LARGEST is the largest code, for the width of partial sums.
template <int BLOCK_, int SUB_, int LOW_, int HIGH_, int OFFSET_, bool MINIMA_ = false> struct Form {
    static constexpr int BLOCK = BLOCK_, SUB = SUB_, SUBS = BLOCK_ / SUB_, GROUPS = SUB_ / 4;
    static constexpr int LOW = LOW_, HIGH = HIGH_, OFFSET = OFFSET_, LARGEST = (1 << (LOW_ + HIGH_)) - 1;
    static constexpr bool MINIMA = MINIMA_;
    static constexpr const int8_t * TABLE = nullptr;
};
constexpr int WIDE = 255;  // a code that fills its byte: signed, or with WIDE_OFFSET added

inline void nibbles(const uint8_t * packed, int count, uint8_t * codes) {
    for (int i = 0; i < count; i++) {
        codes[i] = packed[i] & 15;
        codes[i + count] = packed[i] >> 4;
    }
}
inline void fifth_bits(const uint8_t * bits, uint8_t * codes) {
    for (int i = 0; i < 32; i++) codes[i] |= ((bits[i / 8] >> (i % 8)) & 1) << 4;
}
// Read the 6-bit scale and minimum of Q4_K and Q5_K.
inline void six_bits(const uint8_t * packed, int sub, uint8_t & scale, uint8_t & minimum) {
    if (sub < 4) {
        scale = packed[sub] & 63;
        minimum = packed[sub + 4] & 63;
    } else {
        scale = (packed[sub + 4] & 15) | ((packed[sub - 4] >> 6) << 4);
        minimum = (packed[sub + 4] >> 4) | ((packed[sub] >> 6) << 4);
    }
}

struct Q4_0 : Form<32, 32, 4, 0, 8> {
    struct File { uint16_t d; uint8_t qs[16]; };
    using Scales = HalfScales;
    static void read(const File & f, int lane, Scales & s, uint8_t * codes) {
        s.d[lane] = f.d;
        nibbles(f.qs, 16, codes);
    }
};
struct Q4_1 : Form<32, 32, 4, 0, 0, true> {
    struct File { uint16_t d, m; uint8_t qs[16]; };
    using Scales = HalfScalesAndMinima;
    static void read(const File & f, int lane, Scales & s, uint8_t * codes) {
        s.d[lane] = f.d;
        s.m[lane] = f.m;
        nibbles(f.qs, 16, codes);
    }
};
struct Q5_0 : Form<32, 32, 4, 1, 16> {
    struct File { uint16_t d; uint8_t qh[4], qs[16]; };
    using Scales = HalfScales;
    static void read(const File & f, int lane, Scales & s, uint8_t * codes) {
        s.d[lane] = f.d;
        nibbles(f.qs, 16, codes);
        fifth_bits(f.qh, codes);
    }
};
struct Q5_1 : Form<32, 32, 4, 1, 0, true> {
    struct File { uint16_t d, m; uint8_t qh[4], qs[16]; };
    using Scales = HalfScalesAndMinima;
    static void read(const File & f, int lane, Scales & s, uint8_t * codes) {
        s.d[lane] = f.d;
        s.m[lane] = f.m;
        nibbles(f.qs, 16, codes);
        fifth_bits(f.qh, codes);
    }
};
struct Q8_0 : Form<32, 32, 8, 0, WIDE_OFFSET> {
    static constexpr int LARGEST = WIDE;
    struct File { uint16_t d; int8_t qs[32]; };
    using Scales = HalfScales;
    static void read(const File & f, int lane, Scales & s, uint8_t * codes) {
        s.d[lane] = f.d;
        for (int i = 0; i < 32; i++) codes[i] = (uint8_t) (f.qs[i] + WIDE_OFFSET);
    }
};
struct IQ4_NL : Form<32, 32, 4, 0, WIDE_OFFSET> {
    static constexpr int LARGEST = WIDE;
    static constexpr const int8_t * TABLE = IQ4;
    struct File { uint16_t d; uint8_t qs[16]; };
    using Scales = HalfScales;
    static void read(const File & f, int lane, Scales & s, uint8_t * codes) {
        s.d[lane] = f.d;
        nibbles(f.qs, 16, codes);
    }
};
struct MXFP4 : Form<32, 32, 4, 0, WIDE_OFFSET> {
    static constexpr int LARGEST = WIDE;
    static constexpr const int8_t * TABLE = FP4;
    struct File { uint8_t e, qs[16]; };
    using Scales = PowerScales;
    static void read(const File & f, int lane, Scales & s, uint8_t * codes) {
        s.e[lane] = f.e;
        nibbles(f.qs, 16, codes);
    }
};
struct Q4_K : Form<256, 32, 4, 0, 0, true> {
    struct File { uint16_t d, dmin; uint8_t scales[12], qs[128]; };
    using Scales = ScalesAndMinima<8>;
    static void read(const File & f, int lane, Scales & s, uint8_t * codes) {
        s.d[lane] = f.d;
        s.dmin[lane] = f.dmin;
        for (int sub = 0; sub < 8; sub++) six_bits(f.scales, sub, s.s[sub][lane], s.m[sub / 4][4 * lane + sub % 4]);
        for (int j = 0; j < 4; j++) nibbles(f.qs + 32 * j, 32, codes + 64 * j);
    }
};
struct Q5_K : Form<256, 32, 4, 1, 0, true> {
    struct File { uint16_t d, dmin; uint8_t scales[12], qh[32], qs[128]; };
    using Scales = ScalesAndMinima<8>;
    static void read(const File & f, int lane, Scales & s, uint8_t * codes) {
        s.d[lane] = f.d;
        s.dmin[lane] = f.dmin;
        for (int sub = 0; sub < 8; sub++) six_bits(f.scales, sub, s.s[sub][lane], s.m[sub / 4][4 * lane + sub % 4]);
        for (int j = 0; j < 4; j++) nibbles(f.qs + 32 * j, 32, codes + 64 * j);
        for (int sub = 0; sub < 8; sub++) {
            for (int i = 0; i < 32; i++) codes[32 * sub + i] |= ((f.qh[i] >> sub) & 1) << 4;
        }
    }
};
struct Q6_K : Form<256, 16, 4, 2, 32> {
    struct File { uint8_t ql[128], qh[64]; int8_t scales[16]; uint16_t d; };
    using Scales = SignedScales<16>;
    static void read(const File & f, int lane, Scales & s, uint8_t * codes) {
        s.d[lane] = f.d;
        for (int sub = 0; sub < 16; sub++) s.s[sub][lane] = f.scales[sub];
        for (int half = 0; half < 2; half++) {
            const uint8_t * ql = f.ql + 64 * half, * qh = f.qh + 32 * half;
            uint8_t * y = codes + 128 * half;
            nibbles(ql, 64, y);
            for (int part = 0; part < 4; part++) {
                for (int i = 0; i < 32; i++) y[32 * part + i] |= ((qh[i] >> (2 * part)) & 3) << 4;
            }
        }
    }
};
struct Q2_K : Form<256, 16, 2, 0, 0, true> {
    struct File { uint8_t scales[16], qs[64]; uint16_t d, dmin; };
    using Scales = NibbleScales<16>;
    static void read(const File & f, int lane, Scales & s, uint8_t * codes) {
        s.d[lane] = f.d;
        s.dmin[lane] = f.dmin;
        for (int sub = 0; sub < 16; sub += 2) {
            s.s[sub / 2][lane] = (f.scales[sub] & 15) | (f.scales[sub + 1] & 15) << 4;
        }
        for (int sub = 0; sub < 8; sub++) {  // and the one eight further on
            const int other = sub / 4 * 8 + sub % 4;
            s.m[sub / 4][4 * lane + sub % 4] = (f.scales[other] >> 4) | (f.scales[other + 4] & 0xF0);
        }
        for (int i = 0; i < 256; i++) codes[i] = (f.qs[32 * (i / 128) + i % 32] >> (2 * (i / 32 % 4))) & 3;
    }
};
struct Q3_K : Form<256, 16, 2, 1, 4> {
    struct File { uint8_t hmask[32], qs[64], scales[12]; uint16_t d; };
    using Scales = SignedScales<16>;
    static void read(const File & f, int lane, Scales & s, uint8_t * codes) {
        s.d[lane] = f.d;
        for (int sub = 0; sub < 16; sub++) {
            const int low = sub < 8 ? f.scales[sub] & 15 : f.scales[sub - 8] >> 4;
            s.s[sub][lane] = (int8_t) ((low | (((f.scales[8 + sub % 4] >> (2 * (sub / 4))) & 3) << 4)) - 32);
        }
        for (int i = 0; i < 256; i++) {
            codes[i] = (f.qs[32 * (i / 128) + i % 32] >> (2 * (i / 32 % 4))) & 3;
            codes[i] |= ((f.hmask[i % 32] >> (i / 32)) & 1) << 2;
        }
    }
};
struct IQ4_XS : Form<256, 32, 4, 0, WIDE_OFFSET> {
    static constexpr int LARGEST = WIDE;
    static constexpr const int8_t * TABLE = IQ4;
    struct File { uint16_t d, scales_h; uint8_t scales_l[4], qs[128]; };
    using Scales = SignedScales<8>;
    static void read(const File & f, int lane, Scales & s, uint8_t * codes) {
        s.d[lane] = f.d;
        for (int sub = 0; sub < 8; sub++) {
            const int low = (f.scales_l[sub / 2] >> (4 * (sub % 2))) & 15;
            s.s[sub][lane] = (int8_t) ((low | (((f.scales_h >> (2 * sub)) & 3) << 4)) - 32);
            nibbles(f.qs + 16 * sub, 16, codes + 32 * sub);
        }
    }
};

}  // namespace localspec
