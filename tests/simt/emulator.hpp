#pragma once

// A CPU that reads CUDA kernels: <gneiss/cuda/vocabulary.cuh> includes this where GNEISS_SIMT is defined.

#include <simt/block.hpp>
#include <simt/collectives.hpp>
#include <simt/fiber.hpp>
#include <simt/poison.hpp>
#include <simt/runtime.hpp>
#include <simt/traffic.hpp>
#include <simt/words.hpp>
