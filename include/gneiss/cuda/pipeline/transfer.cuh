#pragma once

#include <gneiss/cuda/core/transfer.cuh>
