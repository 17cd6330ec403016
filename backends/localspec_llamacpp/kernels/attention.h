// Products and attention of LocalSpec's own on llama.cpp's threads: who computes an operation.
#pragma once

#include "traits.h"

namespace localspec {

// Returns what computes this flash attention; nullptr leaves it to llama.cpp.
ggml::cpu::tensor_traits * attention_traits(const ggml_tensor * op);

// Returns what multiplies by this matrix of F32, F16 or BF16; nullptr leaves it to llama.cpp.
ggml::cpu::tensor_traits * plain_traits(const ggml_tensor * op);

}  // namespace localspec
