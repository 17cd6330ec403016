// Lanes, simdgroups and matrix units of a GPU, emulated: compiles few_rows.metal as C++.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

using std::fma;
using std::max;
using std::min;
using uint = uint32_t;

namespace {

int faults = 0;  // reads or writes out of bounds, or of what another lane may not have written yet

template <typename To>
To as_type(uint bits) {
    To value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

struct Fragment {
    float at[8][8];
    Fragment() { std::fill_n(&at[0][0], 64, std::numeric_limits<float>::quiet_NaN()); }
    float& of_lane(uint lane, uint index) {  // as in Apple's matrices: quarters of 4x4, row by row
        const uint quarter = lane / 8, pair = lane % 8;
        return at[quarter / 2 * 4 + pair / 2][quarter % 2 * 4 + pair % 2 * 2 + index];
    }
};

void simdgroup_multiply_accumulate(Fragment& to, const Fragment& a, const Fragment& b,
                                   const Fragment& add) {
    Fragment sum = add;
    for (int row = 0; row < 8; ++row)
        for (int k = 0; k < 8; ++k)
            for (int column = 0; column < 8; ++column)
                sum.at[row][column] = fma(a.at[row][k], b.at[k][column], sum.at[row][column]);
    to = sum;
}

struct Brain {  // a number of 16 bits, half of a float
    uint16_t bits = 0;
    Brain() = default;
    explicit Brain(float value) {
        uint whole;
        std::memcpy(&whole, &value, sizeof whole);
        bits = (whole + 0x7FFF + (whole >> 16 & 1)) >> 16;
    }
    explicit operator float() const { return as_type<float>(uint(bits) << 16); }
};

template <typename T>
struct Device {  // memory of a known size
    T* numbers;
    size_t count;
    T& operator[](size_t index) const {
        faults += index >= count;
        return numbers[index < count ? index : 0];
    }
};

struct Shared {  // memory of a threadgroup: what was written is seen by others after a barrier
    struct Cell {
        Shared* memory;
        size_t index;
        Cell& operator=(float value) {
            memory->numbers.at(index) = value;
            memory->written.at(index) = memory->barriers;
            return *this;
        }
        operator float() const {
            faults += memory->written.at(index) >= memory->barriers;
            return memory->numbers.at(index);
        }
    };
    std::vector<float> numbers;
    std::vector<int> written;
    int barriers = 0;
    explicit Shared(size_t count)
        : numbers(count), written(count, std::numeric_limits<int>::max()) {}
    Cell operator[](size_t index) { return {this, index}; }
};

}  // namespace

#define constant
#define thread
#define ELEMENT(fragment, index) fragment.of_lane(lane, index)
#define EACH_PART for (part = 0; part < PARTS; ++part)
#define EACH_LANE for (lane = 0; lane < 32; ++lane)
#define BARRIER ++sums.barriers;
#define UNROLL
#include "few_rows.metal"

namespace {

struct Product {
    const void *x, *words, *scales, *biases;
    void* products;
    uint rows, inputs, outputs;
};

template <typename Number, typename Scale, int FORM, uint BITS, uint GROUP, uint TILES>
void run(const Product& of) {
    const size_t size = size_t(of.inputs) * of.outputs;
    const Device<const Number> x{static_cast<const Number*>(of.x), size_t(of.rows) * of.inputs};
    const Device<const uint> words{static_cast<const uint*>(of.words), size * BITS / 32};
    const Device<const Scale> scales{static_cast<const Scale*>(of.scales), size / GROUP};
    const Device<const Scale> biases{static_cast<const Scale*>(of.biases), size / GROUP};
    const Device<Number> products{static_cast<Number*>(of.products),
                                  size_t(of.rows) * of.outputs};
    for (uint group = 0; group * OUTPUTS < of.outputs; ++group) {
        Shared sums(PARTS * OUTPUTS * 8 * TILES);
        few_rows<Number, FORM, BITS, GROUP, TILES, Device<const Number>, Device<const uint>,
                 Device<const Scale>, Device<const Scale>, Device<Number>, Shared&>(
            x, words, scales, biases, products, sums, of.rows, of.inputs, of.outputs, group, 0, 0);
    }
}

template <typename Number, typename Scale, int FORM, uint BITS, uint GROUP>
void of_rows(const Product& of) {
    if (of.rows > 8)
        run<Number, Scale, FORM, BITS, GROUP, 2>(of);
    else
        run<Number, Scale, FORM, BITS, GROUP, 1>(of);
}

void of_kind(const Product& of, int form, uint bits, uint group, bool brain) {
    if (form == MXFP4) return of_rows<float, uint8_t, MXFP4, 4, 32>(of);
    if (form == NVFP4) return of_rows<float, uint8_t, NVFP4, 4, 16>(of);
    if (brain) return of_rows<Brain, Brain, AFFINE, 4, 64>(of);
    if (bits == 4 && group == 32) return of_rows<float, float, AFFINE, 4, 32>(of);
    if (bits == 4 && group == 64) return of_rows<float, float, AFFINE, 4, 64>(of);
    if (bits == 4 && group == 128) return of_rows<float, float, AFFINE, 4, 128>(of);
    if (bits == 8 && group == 32) return of_rows<float, float, AFFINE, 8, 32>(of);
    if (bits == 8 && group == 64) return of_rows<float, float, AFFINE, 8, 64>(of);
    if (bits == 8 && group == 128) return of_rows<float, float, AFFINE, 8, 128>(of);
    ++faults;
}

}  // namespace

extern "C" int few_rows_product(const Product* of, int form, uint bits, uint group, int brain) {
    faults = 0;
    of_kind(*of, form, bits, group, brain);
    return faults;
}
