// Kernels with invalid memory accesses; the address sanitizer must locate them. Each is a test of its name.
#include <map>
#include <string_view>

#include <gneiss/cuda/launch.cuh>

namespace {

__global__ void beyond_static_shared(float* memory, unsigned last) {
    __shared__ float tile[64];
    tile[threadIdx.x + last - 63] = 1.0F;
    memory[threadIdx.x] = tile[threadIdx.x];
}
__global__ void beyond_dynamic_shared(float*, unsigned last) {
    gneiss::cuda::dynamic_shared<float>()[threadIdx.x + last - 63] = 1.0F;
}
__global__ void beyond_device_memory(float* memory, unsigned last) { memory[threadIdx.x + last - 63] = 1.0F; }
__global__ void beyond_an_array(float* memory, unsigned last) {
    volatile float own[4] = {};
    own[threadIdx.x % 4 + last - 63] = 1.0F;
    memory[0] = own[0];
}
__global__ void memory_given_back(float* memory, unsigned) { memory[threadIdx.x] = 1.0F; }

} // namespace

int main(int count, char** arguments) {
    using kernel = void (*)(float*, unsigned);
    const std::map<std::string_view, kernel> kernels{{"beyond_static_shared", beyond_static_shared},
        {"beyond_dynamic_shared", beyond_dynamic_shared}, {"beyond_device_memory", beyond_device_memory},
        {"beyond_an_array", beyond_an_array}, {"memory_given_back", memory_given_back}};
    const std::string_view plant = count > 1 ? arguments[1] : "";
    void* memory = nullptr;
    cudaMalloc(&memory, 64 * sizeof(float));
    float* numbers = static_cast<float*>(memory);
    for (const unsigned last : {63U, 64U}) { // right, then by one too far
        if (plant == "memory_given_back" && last == 64) cudaFree(memory);
        gneiss::cuda::launch(nullptr, kernels.at(plant), dim3(2), dim3(64), 64 * sizeof(float), numbers, last);
    }
    return 0;
}
