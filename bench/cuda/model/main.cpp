// gneiss-gpu-model: prints docs/results/cuda-model.md.
#include <cstdio>

#include <cuda/macro_batch_model.hpp>

int main() { return std::fputs(gpu_model::page().c_str(), stdout) < 0; }
