#pragma once

// Emulates CUDA on the CPU: <gneiss/cuda/device_api.cuh> includes this if GNEISS_SIMT is defined.
//
// Each thread of a block is a fiber; blocks run one after another. Detected errors, by method:
//     simt::fault, always     barriers that diverge, wrong masks, lanes that have exited, deadlocks, kernels that spin,
//                             misaligned __ldg, launches that a GPU refuses
//     several seeds           missing barriers, blocks that write one place: the result depends on the order of threads
//     NaN in the result       shared memory, static or dynamic, and device memory that was never written
//     address sanitizer       accesses outside of arrays, shared and device memory
//     thread sanitizer        races within a block: each fiber is a thread for it, ordered with others only by
//                             __syncthreads, __syncwarp and fences. Blocks are ordered for it.
//     simt::traffic_counter   requests, sectors and bytes of __ldg and related accesses
//     simt::wavefront_counter accesses of shared memory and the banks in which they meet (wavefronts/)
// Not emulated: inline PTX, cooperative groups, textures, float rounding of approximate functions, blocks that wait for
// other blocks.

#include <simt/block.hpp>
#include <simt/collectives.hpp>
#include <simt/fiber.hpp>
#include <simt/poison.hpp>
#include <simt/runtime.hpp>
#include <simt/traffic.hpp>
#include <simt/words.hpp>
