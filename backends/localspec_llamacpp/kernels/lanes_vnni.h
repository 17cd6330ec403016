// Products by VNNI, which adds four of unsigned by signed bytes to each sum.
#pragma once

namespace localspec {

// Add the products of 4 * GROUPS weights of each lane with activations of some rows.
//
// Group by group, so that the sums of several rows are on their way at once; those of one or two
// rows are split. Sums of integers have no order.
template <int GROUPS, int LARGEST, int ROWS>
inline void add_products(const Bytes * weights, const int8_t * const * x, Ints * sums) {
    constexpr int CHAINS = ROWS < 3 ? 2 : 1;
    Ints more[ROWS];
    for (int r = 0; r < ROWS; r++) more[r] = ints(0);
#pragma GCC unroll 8
    for (int g = 0; g < GROUPS; g++) {
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; r++) {
            Ints & sum = CHAINS > 1 && g % 2 ? more[r] : sums[r];
            sum = dot(sum, weights[g], four(x[r] + 4 * g));
        }
    }
    for (int r = 0; CHAINS > 1 && r < ROWS; r++) sums[r] = plus(sums[r], more[r]);
}

}  // namespace localspec
