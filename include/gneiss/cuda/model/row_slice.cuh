#pragma once

#include <gneiss/cuda/core/row_slice.cuh>
