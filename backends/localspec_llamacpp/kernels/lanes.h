// The vectors of the processor that this is compiled for; without LOCALSPEC_LANES there are no products.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VNNI__)
#include "lanes_avx512.h"
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include "lanes_avx2.h"
#elif defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD)
#include "lanes_neon.h"
#endif

#ifdef LOCALSPEC_LANES
#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace localspec {

// Whether the processor looks far ahead itself while it is asked for what comes next only. Measured:
// Zen 4 does; on Emerald Rapids one to four rows take 1.25 to 1.45 times as long so.
inline const bool LOOKS_AHEAD = [] {
#ifdef __x86_64__
    unsigned most, vendor = 0, c, d;
    __get_cpuid(0, &most, &vendor, &c, &d);
    return vendor == signature_AMD_ebx;
#else
    return true;
#endif
}();

}  // namespace localspec
#endif
