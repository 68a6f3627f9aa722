#pragma once

// A CPU that reads CUDA kernels: <gneiss/cuda/vocabulary.cuh> includes this where GNEISS_SIMT is defined.
//
// Each thread of a block is a fiber; blocks run one after another. What it finds, and how:
//   by itself, as simt::fault   barriers that diverge, masks that are wrong, lanes that have exited, deadlocks, kernels that
//                               spin, misaligned __ldg, launches that a GPU refuses
//   run with several seeds      missing barriers, blocks that write one place: the result depends on the order of threads
//   as NaN in the result        shared memory, static or dynamic, and device memory that nothing was written to
//   address sanitizer           what lies outside of arrays, shared and device memory
//   thread sanitizer            races within a block: to it each fiber is a thread, ordered with others by __syncthreads,
//                               __syncwarp and fences alone. Blocks are in order for it.
//   by counting                 simt::traffic_counter: requests, sectors and bytes of __ldg and its kin
// Not emulated: inline PTX, cooperative groups, textures, float rounding of approximate functions, blocks that wait for
// other blocks.

#include <simt/block.hpp>
#include <simt/collectives.hpp>
#include <simt/fiber.hpp>
#include <simt/poison.hpp>
#include <simt/runtime.hpp>
#include <simt/traffic.hpp>
#include <simt/words.hpp>
