#pragma once

#include "options.hpp"
#include "trainers/common/classifier.hpp"

namespace ginex {

using network = trainers::classifier;

} // namespace ginex
